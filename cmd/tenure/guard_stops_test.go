package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
)

// A stop that the terminal has sent to the command, or another process to us, stops both: the command is asked first unless the
// terminal has done so. It goes on when we do, and at once where there is no shell that could make us go on. A stop of another
// kind is the command's own affair.
func TestWhatAStopMeans(t *testing.T) {
	const stop = "stopped (signal)"
	for name, tt := range map[string]struct {
		command syscall.Signal // that has stopped the command; 0: none
		us      bool           // another process sends us SIGTSTP
		tty     bool           // the command has the terminal
		alone   bool           // there is no shell
		notes   string
	}{
		"it reads the terminal in the background": {command: syscall.SIGTTIN, notes: "0s " + stop + ", 100ms continued"},
		"it sets the terminal in the background":  {command: syscall.SIGTTOU, notes: "0s " + stop + ", 100ms continued"},
		"Ctrl-Z":                                  {command: syscall.SIGTSTP, tty: true, notes: "0s " + stop + ", 100ms continued"},
		"Ctrl-Z without a shell":                  {command: syscall.SIGTSTP, tty: true, alone: true, notes: "0s continued"},
		"it stops by itself":                      {command: syscall.SIGSTOP, notes: ""},
		"it stops by itself, without a shell":     {command: syscall.SIGTSTP, alone: true, notes: ""},
		"we are asked to stop":                    {us: true, notes: "0s stopped, 100ms " + stop + ", 200ms continued"},
		"we are asked to stop, without a shell":   {us: true, alone: true, notes: ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, system := newCast(), clock.NewSimulated(0)
			stopped, jobs := make(chan syscall.Signal, 1), make(chan os.Signal, 4)
			group := c.group(system)
			group.stopped, group.tty = stopped, tt.tty
			c.hears = func(sig syscall.Signal) {
				// It stops a moment after it is told to, and the shell makes us go on before we have stopped ourselves.
				if sig == syscall.SIGSTOP {
					jobs <- syscall.SIGCONT
					if !tt.us {
						time.Sleep(100 * time.Millisecond)
					}
				}
			}
			if tt.command != 0 {
				stopped <- tt.command
			}
			if tt.us {
				jobs <- syscall.SIGTSTP
			}
			g := guard{lease: &fakeLease{}, clock: system, ttl: time.Minute, jobs: jobs, shell: func() bool { return !tt.alone }, events: &events{}}
			time.AfterFunc(time.Second, func() { c.end(0) })
			g.watch(group)
			// Beside the terminal, which no process of a test has, nothing but signals shows.
			if got := strings.Join(c.notes, ", "); got != tt.notes {
				t.Errorf("%s: the group gets %q, want %q", name, got, tt.notes)
			}
		})
	}
}

// A guard that was stopped lets its command go on when it goes on itself, and at no other signal before.
func TestACommandGoesOnWithItsGuard(t *testing.T) {
	for _, byTerminal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, jobs, halts := newCast(), make(chan os.Signal, 4), 0
			g := guard{lease: &fakeLease{}, clock: clock.NewSimulated(0), ttl: time.Minute, jobs: jobs, shell: func() bool { return true }, events: &events{}}
			g.halt = func(by bool) {
				if halts++; by != byTerminal || len(c.notes) == 0 {
					t.Errorf("it stops by the terminal: %v, want %v, and the command before: %q", by, byTerminal, c.notes)
				}
				time.AfterFunc(time.Second, func() { jobs <- syscall.SIGTSTP })
				time.AfterFunc(2*time.Second, func() { jobs <- syscall.SIGCONT })
				time.AfterFunc(3*time.Second, func() { jobs <- syscall.SIGCONT })
			}
			g.suspend(c.group(g.clock), byTerminal)
			want := "0s stopped (signal), 2s continued"
			if !byTerminal {
				want = "0s stopped, 100ms stopped (signal), 2.2s continued"
			}
			if got := strings.Join(c.notes, ", "); got != want || halts != 1 {
				t.Errorf("a guard that was stopped by the terminal: %v, %d times: the group gets %q, want %q", byTerminal, halts, got, want)
			}
			time.Sleep(time.Minute)
		})
	}
}

// jumping is a lease whose deadline is another by less than a millisecond whenever one asks: it is worked out from two clocks.
type jumping struct {
	planned
	asked time.Duration
}

func (j *jumping) Deadline() time.Time {
	j.asked = (j.asked + 7*time.Microsecond) % time.Millisecond
	return j.begun.Add(time.Minute + j.asked)
}

// A deadline that is worked out anew is no renewal: it may differ by less than a millisecond.
func TestADeadlineThatIsWorkedOutAnewIsNoRenewal(t *testing.T) {
	for name, watch := range map[string]func(context.Context, *guard, *cast){
		"with a command":    func(_ context.Context, g *guard, c *cast) { g.watch(c.group(g.clock)) },
		"without a command": func(ctx context.Context, g *guard, _ *cast) { _ = g.hold(ctx) },
	} {
		synctest.Test(t, func(t *testing.T) {
			ten, c := fakeTenancy(), newCast()
			lease := &jumping{planned: planned{begun: time.Now(), done: make(chan struct{}), lost: fmt.Errorf("lost")}}
			g := &guard{lease: lease, clock: clock.NewSimulated(0), ttl: time.Second, events: &ten.events}
			time.AfterFunc(30*time.Second, func() { c.end(0); close(lease.done) })
			list := told(t, ten, func() { watch(t.Context(), g, c) })
			if slices.ContainsFunc(list, func(e event) bool { return e.Event == "renewed" }) {
				t.Errorf("%s: nothing was renewed, and told is %+v", name, list)
			}
		})
	}
}
