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

func agreeCommand() *cobra.Command {
	var o agreeOptions
	cmd := &cobra.Command{
		Use:   "agree NAME [VALUE]",
		Short: "Agree on one value for a name, for ever",
		Long: `Proposes VALUE for NAME, and prints the value that is decided: that of one caller, the same for
all callers, and never another one. Without VALUE it prints what is decided, and proposes nothing.

It is consensus over the stores of leases, directories or Redis: any minority of them may fail, and
any number of processes may propose. It does not rest on clocks. It needs stores that keep all that
they acknowledged, so a Redis without a disk and a store that was restored from a copy will not do.

A decision stays as long as the stores do, and nothing can change it: a setting that changes takes a
new name each time, such as config/7. A VALUE has at most 512 bytes. While callers disagree, the one
that holds the lease of the same name decides, so keep NAME for this: a lock of that name that is
held makes an agreement wait.

Exit codes: 69 if the stores do not answer, 75 if nothing is decided yet.`,
		Example: `  # Three hosts start at once, and all get the secret of the one that came first.
  secret=$(tenure agree cluster-secret "$(openssl rand -hex 16)" --at file:///mnt/a,/mnt/b,/mnt/c)

  # What is decided?
  tenure agree cluster-secret --at file:///mnt/a,/mnt/b,/mnt/c`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := cli.UntilSignal(cmd.Context())
			defer stop()
			settle(&o.at, cmd.ErrOrStderr())
			return cli.Interrupted(o.run(ctx, args, cmd.OutOrStdout()))
		},
	}
	flags := cmd.Flags()
	storeFlag(flags, &o.at.url) // servers have no agreements
	flags.Var(&o.patience, "wait", "how long to wait for the decision (`duration`)")
	o.output.Register(cmd)
	return cmd
}

type agreeOptions struct {
	at       place
	patience wait
	output   cli.Output
}

// agreements are what engines over storage have beside leases.
type agreements interface {
	Agree(ctx context.Context, name string, proposal []byte) ([]byte, error)
	Decided(ctx context.Context, name string) (value []byte, ok bool, err error)
}

// agreement is what agree prints.
type agreement struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (o *agreeOptions) run(ctx context.Context, args []string, w io.Writer) error {
	ctx, cancel := o.patience.bound(ctx)
	defer cancel()
	open := openAt
	if len(args) == 1 {
		open = lookAt
	}
	l, err := open(ctx, o.at)
	if err != nil {
		return stoppedBy(ctx, err)
	}
	defer l.Close()
	a, ok := l.(agreements)
	if !ok {
		return cli.Usagef("the engine at %s has no agreements: directories and Redis have", o.at)
	}
	value, err := decide(ctx, a, args)
	if err != nil {
		return err
	}
	return o.output.Print(w, agreement{args[0], string(value)}, func() { fmt.Fprintln(w, string(value)) })
}

// decide proposes the value, or looks if there is none.
func decide(ctx context.Context, a agreements, args []string) (value []byte, err error) {
	decided := true
	if len(args) == 2 {
		value, err = a.Agree(ctx, args[0], []byte(args[1]))
	} else {
		value, decided, err = a.Decided(ctx, args[0])
	}
	switch {
	case errors.Is(err, tenure.ErrUnavailable):
		return nil, cli.Exit(cli.ExitUnavailable, err)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, cli.Exit(cli.ExitNotAcquired, fmt.Errorf("nothing is decided on %q in time: another leads, or holds a lock of this name; your value may be decided all the same", args[0]))
	case err == nil && !decided:
		return nil, cli.Exit(cli.ExitNotAcquired, fmt.Errorf("nothing is decided on %q yet: `tenure agree %s VALUE` proposes a value", args[0], args[0]))
	}
	return value, err
}
