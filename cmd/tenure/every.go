package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
)

// every is a command that is run once a period, on whichever host comes first.
type every struct {
	period time.Duration // 0: run it whenever the lease is free
	retry  bool
	work   tenure.Periodic
	run    tenure.Run
	words  io.Writer // for people; nil where none look on
}

// everyHelp goes on where exitHelp ends.
var everyHelp = fmt.Sprintf(`
  %d   with --every: the command was run in this period already; said on a terminal only
  %d   with --every: the last run lies in the future, so the clock of a host is wrong, or was
       (tenure lease reset NAME forgets the run)`, cli.ExitDone, cli.ExitConfig)

func (e *every) register(flags *pflag.FlagSet) {
	flags.DurationVar(&e.period, "every", 0, "run the command once in so much time (`duration`), on whichever host comes first")
	flags.BoolVar(&e.retry, "retry", false, "with --every: run it again where it has failed, or its host died")
	e.words = people()
}

// complete checks what was given, together with the claim.
func (e *every) complete(flags *pflag.FlagSet, t *tenancy) error {
	switch {
	case !flags.Changed("every") && e.retry:
		return cli.Usagef("--retry is about runs in a period: give --every, too")
	case !flags.Changed("every"):
		return nil
	case e.period <= 0:
		return cli.Usagef("--every %v: give a positive time, such as 20h", e.period)
	case t.claim.Slots != 1:
		return cli.Usagef("--every is for one run at a time: leave out -n and --shared")
	case len(t.argv) == 0:
		return cli.Usagef("which command? write: tenure lock %s --every %v -- COMMAND", t.claim.Name, e.period)
	}
	return nil
}

// tryLimit is how long a command that is tried once waits for the record: as long as engines wait for a store.
const tryLimit = 5 * time.Second

// acquire is acquire of the tenancy for a command that is due. If it is not, the error has an exit code of its own.
func (e *every) acquire(ctx context.Context, t *tenancy, l tenure.Leaser, patience wait) (tenure.Lease, error) {
	if e.period == 0 {
		return t.acquire(ctx, l, patience)
	}
	e.work = tenure.Periodic{Leaser: l, Claim: t.claim, Every: e.period, Retry: e.retry}
	look := ctx
	if patience.set && patience.limit == 0 { // try once, as for the lease
		short, cancel := context.WithTimeout(ctx, tryLimit)
		defer cancel()
		look = short
	}
	if err := t.calmly(look, e.work.Due); err != nil {
		return nil, e.refusal(t, err)
	}
	if _, err := findCommand(t.argv[0]); err != nil {
		return nil, err // a run that cannot begin must not count
	}
	lease, err := t.acquire(ctx, l, patience)
	if err != nil {
		return nil, err
	}
	err = t.calmly(ctx, func(ctx context.Context) (err error) {
		e.run, err = e.work.Begin(ctx, lease)
		return err
	})
	if err != nil {
		_ = t.release(lease)
		return nil, e.refusal(t, err)
	}
	return lease, nil
}

// calmly calls f with a context that ends with the next signal, which is not lost if f succeeds.
func (t *tenancy) calmly(ctx context.Context, f func(context.Context) error) error {
	ctx, stop := t.calm(ctx)
	err := f(ctx)
	stop()
	if err != nil && t.caught != nil {
		return t.interrupted()
	}
	t.keep()
	return err
}

// refusal gives the error of a command that is not run its exit code. That it was done is news to
// people only: a cron job would send mail about it each night.
func (e *every) refusal(t *tenancy, err error) error {
	switch {
	case errors.As(err, new(cli.ExitError)):
		return err
	case errors.Is(err, tenure.ErrDone):
		t.events.print(event{Event: "done", Name: t.claim.Name, Why: err.Error()})
		if e.words != nil {
			fmt.Fprintln(e.words, "tenure:", err)
		}
		return cli.Exit(cli.ExitDone, nil)
	case errors.Is(err, tenure.ErrClock):
		return cli.Exit(cli.ExitConfig, err)
	case errors.Is(err, tenure.ErrLost):
		return cli.Exit(cli.ExitLost, err)
	}
	return refusal(err)
}

// end records the end of a run whose command has exited, before the lease is released.
func (e *every) end(lease tenure.Lease, code int, err error) error {
	if e.period == 0 || lease.Check() != nil {
		return nil
	}
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d", code)
	}
	return e.work.End(context.Background(), lease, e.run, err)
}
