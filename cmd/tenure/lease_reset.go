package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
)

// forgottenRun is what `lease reset` prints.
type forgottenRun struct {
	Name string      `json:"name"`
	Run  *tenure.Run `json:"forgotten"` // null if there was none
}

func leaseResetCommand() *cobra.Command {
	var at place
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "reset NAME",
		Short: "Forget the last run of a command that runs once a period",
		Long: fmt.Sprintf(`Forgets the last run of the command that NAME is for (tenure lock NAME --every), so that the
next start runs it.

That mends a record of the future, which a host has left whose clock was wrong: no other start
can tell whether the command is due (exit code %d of lock), though that clock is right by now. It
lets a command run again in its period, too.

A run that is under way is not forgotten: the exit code is %d then.`, cli.ExitConfig, cli.ExitNotAcquired),
		Example:           "  tenure lease reset nightly\n  tenure lease reset nightly --at file:///mnt/shared/leases",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNames(&at),
		RunE: func(cmd *cobra.Command, args []string) error {
			settle(&at, cmd.ErrOrStderr())
			ctx, stop := cli.UntilSignal(cmd.Context())
			defer stop()
			l, err := openAt(ctx, at)
			if err != nil {
				return cli.Interrupted(stoppedBy(ctx, err))
			}
			defer l.Close()
			return cli.Interrupted(resetRun(ctx, l, args[0], o, cmd.OutOrStdout()))
		},
	}
	atFlag(cmd.Flags(), &at)
	o.Register(cmd)
	return cmd
}

func resetRun(ctx context.Context, l tenure.Leaser, name string, o cli.Output, w io.Writer) error {
	run, err := bounded(ctx, func(ctx context.Context) (tenure.Run, error) { return forgetRun(ctx, l, name) })
	if err != nil {
		return refusal(err)
	}
	forgotten := forgottenRun{Name: name}
	if !run.Started.IsZero() {
		forgotten.Run = &run
	}
	return o.Print(w, forgotten, func() {
		if forgotten.Run == nil {
			fmt.Fprintf(w, "%q has no run that is known\n", name)
		} else {
			fmt.Fprintf(w, "forgot the last run of %q: %s\n", name, run)
		}
	})
}

// forgetRun returns the run that it forgets, under the lease, so that none is under way.
func forgetRun(ctx context.Context, l tenure.Leaser, name string) (run tenure.Run, err error) {
	job := tenure.Periodic{Leaser: l, Claim: tenure.Claim{Name: name, Holder: "a command that forgets a run"}, Every: 1}
	if run, err = job.Last(ctx); err != nil || run.Started.IsZero() {
		return run, err
	}
	lease, err := l.TryAcquire(ctx, job.Claim)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, lease.Release(context.WithoutCancel(ctx))) }()
	if run, err = job.Last(ctx); err != nil { // another may have run since
		return run, err
	}
	return run, l.(tenure.Recorder).SetRecord(ctx, lease, nil)
}
