package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// fault is what is done in an attack.
type fault string

const (
	killChild    fault = "kill-child"    // a process that uses the engine itself, by SIGKILL
	killGuardian fault = "kill-guardian" // a tenure lock
	killCommand  fault = "kill-command"  // its command
	killGuarded  fault = "kill-guarded"  // both
	stopChild    fault = "stop-child"    // SIGSTOP beyond the deadline, then SIGCONT
	stopGuarded  fault = "stop-guarded"
	hangChild    fault = "hang-child" // all accesses of a process hang, and go on later
	vanish       fault = "vanish"     // a directory is taken away, and brought back
	vanishEmpty  fault = "vanish-empty"
	restore      fault = "restore"  // a directory is replaced by an older copy
	flipOne      fault = "flip-one" // a bit in one copy of a record
	flipBoth     fault = "flip-both"
	fill         fault = "fill"   // no room on the filesystem
	freeze       fault = "freeze" // writes hang, and land later
)

var faultsOfProcesses = []fault{killChild, killChild, killGuardian, killCommand, killGuarded, stopChild, stopChild, stopGuarded, hangChild}

// A restored directory is masked by others only. A device has no name to take away.
var (
	faultsOfDevice = []fault{freeze}
	faultsOfOne    = []fault{vanish, flipOne, flipBoth, fill, freeze}
	faultsOfSome   = append([]fault{vanishEmpty, restore}, faultsOfOne...)
)

// attack is a step of the schedule.
type attack struct {
	wait  time.Duration // before it
	fault fault
	pick  int           // which process, or which directory
	last  time.Duration // until it is undone
}

func (a attack) String() string {
	return fmt.Sprintf("%v: %s %d for %v", a.wait, a.fault, a.pick, a.last)
}

// schedule draws attacks from a seed, about as many as fit into a time.
func schedule(seed uint64, total time.Duration, cfg Config) (attacks []attack) {
	random := rand.New(rand.NewPCG(seed, 1))
	ms := func(from, to int) time.Duration { return time.Duration(from+random.IntN(to-from)) * time.Millisecond }
	dirs := faultsOfOne
	switch {
	case cfg.Stores == 0:
		dirs = faultsOfDevice
	case cfg.Stores > 1:
		dirs = faultsOfSome
	}
	for sum := time.Duration(0); sum < total; {
		a := attack{wait: ms(50, 800), pick: random.IntN(100)}
		if random.IntN(2) == 0 {
			a.fault = faultsOfProcesses[random.IntN(len(faultsOfProcesses))]
		} else {
			a.fault = dirs[random.IntN(len(dirs))]
		}
		switch a.fault {
		case stopChild, stopGuarded, hangChild:
			a.last = cfg.Term + ms(100, 1500)
		case vanish, vanishEmpty, restore, fill, freeze:
			a.last = ms(50, 500)
			if cfg.Stores > 0 && random.IntN(2) == 0 { // on a device no write may be later than Δ
				a.last += cfg.Term
			}
		}
		attacks = append(attacks, a)
		sum += a.wait + a.last
	}
	return attacks
}

func (a attack) ofProcess() bool {
	switch a.fault {
	case killChild, killGuardian, killCommand, killGuarded, stopChild, stopGuarded, hangChild:
		return true
	}
	return false
}

// nemesis carries attacks out.
type nemesis struct {
	cfg       Config
	places    []*place
	processes *processes
	random    *rand.Rand
	barren    []window
	chronicle []deed
}

// deed is an attack as it was carried out.
type deed struct {
	attack
	reached  []int // processes
	from, to time.Duration
	err      error
}

func (d deed) String() string {
	text := fmt.Sprintf("%v to %v: %s %d", d.from, d.to, d.fault, d.pick)
	if d.ofProcess() {
		text += fmt.Sprintf(", processes %v", d.reached)
	}
	if d.err != nil {
		text += ": " + d.err.Error()
	}
	return text
}

// run leaves directories alone for a while after an attack on one: one that came back
// counts only then, and no more than a minority may be missing at a time. Attacks on
// processes go on.
func (n *nemesis) run(attacks []attack) error {
	calm := now()
	for _, a := range attacks {
		time.Sleep(a.wait)
		if !a.ofProcess() {
			time.Sleep(calm - now())
		}
		from := now()
		reached, err := n.attack(a)
		n.chronicle = append(n.chronicle, deed{a, reached, from, now(), err})
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%v: %w", a, err)
		}
		if a.ofProcess() {
			continue
		}
		calm = now() + n.cfg.quiet()
		to := now()
		if a.fault == flipOne || a.fault == flipBoth {
			to = calm
		}
		if n.cfg.Stores <= 1 {
			n.barren = append(n.barren, window{0, from, to, string(a.fault)})
		}
	}
	return nil
}

// attack returns which processes it reached.
func (n *nemesis) attack(a attack) (reached []int, err error) {
	p := n.places[a.pick%len(n.places)]
	last := func() { time.Sleep(a.last) }
	switch a.fault {
	case killChild:
		reached = n.processes.signal(false, a.pick, syscall.SIGKILL, true, false)
	case killGuardian:
		reached = n.processes.signal(true, a.pick, syscall.SIGKILL, true, false)
	case killCommand:
		reached = n.processes.signal(true, a.pick, syscall.SIGKILL, false, true)
	case killGuarded:
		reached = n.processes.signal(true, a.pick, syscall.SIGKILL, true, true)
	case stopChild, stopGuarded:
		from := now()
		guarded := a.fault == stopGuarded
		reached = n.processes.signal(guarded, a.pick, syscall.SIGSTOP, true, guarded)
		n.processes.halt(reached, from, last)
	case hangChild:
		reached = n.processes.signal(false, a.pick, syscall.SIGUSR1, true, false)
		last()
		for _, pid := range reached {
			n.processes.send(pid, syscall.SIGUSR2)
		}
	case vanish:
		err = around(p.vanish, last, p.back)
	case vanishEmpty:
		err = around(p.vanish, func() {}, func() error {
			return errors.Join(around(p.empty, last, p.unempty), p.back())
		})
	case restore:
		err = around(p.backup, last, p.restore)
	case flipOne, flipBoth:
		err = p.flip(n.random, a.fault == flipBoth)
	case fill, freeze:
		if !p.mounted {
			return nil, errNothing
		}
		if a.fault == fill {
			err = around(p.fill, last, p.drain)
		} else {
			err = around(p.freeze, last, p.thaw)
		}
	}
	return reached, err
}

// around undoes what was done, after a while.
func around(do func() error, last func(), undo func() error) error {
	if err := do(); err != nil {
		return err
	}
	last()
	return undo()
}
