package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
)

func leaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lease",
		Short: "Look at named leases, break or reset them, and prepare the storage that keeps them",
		Long: `Shows who holds which name, and until when, without contending. (These are the leases
that tenure lock, etcdctl lock and the like hold names by. A server's bare leases are
etcdctl's: etcdctl lease list.)

Leases need no server: a directory will do, of this machine or shared. init prepares one,
bench tells what to expect of it.`,
		Example: "  tenure lease list\n  tenure lease show backup -o json\n  tenure lease break backup\n  tenure lease init --at file:///mnt/shared/leases --ttl 30s\n  tenure lease bench --at file:///mnt/shared/leases",
		Args:    cobra.NoArgs,
	}
	cmd.AddCommand(leaseListCommand(), leaseShowCommand(), leaseBreakCommand(), leaseResetCommand(), leaseInitCommand(), leaseRestoreCommand(), leaseBenchCommand())
	return cmd
}

func leaseListCommand() *cobra.Command {
	var at place
	var watch bool
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List the names that are held",
		Long: `Lists the names that are held or waited for, and their holders.

With --watch it goes on to look, once a second, and prints a line for each name whose holders
have changed, until a signal comes; with -o json each line is an object. A tenure that begins
and ends between two looks is not seen. A store that does not answer for a while is told on
standard error and looked at again.`,
		Example: "  tenure lease list\n  tenure lease list jobs/ -o json\n  tenure lease list --watch\n  tenure lease list --at file:///mnt/shared/leases\n  tenure lease list --at etcd://10.0.0.1:2379,10.0.0.2:2379",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			settle(&at, cmd.ErrOrStderr())
			prefix := ""
			if len(args) > 0 {
				prefix = args[0]
			}
			if watch {
				ctx, stop := cli.UntilSignal(cmd.Context())
				defer stop()
				return watchAt(ctx, at, prefix, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return withLeaser(at, func(ctx context.Context, l tenure.Leaser) error {
				states, err := leaseStates(ctx, l, prefix)
				if err != nil {
					return err
				}
				return o.Print(cmd.OutOrStdout(), states, func() { leaseTable(cmd.OutOrStdout(), states) })
			})
		},
	}
	atFlag(cmd.Flags(), &at)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on, and print each change as a line")
	o.Register(cmd)
	return cmd
}

// leaseStates are the states of all names with the prefix that are held or waited for.
func leaseStates(ctx context.Context, l tenure.Leaser, prefix string) ([]tenure.State, error) {
	lister, ok := l.(tenure.Lister)
	if !ok {
		return nil, cli.Usagef("this engine cannot list names; ask for one by `tenure lease show NAME`")
	}
	names, err := lister.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	var states []tenure.State
	for _, name := range names {
		s, err := l.Observe(ctx, name)
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	return states, nil
}

func leaseShowCommand() *cobra.Command {
	var at place
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the holder of a name, and until when",
		Long: `Shows who holds a name and until when, and how many wait; and of a periodic job (tenure
lock --every) its last run.

Of leases that are kept in storage it shows each store as well: whether it answers and
how fast, how many processes have it open or died with it, what is damaged. A holder who
died is shown until somebody has taken over, or until two looks that are far enough apart
have seen no sign of life; EXPIRES IN is the latest that is possible.`,
		Example:           "  tenure lease show backup\n  tenure lease show backup -o json\n  tenure lease show backup --at file:///mnt/a,/mnt/b,/mnt/c",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNames(&at),
		RunE: func(cmd *cobra.Command, args []string) error {
			settle(&at, cmd.ErrOrStderr())
			return withLeaser(at, func(ctx context.Context, l tenure.Leaser) error {
				return showLease(ctx, l, args[0], o, cmd.OutOrStdout())
			})
		},
	}
	atFlag(cmd.Flags(), &at)
	o.Register(cmd)
	return cmd
}

func leaseTable(w io.Writer, states []tenure.State) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tHOLDER\tTOKEN\tSLOTS\tEXPIRES IN\tWAITING")
	for _, s := range states {
		if len(s.Holders) == 0 {
			fmt.Fprintf(tw, "%s\t(free)\t\t\t\t%d\n", s.Name, s.Waiting)
		}
		for _, h := range s.Holders {
			slots := fmt.Sprint(h.Slots)
			if h.Slots == tenure.Shared {
				slots = "shared"
			}
			fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%v\t%d\n", s.Name, h.Holder, h.Token, slots, time.Until(h.Until).Round(time.Second), s.Waiting)
		}
	}
	tw.Flush()
}

// lookPatience is how long one short command, or one look, waits for the engine.
const lookPatience = 30 * time.Second

// withLeaser opens the engine for one short command.
func withLeaser(at place, f func(context.Context, tenure.Leaser) error) error {
	return withLeaserFor(lookPatience, at, f)
}

// withLeaserFor is withLeaser with another limit.
func withLeaserFor(limit time.Duration, at place, f func(context.Context, tenure.Leaser) error) error {
	if err := at.ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	l, err := lookAt(ctx, at)
	if err != nil {
		return err
	}
	defer l.Close()
	err = f(ctx, l)
	if errors.Is(err, tenure.ErrClaim) {
		return cli.Usage(err)
	}
	return cli.Otherwise(cli.ExitUnavailable, err)
}

// completeNames completes the first argument with names that are held.
func completeNames(at *place) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		var names []string
		there := at.unasked()
		there.url = cmp.Or(there.url, atLocal)
		_ = withLeaserFor(completionLimit, there, func(ctx context.Context, l tenure.Leaser) (err error) {
			if lister, ok := l.(tenure.Lister); ok {
				names, err = lister.List(ctx, begun)
			}
			return err
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
