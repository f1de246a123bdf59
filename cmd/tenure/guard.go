package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// guard runs a command under a lease, and ends it before the lease does.
type guard struct {
	lease   tenure.Lease
	clock   clock.Clock
	ttl     time.Duration
	env     []string
	signals <-chan os.Signal      // forwarded
	jobs    chan os.Signal        // SIGTSTP and SIGCONT
	shell   func() bool           // reports whether another process can make us go on when we are stopped
	halt    func(byTerminal bool) // stops us; see stopUs
	events  *events
	words   io.Writer // for the operator

	told os.Signal // the last one forwarded that asks for the end
}

// environment returns the variables that describe the lease to the command.
func environment(lease tenure.Lease, at place) []string {
	return append(append(os.Environ(),
		"TENURE_LEASE="+lease.Name(),
		"TENURE_TOKEN="+strconv.FormatUint(lease.Token(), 10)),
		at.environment()...)
}

// termAt and killAt are how long before the deadline the command is asked to end,
// and killed. Renewals are tried from a third of the TTL on, so that three
// quarters without one mean trouble; a kill takes effect within milliseconds.
func (g *guard) termAt() time.Duration { return g.ttl / 4 }
func (g *guard) killAt() time.Duration { return g.ttl / 20 }

// tell tells the shepherd until when the command may live. A guard that is stopped after
// it has read the clock tells a time that is too early, and not too late.
func (g *guard) tell(s *shepherd) {
	before := s.told
	now := g.clock.Now()
	s.until(now.Add(time.Until(g.lease.Deadline()) - g.killAt()))
	s.late = s.late || before != 0 && g.clock.Now() >= before
}

// run returns the command's exit code once its group has ended, or an error if it
// did not run or had to be stopped. It does not release the lease.
func (g *guard) run(argv []string) (int, error) {
	defer g.catchStops()()
	g.halt = g.stopUs
	group, err := startGroup(argv, g.env, g.tell, g.may)
	if err != nil {
		return 0, err
	}
	return g.tend(group)
}

// may returns an error if the command must not be started any more: the lease is lost, or so close to its
// deadline that the command would have to be killed at once.
func (g *guard) may() error {
	err := g.lease.Check()
	if left := time.Until(g.lease.Deadline()); err == nil && left <= g.killAt() {
		err = fmt.Errorf("this process did not run until %v before the deadline of the lease", left.Round(time.Millisecond))
	}
	if err != nil {
		return cli.Exit(cli.ExitLost, fmt.Errorf("did not run the command: %w", err))
	}
	return nil
}

// tend watches over a group that runs until none of it is left.
func (g *guard) tend(group *group) (int, error) {
	code, stopped := g.watch(group)
	// The processes that were asked to end have had their time.
	limit := min(g.termAt(), time.Until(g.lease.Deadline())-g.killAt())
	if stopped != "" {
		limit = 0
	}
	said := false
	group.sweep(limit, g.killAt(), g.lease.Done(), func() bool {
		if g.lease.Check() != nil {
			return false
		}
		g.tell(group.shepherd)
		if !said {
			said = true
			g.reportLingering()
		}
		return true
	})
	g.events.print(event{Event: "exited", Name: g.lease.Name(), Token: g.lease.Token(), Code: &code, Why: stopped})
	if err := g.lease.Check(); err != nil && stopped == "" {
		stopped = err.Error()
	}
	if stopped != "" {
		return code, cli.Exit(cli.ExitLost, fmt.Errorf("lost the lease on %q, stopped the command: %s", g.lease.Name(), stopped))
	}
	return code, nil
}

// reportLingering tells the operator that processes live on after they were killed, and the lease with
// them. The output may not be read, which must not keep us from releasing the lease in the end.
func (g *guard) reportLingering() {
	const why = "processes of the command live on though they were killed: they may wait for a disk"
	g.events.why("lingering", g.lease, why)
	go fmt.Fprintf(g.words, "tenure: %s; keeping the lease on %q until they have ended (kill process %d to let it run out)\n", why, g.lease.Name(), os.Getpid())
}

// watch returns when the command has exited: its code, and why it was stopped if
// it was.
func (g *guard) watch(group *group) (code int, stopped string) {
	done := g.lease.Done()
	deadline := g.lease.Deadline() // last told of; time.Time does not count suspend
	for {
		g.tell(group.shepherd)
		next := g.termAt()
		if stopped != "" {
			next = g.killAt()
		}
		alarm := g.clock.Alarm(g.clock.Now().Add(max(5*time.Millisecond, min(time.Until(g.lease.Deadline())-next, g.ttl/3))))
		select {
		case code := <-group.exited:
			alarm.Stop()
			g.tell(group.shepherd)
			if stopped == "" && code == cli.ExitSignal+int(syscall.SIGKILL) && group.shepherd.late {
				stopped = "this process did not run until shortly before the deadline" // the shepherd did
			}
			return code, stopped
		case sig := <-g.signals:
			group.signal(sig.(syscall.Signal))
			if sig == syscall.SIGINT || sig == syscall.SIGTERM || sig == syscall.SIGQUIT {
				g.told = sig
			}
		case by := <-group.stopped:
			// Otherwise it is the command's own affair.
			if group.tty || by == syscall.SIGTTIN || by == syscall.SIGTTOU {
				g.suspend(group, true)
			}
		case sig := <-g.jobs:
			switch {
			case stopped != "": // it is to end, and we must not stop before
			case sig == syscall.SIGTSTP:
				g.suspend(group, false)
			default:
				g.proceed(group)
			}
		case <-done:
			// Too late to ask: the next holder may start now.
			stopped = g.lease.Err().Error()
			g.events.why("lost", g.lease, stopped)
			group.signal(syscall.SIGKILL)
			done = nil
		case <-alarm.C:
		}
		alarm.Stop()

		if d := g.lease.Deadline(); d.Sub(deadline) > time.Millisecond && done != nil {
			deadline = d
			g.events.lease("renewed", g.lease)
		}
		switch left := time.Until(g.lease.Deadline()); {
		case left <= g.killAt():
			if stopped == "" { // we woke up late
				stopped = "no renewal until shortly before its deadline"
			}
			group.signal(syscall.SIGKILL)
		case left <= g.termAt() && stopped == "":
			stopped = fmt.Sprintf("no renewal until %v before its deadline", left.Round(time.Millisecond))
			g.events.why("stopping", g.lease, stopped)
			group.terminate()
		}
	}
}

// hold keeps a lease without a command, until ctx is done or the lease lost.
func (g *guard) hold(ctx context.Context) error {
	deadline := g.lease.Deadline()
	for {
		alarm := g.clock.Alarm(clock.After(g.clock, g.ttl/6))
		select {
		case <-ctx.Done():
			alarm.Stop()
			return nil
		case <-g.lease.Done():
			alarm.Stop()
			g.events.why("lost", g.lease, g.lease.Err().Error())
			return cli.Exit(cli.ExitLost, fmt.Errorf("lost %q: %w", g.lease.Name(), g.lease.Err()))
		case <-alarm.C:
		}
		if d := g.lease.Deadline(); d.Sub(deadline) > time.Millisecond {
			deadline = d
			g.events.lease("renewed", g.lease)
		}
	}
}
