package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	leases "github.com/tenure-lease/tenure/compat/storage"
)

// Config says what to torture.
type Config struct {
	Dir    string // for everything, on a filesystem with direct I/O
	Seed   uint64
	Time   time.Duration // of attacks, about
	Stores int           // directories of the set; 0: one device, in a file
	Term   time.Duration
	Delay  time.Duration

	Self      string // program that calls Child when Variable is set
	Tenure    string // the tenure command; empty: no guardians
	Children  int
	Guardians int
	Naive     bool     // children that do not watch their deadline, to see them found
	Attacks   []attack // instead of those drawn by the seed
}

// quiet is how long something that went back, or is damaged, does not count.
func (c Config) quiet() time.Duration { return (c.Term + 6*c.Delay) * 11 / 10 }

// Outcome counts what a run saw, so that a run in which nothing happened does not pass
// for a good one.
type Outcome struct {
	Attacks []deed
	Skipped int // that found nothing to attack, or were not possible here

	Tenures, Told, Refused int
	Guarded, Lost          int           // runs of guardians, those that ended with 76
	Longest                time.Duration // without a holder, when there could have been one
	Takeover               time.Duration // its bound, without slack
	Late                   time.Duration // in which this machine was
	Stalled                time.Duration // with all shorter stalls
}

func (o Outcome) String() string {
	return fmt.Sprintf("%d attacks (%d not possible), %d tenures, %d told, %d refused by the fence, %d guardians, %d of them lost; longest without a holder %v (promised %v), machine late for %v, stalled for %v",
		len(o.Attacks), o.Skipped, o.Tenures, o.Told, o.Refused, o.Guarded, o.Lost,
		o.Longest.Round(time.Millisecond), o.Takeover.Round(time.Millisecond), o.Late.Round(time.Millisecond), o.Stalled.Round(time.Millisecond))
}

// deeds lists the attacks, a line each.
func (o Outcome) deeds() string {
	var text strings.Builder
	for _, d := range o.Attacks {
		fmt.Fprintln(&text, d)
	}
	return text.String()
}

// names are what children take. Guardians take the first.
var names = []string{"a", "b"}

// Run tortures stores and returns what the judges found.
func Run(ctx context.Context, cfg Config) (out Outcome, err error) {
	attacks := cfg.Attacks
	if attacks == nil {
		attacks = schedule(cfg.Seed, cfg.Time, cfg)
	}
	n := &nemesis{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 2))}
	var dirs []string
	for i := range max(cfg.Stores, 1) {
		p, err := newPlace(cfg.Dir, i)
		if err != nil {
			return out, err
		}
		defer func() { err = errors.Join(err, p.remove()) }()
		n.places, dirs = append(n.places, p), append(dirs, p.store())
	}
	if err := cfg.makeStores(dirs); err != nil {
		return out, err
	}
	ps := newProcesses(cfg.Dir, childConfig{Logs: cfg.Dir, Dirs: dirs, Names: names, Seed: cfg.Seed << 16, Naive: cfg.Naive})
	ps.self, ps.tenure, ps.at, ps.ttl = cfg.Self, cfg.Tenure, "file://"+strings.Join(dirs, ","), cfg.Term
	n.processes = ps
	defer ps.end()
	for i := range cfg.Children + cfg.Guardians {
		if err := ps.add(i >= cfg.Children); err != nil {
			return out, err
		}
	}
	stalled := watchStalls(ctx)
	from := now()
	err = n.run(attacks)
	os.WriteFile(cfg.Dir+"/attacks", []byte(Outcome{Attacks: n.chronicle}.deeds()), 0o644)
	out.Attacks = n.chronicle
	if err != nil {
		return out, err
	}
	h := history{
		stopped: ps.stopped, barren: n.barren, term: cfg.Term, delay: cfg.Delay, commands: map[int]bool{},
	}
	time.Sleep(h.takeover())
	h.from, h.to = from+time.Second, now() // processes take a moment to start
	ps.end()
	measured := stalled()
	h.stalls, h.late = measured.all, measured.late
	out.Late, out.Stalled = within(h.late, h.from, h.to), within(h.stalls, h.from, h.to)
	for _, d := range out.Attacks {
		if errors.Is(d.err, errNothing) {
			out.Skipped++
		}
	}
	var errs []error
	for _, name := range names {
		h.name = name
		if h.lines, err = readLog(cfg.Dir, name); err != nil {
			return out, err
		}
		for _, l := range h.lines {
			if l.until == 0 {
				h.commands[l.pid] = true
			}
		}
		errs = append(errs, h.judge())
		out.count(&h)
		if name == names[0] {
			errs = append(errs, ps.judge(&h))
		}
	}
	for _, g := range ps.runs {
		out.Guarded++
		if g.code == exitLost {
			out.Lost++
		}
	}
	return out, errors.Join(errs...)
}

func (c Config) makeStores(paths []string) error {
	if c.Stores == 0 {
		return leases.MakeDevice(c.Term, c.Delay, paths[0], 4<<20, 4*(c.Children+c.Guardians))
	}
	for _, dir := range paths {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	return leases.Make(c.Term, c.Delay, paths...)
}

func (o *Outcome) count(h *history) {
	all, _ := h.tenancies() // judged before
	o.Tenures += len(all)
	for _, l := range h.lines {
		switch l.what {
		case told:
			o.Told++
		case stale:
			o.Refused++
		}
	}
	o.Takeover = max(o.Takeover, h.takeover())
	o.Longest = max(o.Longest, h.longest())
}

// Errors of holders are on their standard error.
func (c Config) stderr() string {
	b, _ := os.ReadFile(c.Dir + "/stderr")
	return string(b)
}
