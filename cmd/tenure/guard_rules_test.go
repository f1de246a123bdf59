package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// cast is a process group that notes which signals it gets and when, and ends by those that it heeds. It notes, too,
// when its shepherd is dismissed, which does nothing.
type cast struct {
	begun  time.Time
	heeds  []syscall.Signal
	notes  []string
	exited chan int
	gone   bool
	leaves bool                 // a process that ends by SIGKILL only
	hears  func(syscall.Signal) // nil: no process
}

func newCast(heeds ...syscall.Signal) *cast {
	return &cast{begun: time.Now(), heeds: heeds, exited: make(chan int, 1)}
}

func (c *cast) alive(int) bool { return !c.gone }

func (c *cast) kill(_ int, sig syscall.Signal) {
	c.notes = append(c.notes, fmt.Sprintf("%v %v", time.Since(c.begun).Round(time.Millisecond), sig))
	if c.hears != nil {
		c.hears(sig)
	}
	if slices.Contains(c.heeds, sig) && !c.gone {
		c.end(cli.ExitSignal + int(sig))
		c.gone = sig == syscall.SIGKILL || !c.leaves
	}
}

func (c *cast) end(code int) {
	c.gone = true
	select {
	case c.exited <- code:
	default: // the command has ended before
	}
}

// Write, Close and SetWriteDeadline are of the shepherd's pipe.
func (c *cast) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), orderDesert) {
		c.notes = append(c.notes, fmt.Sprintf("%v dismissed", time.Since(c.begun).Round(time.Millisecond)))
	}
	return len(p), nil
}
func (*cast) Close() error                     { return nil }
func (*cast) SetWriteDeadline(time.Time) error { return nil }

// group is the group of these processes.
func (c *cast) group(system clock.Clock) *group {
	return &group{processes: c, clock: system, shepherd: &shepherd{pipe: c, gone: func() error { return nil }}, id: 4711, exited: c.exited}
}

// planned is a lease whose deadline is another from time to time.
type planned struct {
	fading
	begun time.Time
	until func(passed time.Duration) time.Duration // the deadline, from the begin on
	done  chan struct{}
	lost  error
	asks  int // for the deadline
}

func (p *planned) Deadline() time.Time   { p.asks++; return p.begun.Add(p.until(time.Since(p.begun))) }
func (p *planned) Done() <-chan struct{} { return p.done }
func (p *planned) Err() error            { return p.lost }
func (p *planned) Check() error {
	if p.lost == nil && time.Now().Before(p.Deadline()) {
		return nil
	}
	return tenure.ErrLost
}

// A command is asked to end at a quarter of the lease's time before its end, and killed at a twentieth;
// when the lease is lost it is killed at once. The processes that it left behind are asked to end, have
// as long as that, and are killed.
func TestWhenAGuardStopsItsCommand(t *testing.T) {
	const ttl, all = 20 * time.Second, time.Hour
	fixed := func(time.Duration) time.Duration { return ttl }
	long := func(time.Duration) time.Duration { return time.Hour }
	always := func(passed time.Duration) time.Duration { return passed + ttl }
	term, kill := syscall.SIGTERM, syscall.SIGKILL
	for name, tt := range map[string]struct {
		until  func(time.Duration) time.Duration
		lost   time.Duration // when it is lost
		exits  time.Duration // when the command ends by itself
		cont   time.Duration // when another process makes the guard go on
		heeds  []syscall.Signal
		leaves bool // a process that ends by SIGKILL only
		code   int
		why    string
		notes  string
		events string
	}{
		"no renewal": {fixed, all, all, all, []syscall.Signal{term}, false, 143, "no renewal until 5s before its deadline",
			"15s terminated, 15s continued, 15s terminated, 15s continued, 15s dismissed", "stopping exited"},
		"no renewal, deaf": {fixed, all, all, all, []syscall.Signal{kill}, false, 137, "no renewal until 5s before its deadline",
			"15s terminated, 15s continued, 19s killed, 19s terminated, 19s continued, 19s dismissed", "stopping exited"},
		"no renewal, and it leaves what is deaf": {fixed, all, all, all, []syscall.Signal{term, kill}, true, 143, "no renewal until 5s before its deadline",
			"15s terminated, 15s continued, 15s terminated, 15s continued, 15s killed, 15s dismissed", "stopping exited"},
		"lost": {always, 3 * time.Second, all, all, []syscall.Signal{term, kill}, false, 137, "lost: odd",
			"3s killed, 3s terminated, 3s continued, 3s dismissed", "lost exited"},
		"renewed for a while": {func(passed time.Duration) time.Duration {
			if passed < 8*time.Second {
				return ttl
			}
			return 28 * time.Second
		}, all, all, all, []syscall.Signal{term}, false, 143, "no renewal until 5s before its deadline",
			"23s terminated, 23s continued, 23s terminated, 23s continued, 23s dismissed", "renewed stopping exited"},
		"it ends, and leaves nothing": {always, all, time.Second, all, []syscall.Signal{term}, false, 3, "", "1s terminated, 1s continued, 1s dismissed", "exited"},
		"it ends, and leaves what is deaf": {always, all, time.Second, all, []syscall.Signal{kill}, false, 3, "",
			"1s terminated, 1s continued, 6s killed, 6s dismissed", "exited"},
		"it ends shortly before the deadline, and leaves what is deaf": {fixed, all, 14500 * time.Millisecond, all, []syscall.Signal{kill}, false, 3, "",
			"14.5s terminated, 14.5s continued, 19s killed, 19s dismissed", "exited"},
		"made to go on": {long, all, 3 * time.Second, 2 * time.Second, []syscall.Signal{term}, false, 3, "",
			"2s continued, 3s terminated, 3s continued, 3s dismissed", "exited"},
		"made to go on when it is to end, which it does": {fixed, all, 16 * time.Second, 15500 * time.Millisecond, []syscall.Signal{kill}, false, 3, "no renewal until 5s before its deadline",
			"15s terminated, 15s continued, 16s terminated, 16s continued, 16s killed, 16s dismissed", "stopping exited"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ten, system, c := fakeTenancy(), clock.NewSimulated(0), newCast(tt.heeds...)
			c.leaves = tt.leaves
			lease := &planned{begun: time.Now(), until: tt.until, done: make(chan struct{})}
			time.AfterFunc(tt.exits, func() { // the command itself; its children live on, unless they heed SIGTERM
				select {
				case c.exited <- 3:
				default:
				}
			})
			time.AfterFunc(tt.lost, func() {
				if !c.gone {
					lease.lost = errors.New("lost: odd")
					close(lease.done)
				}
			})
			jobs := make(chan os.Signal, 1)
			time.AfterFunc(tt.cont, func() { jobs <- syscall.SIGCONT })
			var code int
			var err error
			list := told(t, ten, func() {
				g := guard{lease: lease, clock: system, ttl: ttl, events: &ten.events, words: io.Discard, jobs: jobs}
				code, err = g.tend(c.group(system))
			})
			if got := strings.Join(c.notes, ", "); code != tt.code || got != tt.notes {
				t.Errorf("%s: the command ends with %d, and its group gets %s; want %d, and %s", name, code, got, tt.code, tt.notes)
			}
			if lease.asks > 100 {
				t.Errorf("%s: the guard asks %d times for the deadline: it does so at its alarms, and not all the time", name, lease.asks)
			}
			var exit cli.ExitError
			if errors.As(err, &exit); (tt.why == "") != (err == nil) || err != nil && (exit.Code != cli.ExitLost || !strings.HasSuffix(err.Error(), "stopped the command: "+tt.why)) {
				t.Errorf("%s: the guard says %v, want %q", name, err, tt.why)
			}
			var names []string
			for _, e := range list {
				names = append(names, e.Event)
				if late := e.Time.Sub(lease.begun) - 8*time.Second; e.Event == "renewed" && (late < 0 || late > ttl/3) {
					t.Errorf("%s: a renewal is told %v after it, want within a third of the time", name, late)
				}
				if e.Token != 1 || e.Name != "fading" || e.Event != "renewed" && e.Why != tt.why || e.Event == "exited" && (e.Code == nil || *e.Code != tt.code) {
					t.Errorf("%s: the event %+v, want the lease, the code %d, and why: %q", name, e, tt.code, tt.why)
				}
			}
			if got := strings.Join(names, " "); got != tt.events {
				t.Errorf("%s: the events are %q, want %q", name, got, tt.events)
			}
		})
	}
}

// unrung is a clock whose alarms do not ring: that of a guard which stands still.
type unrung struct {
	clock.Fake
	alarms clock.Fake
}

func (u *unrung) Alarm(at machine.Mono) *clock.Alarm { return u.alarms.Alarm(at) }

// A command that was killed when the shepherd may have done so has lost its lease. One that another process killed
// has not, nor has one that ended by itself.
func TestWhatAKilledCommandMeans(t *testing.T) {
	const late = "this process did not run until shortly before the deadline"
	for name, tt := range map[string]struct {
		code   int
		stands time.Duration // for how long the guard does not run; after 9s the shepherd kills
		why    string
	}{
		"the shepherd may have killed it":       {137, 9 * time.Second, late},
		"the shepherd cannot have killed it":    {137, 9*time.Second - 1, ""},
		"it ended by itself, and late":          {0, time.Minute, ""},
		"another signal ended it, and late":     {143, time.Minute, ""},
		"it has a code of its own, and is late": {9, time.Minute, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			system, c := &unrung{}, newCast()
			g := guard{lease: &ending{at: time.Now().Add(10 * time.Second)}, clock: system, ttl: 20 * time.Second, events: &events{}}
			go func() {
				synctest.Wait() // the shepherd has been told
				system.Advance(tt.stands)
				c.exited <- tt.code
			}()
			if code, why := g.watch(c.group(system)); code != tt.code || why != tt.why {
				t.Errorf("%s: the command ends with %d, and was stopped for %q; want %d, and %q", name, code, why, tt.code, tt.why)
			}
		})
	}
}

// A guard that was told of a loss kills once, and then waits for the end.
func TestALossIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ten, system, c := fakeTenancy(), clock.NewSimulated(0), newCast()
		kills := 0
		c.hears = func(syscall.Signal) {
			if kills++; kills == 1 {
				time.AfterFunc(100*time.Millisecond, func() { c.end(137) })
			} else {
				c.end(137) // or the guard would go on for ever
			}
		}
		lease := &planned{begun: time.Now(), done: make(chan struct{}), lost: tenure.ErrLost, until: func(passed time.Duration) time.Duration { return passed + 20*time.Second }}
		close(lease.done)
		list := told(t, ten, func() {
			g := guard{lease: lease, clock: system, ttl: 20 * time.Second, events: &ten.events}
			g.watch(c.group(system))
		})
		if len(list) != 1 || list[0].Event != "lost" || kills != 1 || time.Since(c.begun) != 100*time.Millisecond {
			t.Errorf("the events are %+v, and the group gets %q, within %v; want that the lease is lost, and one kill", list, c.notes, time.Since(c.begun))
		}
	})
}

// A guard forwards each signal, and remembers the last that asks for the end.
func TestAGuardForwardsSignals(t *testing.T) {
	for _, tt := range []struct {
		sig  syscall.Signal
		told bool
	}{{syscall.SIGINT, true}, {syscall.SIGTERM, true}, {syscall.SIGQUIT, true}, {syscall.SIGHUP, false}, {syscall.SIGUSR1, false}, {syscall.SIGUSR2, false}} {
		c, signals := newCast(), make(chan os.Signal, 1)
		c.hears = func(syscall.Signal) { c.end(0) }
		signals <- tt.sig
		g := guard{lease: &fakeLease{}, clock: clock.System, ttl: time.Minute, signals: signals, events: &events{}}
		g.watch(c.group(clock.System))
		if len(c.notes) != 1 || !strings.HasSuffix(c.notes[0], " "+tt.sig.String()) || (g.told == tt.sig) != tt.told {
			t.Errorf("%v: the group gets %v, and the guard is told %v; want it forwarded, and remembered: %v", tt.sig, c.notes, g.told, tt.told)
		}
	}
}

// A lease without a command is held until it is lost, or the caller ends it, and each renewal is
// printed once.
func TestHoldsWithoutACommand(t *testing.T) {
	const ttl = 20 * time.Second
	for name, tt := range map[string]struct {
		lost   time.Duration
		exit   int
		events string
	}{"until it is lost": {time.Minute, cli.ExitLost, "renewed lost"}, "until nobody wants it": {time.Hour, 0, "renewed"}} {
		synctest.Test(t, func(t *testing.T) {
			ten, begun := fakeTenancy(), time.Now()
			lease := &planned{begun: begun, done: make(chan struct{}), until: func(passed time.Duration) time.Duration {
				if passed < 10*time.Second {
					return ttl
				}
				return 2 * time.Hour
			}}
			time.AfterFunc(tt.lost, func() { lease.lost = tenure.ErrLost; close(lease.done) })
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var err error
			list := told(t, ten, func() {
				g := guard{lease: lease, clock: clock.NewSimulated(0), ttl: ttl, events: &ten.events}
				err = g.hold(ctx)
			})
			if want := min(tt.lost, 2*time.Minute); time.Since(begun) != want {
				t.Errorf("%s: held for %v, want %v", name, time.Since(begun), want)
			}
			if tt.exit != 0 {
				wantExit(t, err, tt.exit)
			} else if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			var names []string
			for _, e := range list {
				names = append(names, e.Event)
				if e.Event == "lost" && e.Why != tenure.ErrLost.Error() {
					t.Errorf("%s: it is lost because of %q", name, e.Why)
				}
			}
			if got := strings.Join(names, " "); got != tt.events {
				t.Errorf("%s: the events are %q, want %q", name, got, tt.events)
			}
			time.Sleep(time.Hour) // all that is to happen has happened
		})
	}
}

// A group that was stopped goes on once the lease is held for long enough, and else stays as it is.
func TestWhenAGroupGoesOn(t *testing.T) {
	const ttl = 20 * time.Second
	for name, tt := range map[string]struct {
		until func(time.Duration) time.Duration
		notes string
		took  time.Duration // until the guard looks after all else again
	}{
		"it is held":                  {func(time.Duration) time.Duration { return 6 * time.Second }, "0s continued", 0},
		"a renewal is under way":      {func(d time.Duration) time.Duration { return 5*time.Second + d/time.Second*ttl }, "1s continued", time.Second},
		"no renewal comes":            {func(time.Duration) time.Duration { return 5 * time.Second }, "", 4 * time.Second},
		"it is about to be another's": {func(time.Duration) time.Duration { return time.Second }, "", 0},
		"it has been lost":            {func(time.Duration) time.Duration { return -time.Second }, "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, begun := newCast(), time.Now()
			g := guard{lease: &planned{begun: time.Now(), until: tt.until}, clock: clock.NewSimulated(0), ttl: ttl, events: &events{}}
			g.proceed(c.group(g.clock))
			if got := strings.Join(c.notes, ", "); got != tt.notes {
				t.Errorf("%s: the group gets %q, want %q", name, got, tt.notes)
			}
			if took := time.Since(begun).Round(50 * time.Millisecond); took != tt.took {
				t.Errorf("%s: the guard looks after nothing else for %v, want %v: the command has to be killed in time", name, took, tt.took)
			}
		})
	}
}

// A group that is to stop is asked first, unless the terminal has stopped it, and then made to.
func TestAGroupIsAskedToStop(t *testing.T) {
	for name, tt := range map[string]struct {
		already bool
		heeds   bool // SIGTSTP
		notes   string
		took    time.Duration
	}{
		"by the terminal": {true, true, "0s stopped (signal)", 0},
		"it heeds":        {false, true, "0s stopped, 0s stopped (signal)", 0},
		"it is deaf":      {false, false, "0s stopped, 100ms stopped (signal)", 100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCast()
			stopped := make(chan syscall.Signal, 1)
			c.hears = func(sig syscall.Signal) {
				if sig == syscall.SIGSTOP || tt.heeds {
					select {
					case stopped <- sig:
					default:
					}
				}
			}
			group := c.group(clock.NewSimulated(0))
			group.stopped, group.tty = stopped, true
			begun := time.Now()
			group.pause(tt.already)
			if got := strings.Join(c.notes, ", "); got != tt.notes || time.Since(begun) != tt.took || group.tty {
				t.Errorf("%s: the group gets %q within %v, and has the terminal: %v; want %q within %v, and no terminal", name, got, time.Since(begun), group.tty, tt.notes, tt.took)
			}
		})
	}
}

// A guard knows whether another process made it go on before it stopped.
func TestContinuedBeforeItStopped(t *testing.T) {
	for want, jobs := range map[bool][]os.Signal{true: {syscall.SIGTSTP, syscall.SIGCONT}, false: {syscall.SIGTSTP, syscall.SIGTSTP}} {
		g := guard{jobs: make(chan os.Signal, 4)}
		for _, sig := range jobs {
			g.jobs <- sig
		}
		if got := g.continued(); got != want || len(g.jobs) > 0 {
			t.Errorf("after %v it was made to go on: %v, and %d signals are left", jobs, got, len(g.jobs))
		}
	}
}

// A guard hears what stops it and makes it go on as long as there is a command, and not afterwards.
func TestAGuardHearsStopsWhileThereIsACommand(t *testing.T) {
	survived := make(chan os.Signal, 1) // this process
	signal.Notify(survived, syscall.SIGCONT)
	defer signal.Stop(survived)
	var g guard
	restore := g.catchStops()
	for _, sig := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGCONT} {
		_ = syscall.Kill(os.Getpid(), sig)
		select {
		case got := <-g.jobs:
			if got != sig {
				t.Errorf("a guard hears %v, want %v", got, sig)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("a guard does not hear %v", sig)
		}
	}
	<-survived
	restore()
	if _, err := g.run([]string{"/no/such/command"}); err == nil {
		t.Fatal("a command that is not there has run")
	}
	if g.halt == nil {
		t.Error("a guard with a command cannot stop itself")
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGCONT)
	if <-survived; len(g.jobs) > 0 {
		t.Errorf("the command has ended, and its guard hears %v", <-g.jobs)
	}
}

// A command dies with its guard, has a group of its own, and the terminal if that is ours.
func TestAttributesOfACommand(t *testing.T) {
	for _, tty := range []bool{false, true} {
		if a := childAttributes(tty); !a.Setpgid || a.Foreground != tty || a.Ctty != 0 || !diesWithUs(a) {
			t.Errorf("with the terminal %v the attributes are %+v", tty, a)
		}
	}
}

// A command has the name, the files and the directory that it is given.
func TestACommandIsStartedAsItIsWritten(t *testing.T) {
	code, out, errs := ran(t, "lock", "n", "--at", "local", "--", "sh", "-c", `echo "$0"; echo trouble >&2; exit 3`)
	if code != 3 || out != "sh\n" || errs != "trouble\n" {
		t.Errorf("a command that is sh and says trouble on standard error ends with %d, and says %q and %q", code, out, errs)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("here", []byte("#!/bin/sh\nexit 5\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", ".")
	if code, err := fakeTenancy("here").under(t.Context(), &fakeLease{}); code != 5 || err != nil {
		t.Errorf("a command of this directory, which is on the PATH, ends with %d, %v, want 5", code, err)
	}
}

// A command that stops for a while has not ended.
func TestACommandThatStopsHasNotEnded(t *testing.T) {
	code, err := fakeTenancy("sh", "-c", `(while :; do sleep 0.02; kill -CONT $$; done) & kill -STOP $$; kill $!; exit 3`).under(t.Context(), &fakeLease{})
	if code != 3 || err != nil {
		t.Errorf("a command that stops itself, is made to go on and exits with 3 ends with %d, %v", code, err)
	}
}
