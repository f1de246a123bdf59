package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

var (
	guardWorlds = flag.Int("guardworlds", 150, "how many worlds of a guard to play")
	guardFirst  = flag.Uint64("guardfirst", 1, "the first of them")
	guardSeed   = flag.Uint64("guardseed", 0, "play this world of a guard alone")
)

// TestGuardWorlds plays the guard and the shepherd that ship, in simulated time. The store fails, an
// operator ends the lease, the guard is stopped or killed between any two calls that leave it, or the
// shepherd is stopped alone. Commands ignore signals and leave children behind. No process of the
// command may be alive once the lease can be another's, or when it is released; and a command that
// nothing troubles ends by itself.
func TestGuardWorlds(t *testing.T) {
	first, last := *guardFirst, *guardFirst+uint64(*guardWorlds)-1
	if *guardSeed != 0 {
		first, last = *guardSeed, *guardSeed
	}
	seen := map[string]int{}
	for seed := first; seed <= last; seed++ {
		synctest.Test(t, func(t *testing.T) { playGuard(t, seed, seen) })
		if t.Failed() {
			t.Fatalf("go test ./cmd/tenure -run TestGuardWorlds -guardseed %d", seed)
		}
	}
	t.Logf("%d worlds: %v", last-first+1, seen)
	if *guardSeed != 0 || *guardWorlds < 150 {
		return // too few for all that can happen
	}
	for _, what := range []string{"undisturbed", "stopped", "killed", "outage", "revoked", "killed by the shepherd", "lost", "exit", "child left behind", "ends on TERM", "shepherd stopped", "killed, and lives on"} {
		if seen[what] == 0 {
			t.Errorf("in no world was there: %s", what)
		}
	}
}

// guardWorld is a guard, a command, a shepherd and a store. Its lock is held by whatever runs in
// it, but while that sleeps.
type guardWorld struct {
	mu    sync.Mutex
	rand  *rand.Rand
	clock clock.Clock
	notes []string
	begun time.Time

	calls     int           // that the guard has made to the outside
	stopAt    int           // the call before which it is stopped
	stopFor   time.Duration // 0: it is not
	killAt    int           // the call before which it is killed; 0: it is not
	frozen    time.Time     // until when it is stopped
	dead      bool          // it was killed
	told      bool          // the shepherd knows the group
	dismissed time.Time     // when the shepherd was told to go

	ttl      time.Duration
	deadline time.Time    // until when the store keeps the lease
	outages  [2]time.Time // no renewal succeeds between the two
	revoked  time.Time    // when an operator ends the lease; zero: never
	lostAt   time.Time    // when the engine has learned that
	released bool
	done     chan struct{}

	herdFrozen time.Time // until when the shepherd is stopped

	command []*child // the first is the command itself
	exited  chan int
	wrong   string
	byFlock bool // the shepherd has killed
}

// child is a process of the command's group.
type child struct {
	alive, deaf bool          // deaf ones ignore SIGTERM
	slow        time.Duration // how long another process takes to end when it is asked to
	killed      bool
	stuck       time.Duration // how long it takes to end when it is killed, beside the usual time
}

func (w *guardWorld) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf("%8v ", time.Since(w.begun).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

// call is made before each call of the guard to the outside.
func (w *guardWorld) call(what string) {
	w.calls++
	if w.calls == w.stopAt && w.stopFor > 0 {
		w.note("stopped before %s, for %v", what, w.stopFor)
		w.frozen = time.Now().Add(w.stopFor)
		if w.rand.IntN(2) == 0 { // once more
			w.stopAt, w.stopFor = w.calls+1+w.rand.IntN(8), w.ttl/10+time.Duration(w.rand.Int64N(int64(3*w.ttl)))
		}
	}
	if w.calls == w.killAt && !w.dead {
		w.note("killed before %s", what)
		w.dead = true
	}
	w.stand()
}

// stand stands still while the guard is stopped, and for ever when it is dead.
func (w *guardWorld) stand() {
	for !w.dead && time.Now().Before(w.frozen) {
		w.sleep(time.Until(w.frozen))
	}
	if w.dead {
		runtime.Goexit()
	}
}

func (w *guardWorld) sleep(d time.Duration) {
	w.mu.Unlock()
	defer w.mu.Lock()
	time.Sleep(d)
}

func (w *guardWorld) after(d time.Duration, do func()) {
	time.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		do()
	})
}

// kill and alive are the kernel's.
func (w *guardWorld) kill(group int, sig syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call(sig.String())
	w.strike(sig)
}

func (w *guardWorld) strike(sig syscall.Signal) {
	w.note("the group gets %v", sig)
	for _, c := range w.command {
		switch {
		case !c.alive || c.killed:
		case sig == syscall.SIGKILL:
			c.killed = true
			w.after(c.stuck+time.Duration(w.rand.Int64N(int64(w.ttl/50))), func() { w.end(c, cli.ExitSignal+int(syscall.SIGKILL)) })
		case sig == syscall.SIGTERM && !c.deaf:
			w.after(c.slow, func() { w.end(c, cli.ExitSignal+int(syscall.SIGTERM)) })
		}
	}
}

func (w *guardWorld) end(c *child, code int) {
	if !c.alive {
		return
	}
	c.alive = false
	if c == w.command[0] {
		w.note("the command ends with %d", code)
		w.exited <- code
	}
}

func (w *guardWorld) alive(int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call("looking")
	return w.living() > 0
}

func (w *guardWorld) living() (n int) {
	for _, c := range w.command {
		if c.alive {
			n++
		}
	}
	return n
}

// Alarm and Now are the guard's clock.
func (w *guardWorld) Now() machine.Mono {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call("reading the clock")
	return w.clock.Now()
}

func (w *guardWorld) Alarm(at machine.Mono) *clock.Alarm { return w.clock.Alarm(at) }

// worldLease is the lease, as the guard sees it.
type worldLease struct {
	tenure.Lease // of which nothing more is needed
	*guardWorld
}

func (l worldLease) Name() string          { return "x" }
func (l worldLease) Holder() string        { return "guard" }
func (l worldLease) Token() uint64         { return 1 }
func (l worldLease) Done() <-chan struct{} { return l.done }
func (l worldLease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost()
}
func (l worldLease) lost() error {
	if time.Now().Before(l.deadline) && !l.released && l.lostAt.IsZero() {
		return nil
	}
	return tenure.ErrLost
}
func (l worldLease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call("checking the lease")
	return l.lost()
}
func (l worldLease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call("asking for the deadline")
	return l.deadline
}
func (l worldLease) Release(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call("releasing")
	l.note("released")
	if n := l.living(); n > 0 {
		l.fail("the lease was released while %d processes of the command lived", n)
	}
	l.released = true
	return nil
}

// renew is the engine's: it renews every third of a TTL, in the guard's process.
func (w *guardWorld) renew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		w.sleep(w.ttl / 3)
		w.stand()
		now := time.Now()
		switch {
		case w.released:
			return
		case !w.revoked.IsZero() && now.After(w.revoked) && now.Before(w.deadline):
			w.note("the engine learns that the lease was revoked")
			w.lostAt = now
			close(w.done)
			return
		case !now.Before(w.deadline):
			w.note("the lease is lost")
			close(w.done)
			return
		case now.Before(w.outages[0]) || now.After(w.outages[1]):
			w.deadline = now.Add(w.ttl)
		default:
			w.sleep(min(w.ttl/10, time.Until(w.deadline))) // it tries again, and again
			w.stand()
		}
	}
}

func (w *guardWorld) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
		w.note("%s", w.wrong)
	}
}

// orders is the guard's end of the pipe to the shepherd.
type orders struct {
	*backlog
	w *guardWorld
}

func (o orders) Write(p []byte) (int, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	o.w.call("telling the shepherd")
	n, err := o.backlog.Write(p)
	o.w.told = o.w.told || err == nil && strings.HasPrefix(string(p), orderGroup)
	if strings.HasPrefix(string(p), orderDesert) {
		o.w.dismissed = time.Now()
	}
	return n, err
}

// backlog is a pipe that holds the orders that the shepherd has not read.
type backlog struct {
	w     *guardWorld
	mu    sync.Mutex
	moved sync.Cond
	bytes []byte
	taken bool // something was read that is not obeyed yet
	ended bool
}

func newBacklog(w *guardWorld) *backlog {
	b := &backlog{w: w}
	b.moved.L = &b.mu
	return b
}

func (b *backlog) SetWriteDeadline(time.Time) error { return nil } // there is room for all

func (b *backlog) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, io.ErrClosedPipe
	}
	b.bytes = append(b.bytes, p...)
	b.moved.Broadcast()
	return len(p), nil
}

func (b *backlog) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.moved.Broadcast()
	return nil
}

// Read is the shepherd's. A reader that asks for more has obeyed the orders before.
func (b *backlog) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = false
	for len(b.bytes) == 0 && !b.ended {
		b.moved.Wait()
	}
	b.mu.Unlock()
	b.w.herdStands()
	b.mu.Lock()
	n := copy(p, b.bytes)
	if n == 0 {
		return 0, io.EOF
	}
	b.bytes, b.taken = b.bytes[n:], true
	return n, nil
}

// waiting reports whether there are orders that are not obeyed yet, as orderPipe does.
func (b *backlog) waiting() bool {
	b.w.herdStands()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken || len(b.bytes) > 0 || b.ended
}

// herdStands stands still while the shepherd is stopped.
func (w *guardWorld) herdStands() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for time.Now().Before(w.herdFrozen) {
		w.sleep(time.Until(w.herdFrozen))
	}
}

func playGuard(t *testing.T, seed uint64, seen map[string]int) {
	w := &guardWorld{rand: rand.New(rand.NewPCG(seed, 0)), clock: clock.NewSimulated(0), begun: time.Now(), exited: make(chan int, 1), done: make(chan struct{})}
	w.ttl = 2 * time.Second
	w.deadline = time.Now().Add(w.ttl)
	draw := func(d time.Duration) time.Duration { return time.Duration(w.rand.Int64N(int64(d))) }
	trouble := w.rand.IntN(5)
	switch trouble {
	case 1, 2:
		w.stopAt, w.stopFor = 1+w.rand.IntN(60), w.ttl/10+draw(3*w.ttl)
		if w.rand.IntN(2) == 0 {
			w.stopFor = w.ttl/10 + draw(w.ttl)
		}
		if w.rand.IntN(2) == 0 {
			w.stopAt = 1 + w.rand.IntN(10)
		}
	case 3:
		w.killAt = 1 + w.rand.IntN(60)
	case 4:
		begin := w.begun.Add(draw(3 * w.ttl))
		w.outages = [2]time.Time{begin, begin.Add(w.ttl/4 + draw(2*w.ttl))}
	}
	// It has a draw of its own, so that worlds without it stay the same.
	if end := rand.New(rand.NewPCG(seed, 3)); trouble == 0 && end.IntN(4) == 0 {
		trouble = 5
		w.revoked = w.begun.Add(time.Duration(end.Int64N(int64(4 * w.ttl))))
	}
	life := w.ttl/10 + draw(6*w.ttl)
	code := w.rand.IntN(3)
	for range 1 + w.rand.IntN(3) {
		w.command = append(w.command, &child{deaf: w.rand.IntN(2) == 0, slow: draw(w.ttl / 5)})
	}

	// One that was left behind waits for a disk when it is killed. A renewal can wait for it.
	last := w.command[len(w.command)-1]
	if disk := rand.New(rand.NewPCG(seed, 2)); trouble == 0 && len(w.command) > 1 && disk.IntN(2) == 0 {
		last.deaf, last.stuck = true, w.ttl/10+time.Duration(disk.Int64N(int64(3*w.ttl)))
	}

	// The judge looks all the time, the shepherd obeys, the engine renews.
	judged := make(chan struct{})
	go func() {
		for {
			select {
			case <-judged:
				return
			case <-time.After(w.ttl / 400):
			}
			w.mu.Lock()
			if n := w.living(); n > 0 && time.Since(w.begun) > 100*w.ttl {
				w.fail("%d processes of the command outlive all, and the guard waits for them", n)
				for _, c := range w.command {
					w.end(c, 0)
				}
			}
			if n := w.living(); n > 0 && !w.released && time.Now().After(w.deadline) {
				w.fail("%d processes of the command live though the lease can be another's", n)
			}
			if n := w.living(); n > 0 && !w.lostAt.IsZero() && time.Since(w.lostAt) > w.ttl/25 {
				w.fail("%d processes of the command live though the lease was lost long before its deadline", n)
			}
			w.mu.Unlock()
		}
	}()
	pipe := newBacklog(w)
	// It has a draw of its own, so that worlds without it stay the same.
	if alone := rand.New(rand.NewPCG(seed, 1)); (trouble == 0 || trouble == 4) && alone.IntN(2) == 0 {
		begin, stands := time.Duration(alone.Int64N(int64(4*w.ttl))), w.ttl/10+time.Duration(alone.Int64N(int64(3*w.ttl)))
		w.after(begin, func() {
			w.note("the shepherd is stopped, for %v", stands)
			w.herdFrozen = time.Now().Add(stands)
		})
	}
	obeyed := make(chan struct{})
	go func() {
		defer close(obeyed)
		obey(pipe, pipe.waiting, w.clock, func(group int) {
			w.herdStands()
			w.mu.Lock()
			defer w.mu.Unlock()
			if !w.dismissed.IsZero() && time.Now().After(w.dismissed) {
				w.fail("the shepherd kills a group that it was told to leave")
			}
			w.byFlock = true
			w.note("the shepherd kills group %d", group)
			w.strike(syscall.SIGKILL)
			if group == 0 { // as killStarting does
				w.dead = true
				pipe.Close()
			}
		})
	}()
	go w.renew()

	// The guard.
	lease := worldLease{guardWorld: w}
	g := guard{lease: lease, clock: w, ttl: w.ttl, events: &events{}, words: io.Discard}
	herd := &shepherd{pipe: orders{pipe, w}, gone: func() error { <-obeyed; return nil }}
	var got int
	var err error
	ended := false
	guarded := make(chan struct{})
	go func() {
		defer close(guarded)
		defer pipe.Close() // as the kernel does for a process that has ended
		group := &group{processes: w, clock: w, shepherd: herd, exited: w.exited}
		err = group.launch(g.tell, g.may, func() (int, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.call("starting")
			for _, c := range w.command {
				c.alive = true
			}
			w.note("the command starts, to live for %v", life)
			w.after(life, func() {
				if !w.command[0].killed {
					w.end(w.command[0], code)
				}
			})
			w.call("knowing the child")
			return 7, nil
		})
		if err == nil {
			got, err = g.tend(group)
			_ = lease.Release(context.Background())
		}
		ended = true
	}()
	<-guarded
	w.mu.Lock()
	if w.dead {
		seen["killed"]++
		w.strikeFirst()
	}
	w.mu.Unlock()
	<-obeyed
	time.Sleep(w.ttl / 4) // all that is about to end has ended
	close(judged)
	time.Sleep(10 * w.ttl) // all that sleeps wakes up
	w.mu.Lock()
	w.released = true
	w.mu.Unlock()
	time.Sleep(w.ttl) // a guard that did not start its command leaves the lease to be renewed until here

	if n := w.living(); n > 0 {
		w.fail("%d processes of the command outlive all", n)
	}
	lost := err != nil
	switch {
	case trouble == 0 && (!ended || lost || w.byFlock):
		w.fail("nothing happened, and the guard says %v; the shepherd has killed: %v", err, w.byFlock)
	case trouble == 0 && got != code:
		w.fail("nothing happened, and the command ends with %d, want %d", got, code)
	case trouble == 5 && ended && !lost && !w.lostAt.IsZero() && got == cli.ExitSignal+int(syscall.SIGKILL):
		w.fail("the command was killed for a lease that was revoked, and the guard does not say so")
	case ended && !lost && got == cli.ExitSignal+int(syscall.SIGKILL) && w.byFlock:
		w.fail("the shepherd killed the command, and the guard does not say that the lease was about to be lost")
	}
	for what, so := range map[string]bool{
		"undisturbed": trouble == 0, "revoked": !w.lostAt.IsZero() && lost, "stopped": w.frozen != time.Time{}, "outage": trouble == 4, "killed by the shepherd": w.byFlock, "lost": lost,
		"killed, and lives on": last.stuck > 0, "shepherd stopped": w.herdFrozen != time.Time{}, "exit": ended && !lost, "child left behind": len(w.command) > 1 && ended && !lost, "ends on TERM": got == cli.ExitSignal+int(syscall.SIGTERM),
	} {
		if so {
			seen[what]++
		}
	}
	if w.wrong != "" {
		t.Errorf("seed %d: %s\n%s", seed, w.wrong, strings.Join(w.notes, "\n"))
	}
}

// strikeFirst is the signal that the kernel sends the command itself when the guard ends. Its
// children are the shepherd's; it has none when it has just been started.
func (w *guardWorld) strikeFirst() {
	for i, c := range w.command {
		if c.alive && !c.killed && (i == 0 || !w.told) {
			w.note("the kernel kills the command")
			c.killed = true
			w.end(c, cli.ExitSignal+int(syscall.SIGKILL))
		}
	}
}
