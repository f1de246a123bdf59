package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// tenancy is what lock and elect have in common: a claim, and a command to run
// under it.
type tenancy struct {
	claim  tenure.Claim
	at     place
	events events
	asJSON bool
	argv   []string  // of the command; empty to hold without one
	words  io.Writer // for people; nil where none look on

	ended   func(lease tenure.Lease, code int, err error) error // called when the command has exited; may be nil
	signals chan os.Signal
	caught  os.Signal // the last one that ended a calm context
}

func (t *tenancy) register(flags *pflag.FlagSet) {
	atFlag(flags, &t.at)
	flags.DurationVar(&t.claim.TTL, "ttl", 0, "how long the lease outlives us, or an outage of the store (`duration`; default 15s, in storage the store's own)")
	flags.DurationVar(&t.claim.LockDelay, "lock-delay", 0, "how long others wait in addition if we do not release (`duration`)")
	flags.BoolVar(&t.asJSON, "events", false, "print JSON lines about the lease, as -o json does: on standard output, or on standard error beside a command")
}

// complete takes what stands on the command line: a name, and after -- the command.
func (t *tenancy) complete(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash < 0 && len(args) == 1 && t.asJSON, dash == 1 && len(args) > 1:
	case dash == 1:
		return cli.Usagef("there is no command after --")
	case len(args) == 0 || dash == 0:
		return cli.Usagef("which name? write: tenure %s NAME -- COMMAND", cmd.Name())
	case len(args) == 1:
		return cli.Usagef("which command? write: tenure %s %s -- COMMAND, or --events to hold the lease without one", cmd.Name(), args[0])
	default:
		return cli.Usagef("put -- before the command: tenure %s %s -- %s …", cmd.Name(), args[0], args[1])
	}
	t.claim.Name, t.argv = args[0], args[1:]
	ttl := t.claim.TTL
	var err error
	t.claim, err = t.claim.Complete()
	t.claim.TTL = ttl // 0 is for the engine to choose
	if err == nil && t.asJSON {
		w := cmd.OutOrStdout()
		if len(t.argv) > 0 {
			w = cmd.ErrOrStderr()
		}
		t.events = newEvents(w)
	} else {
		t.words = people()
	}
	return cli.Usage(err)
}

// start catches signals and opens the engine.
func (t *tenancy) start(ctx context.Context) (tenure.Leaser, error) {
	if err := t.at.ready(); err != nil {
		return nil, err
	}
	t.catch()
	settle(&t.at, os.Stderr)
	if len(t.argv) == 0 {
		go func() { // a process that holds a lease through us may go
			_, _ = io.Copy(io.Discard, os.Stdin)
			t.signals <- syscall.SIGTERM
		}()
	}
	ctx, stop := t.calm(ctx)
	leaser, err := openFor(ctx, t.at, t.holder())
	stop()
	if err != nil && t.caught != nil {
		return nil, t.interrupted()
	}
	t.keep()
	return leaser, err
}

// holder is the guard with the command and the shepherd, which kills what is left of the command before
// it ends. Without a command it is a program that reads our lines, and ends no sooner than it reads.
func (t *tenancy) holder() file.Holder {
	if len(t.argv) > 0 {
		return file.Family
	}
	return file.Stranger
}

func (t *tenancy) catch() {
	t.signals = make(chan os.Signal, 16)
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(sig) { // as by nohup, and then by the command too
			signal.Notify(t.signals, sig)
		}
	}
	// A reader of our output that went away would end us. Caught, not ignored: an ignored
	// signal stays ignored in the command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// keep puts back a signal that came too late to end a wait: it ends the command, or
// the hold.
func (t *tenancy) keep() {
	if t.caught == nil {
		return
	}
	select {
	case t.signals <- t.caught:
	default: // there are others
	}
	t.caught = nil
}

// acquire waits for the lease until ctx is done, or tries once.
func (t *tenancy) acquire(ctx context.Context, l tenure.Leaser, patience wait) (tenure.Lease, error) {
	ctx, stop := t.calm(ctx)
	lease, err := t.admission(ctx, l, patience)
	stop()
	switch {
	case err == nil:
		t.keep()
		return lease, nil
	case t.caught != nil:
		return nil, t.interrupted()
	}
	return nil, refusal(err)
}

// admission tries first, so that a wait can be told from none.
func (t *tenancy) admission(ctx context.Context, l tenure.Leaser, patience wait) (tenure.Lease, error) {
	lease, err := l.TryAcquire(ctx, t.claim)
	var held tenure.HeldError
	if !errors.As(err, &held) || patience.set && patience.limit == 0 {
		return lease, err
	}
	defer t.tellWait(ctx, l, held)()
	return l.Acquire(ctx, t.claim)
}

// calm returns a context that ends with the next signal, which is then in
// t.caught. The function must be called before anyone else takes signals.
func (t *tenancy) calm(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case t.caught = <-t.signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(); <-ended }
}

// interrupted is the error of a wait that a signal ended, with a shell's exit
// code for it.
func (t *tenancy) interrupted() error {
	return cli.Exit(cli.ExitSignal+int(t.caught.(syscall.Signal)), fmt.Errorf("stopped waiting for %q: %v", t.claim.Name, t.caught))
}

// under runs the command under the lease, or holds the lease until a signal or
// the end of standard input, and releases it.
func (t *tenancy) under(ctx context.Context, lease tenure.Lease, env ...string) (int, error) {
	t.events.lease("acquired", lease)
	g := t.guard(lease, env...)
	var code int
	var err error
	if len(t.argv) > 0 {
		code, err = g.run(t.argv)
		if t.ended != nil {
			if err := t.ended(lease, code, err); err != nil {
				fmt.Fprintln(os.Stderr, "tenure:", err)
			}
		}
		t.caught = g.told
	} else {
		held, stop := t.calm(ctx)
		err = g.hold(held)
		stop()
	}
	if released := t.release(lease); released == nil {
		t.events.why("released", lease, "")
	} else if err == nil {
		switch {
		case errors.Is(released, tenure.ErrLost):
			err = cli.Exit(cli.ExitLost, released)
		case len(t.argv) == 0:
			err = cli.Exit(cli.ExitUnavailable, released)
		default: // it ran to its end under the lease: its exit code tells the result
			fmt.Fprintln(os.Stderr, "tenure:", released)
		}
	}
	return code, err
}

// guard returns what watches over the lease, and over a command that has env in its environment, too.
func (t *tenancy) guard(lease tenure.Lease, env ...string) guard {
	// The server may have granted more than was asked for.
	ttl := max(t.claim.TTL, time.Until(lease.Deadline()))
	return guard{lease: lease, clock: clock.System, ttl: ttl, env: append(environment(lease, t.at), env...), signals: t.signals, shell: controlled, events: &t.events, words: os.Stderr}
}

// release gives the lease back. A user that sends a signal meanwhile does not want to wait for
// a server that is silent: that leaves it one more second.
func (t *tenancy) release(lease tenure.Lease) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	released := make(chan error, 1)
	go func() { released <- lease.Release(ctx) }()
	select {
	case err := <-released:
		return err
	case t.caught = <-t.signals:
		defer time.AfterFunc(time.Second, cancel).Stop()
		return <-released
	}
}

// refusal gives an Acquire's error its exit code.
func refusal(err error) error {
	code := cli.ExitUnavailable
	var held tenure.HeldError
	switch {
	case errors.As(err, &held):
		code = cli.ExitNotAcquired
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("gave up waiting: %w", held)
		}
	case errors.Is(err, tenure.ErrUnavailable):
	case errors.Is(err, context.DeadlineExceeded):
		code = cli.ExitNotAcquired
		err = errors.New("gave up waiting: others were quicker")
	case errors.Is(err, tenure.ErrClaim), errors.Is(err, tenure.ErrTTLTooShort):
		code = cli.ExitUsage
	}
	return cli.Exit(code, err)
}

// exitHelp is in the help of lock and elect.
var exitHelp = fmt.Sprintf(`The exit code is the command's own (%d and the signal's number, if one ended it), or
  %d   somebody else holds the lease, and did until we gave up; the command was not run
  %d   the lease was lost, or about to be, and the command was stopped
  %d   the server cannot be reached or does not answer; the command was not run
  %d  the command cannot be run; %d: it cannot be found
  %d   the command line or the claim makes no sense; the command was not run`,
	cli.ExitSignal, cli.ExitNotAcquired, cli.ExitLost, cli.ExitUnavailable, cli.ExitCannotRun, cli.ExitNotFound, cli.ExitUsage)

// guardHelp is in the help of lock and elect.
const guardHelp = `The command runs in a process group of its own, gets the signals that we get, and
dies with us, even if we are killed. It is asked to end (SIGTERM) when the lease could
not be renewed for three quarters of its time, and killed (SIGKILL) shortly
before another may hold the lease. What it leaves behind in its process group
when it ends is ended, too; after that the lease is released.

Ctrl-Z and SIGTSTP stop the command and us. When we go on in time, so does the command.
Otherwise it is killed before the lease can be another's: a second process of ours
("tenure shepherd") knows the deadline and sees to that even while we are stopped,
by SIGSTOP or a debugger, too. If it is killed, another takes its place with the next
renewal. A whole machine that is suspended stops all three. When it goes on after the lease
has passed to another, the command may do some harm before it is killed. Only the
resource can refuse that: hand $TENURE_TOKEN to it with every write, and let it refuse a
number smaller than the highest that it has seen.`

// bound returns a context that ends when patience does.
func (w *wait) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.limit > 0 {
		return context.WithTimeout(ctx, w.limit)
	}
	return context.WithCancel(ctx)
}

// wait is the duration of --wait, for ever unless given.
type wait struct {
	limit time.Duration
	set   bool
}

func (w *wait) String() string {
	if !w.set {
		return "for ever"
	}
	return w.limit.String()
}

func (w *wait) Type() string { return "duration" }

func (w *wait) Wants() string { return "a time with its unit, such as 10s, or 0 to try once" }

func (w *wait) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("want 0 or more; leave it out to wait for ever")
	}
	w.limit, w.set = d, err == nil
	return err
}
