package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder"
)

// breaking is what lease break is asked for.
type breaking struct {
	at       place
	name     string
	token    uint64 // 0: all that hold
	yes      bool
	output   cli.Output
	ask      io.Reader // answers a question; nil where there is no terminal
	out, say io.Writer
}

// brokenLease is what `lease break` prints.
type brokenLease struct {
	Name   string           `json:"name"`
	Broken []tenure.Holding `json:"broken"` // empty if the name was free
}

func leaseBreakCommand() *cobra.Command {
	var b breaking
	cmd := &cobra.Command{
		Use:   "break NAME",
		Short: "End another's lease by force: its holder may still act",
		Long: fmt.Sprintf(`Ends the tenure of the holder of NAME, so that the next gets it at once, lock delay or not.

It does not stop the holder, which may act beside the next one: until its next renewal tells
it, a third of the lease's time at most; and until its deadline if it cannot reach the
store. Break the lease of a holder that is known to be dead or stopped, or where the resource
checks fencing tokens: that of the next holder is greater. The holder of tenure lock and
tenure elect stops its command (exit code %d) when it learns of the end.

A terminal is asked for a yes; elsewhere give --yes. --token breaks that tenure alone, one of
several or none but the one that was looked at. On an etcd the lease is revoked with all keys
that hang on it. The leases of peers (flease) cannot be broken: each peer has promised to wait
for their ends, which come by themselves within --t-max when the holder's peer is stopped.

The exit code is
  0    the tenure has ended, or nobody held the name
  %d    the question was not answered with yes; nothing was done
  %d   wrong usage, or nobody was asked and --yes is missing, or this engine cannot; nothing was done
  %d   the store cannot be reached, or did not confirm it
  %d   the tenure of --token does not hold the name, but another does; nothing was done`,
			cli.ExitLost, cli.ExitFailure, cli.ExitUsage, cli.ExitUnavailable, cli.ExitNotAcquired),
		Example: `  tenure lease break nightly
  tenure lease break nightly --yes --at etcd://10.0.0.1:2379
  tenure lease break nightly --token 1274 --yes --at file:///mnt/shared/leases`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNames(&b.at),
		RunE: func(cmd *cobra.Command, args []string) error {
			b.name, b.out, b.say = args[0], cmd.OutOrStdout(), cmd.ErrOrStderr()
			if cli.IsTerminal(os.Stdin) && people() != nil {
				b.ask = os.Stdin
			}
			settle(&b.at, b.say)
			ctx, stop := cli.UntilSignal(cmd.Context())
			defer stop()
			l, err := openAt(ctx, b.at)
			if err != nil {
				return cli.Interrupted(stoppedBy(ctx, err))
			}
			defer l.Close()
			return cli.Interrupted(b.run(ctx, l))
		},
	}
	flags := cmd.Flags()
	atFlag(flags, &b.at)
	flags.Uint64Var(&b.token, "token", 0, "break the tenure with this `token`, and no other; 0: all that hold the name")
	flags.BoolVar(&b.yes, "yes", false, "do not ask")
	b.output.Register(cmd)
	return cmd
}

// breakLimit is how long the store has for each step.
const breakLimit = 30 * time.Second

func (b *breaking) run(ctx context.Context, l tenure.Leaser) error {
	breaker, can := l.(holder.Breaker)
	if !can {
		return cli.Usagef("leases at %s cannot be broken: each peer has promised to wait for their ends; stop the holder, or its peer, and they end by themselves within --t-max of the peers", b.at)
	}
	s, err := bounded(ctx, func(ctx context.Context) (tenure.State, error) { return l.Observe(ctx, b.name) })
	if err != nil {
		return refusal(err)
	}
	all := s.Holders
	if b.token != 0 {
		s.Holders = slices.DeleteFunc(slices.Clone(all), func(h tenure.Holding) bool { return h.Token != b.token })
	}
	switch {
	case len(all) == 0:
		return b.output.Print(b.out, brokenLease{b.name, []tenure.Holding{}}, func() { fmt.Fprintf(b.out, "%q is free\n", b.name) })
	case len(s.Holders) == 0:
		return cli.Exit(cli.ExitNotAcquired, fmt.Errorf("no tenure with token %d holds %q: %s holds it with token %d", b.token, b.name, all[0].Holder, all[0].Token))
	}
	if err := b.confirm(s); err != nil {
		return err
	}
	if _, err := bounded(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, breaker.Break(ctx, b.name, s.Holders) }); err != nil {
		return cli.Otherwise(cli.ExitUnavailable, err)
	}
	for _, h := range s.Holders {
		if b.yes { // nobody has read it
			fmt.Fprintln(b.say, "tenure:", warning(h))
		}
	}
	return b.output.Print(b.out, brokenLease{b.name, s.Holders}, func() {
		for _, h := range s.Holders {
			fmt.Fprintf(b.out, "broke %q: %s, token %d\n", b.name, h.Holder, h.Token)
		}
	})
}

// warning tells what force costs.
func warning(h tenure.Holding) string {
	end := "until it learns of this"
	if !h.Until.IsZero() {
		end += ", at the latest until " + h.Until.Local().Format(time.TimeOnly)
	}
	return fmt.Sprintf("%s may still act %s; only a resource that checks tokens refuses its token %d then", h.Holder, end, h.Token)
}

// confirm asks, where it has to.
func (b *breaking) confirm(s tenure.State) error {
	switch {
	case b.yes:
		return nil
	case b.ask == nil:
		return cli.Usagef("a lease is broken by force only if --yes says that this is meant: %s", warning(s.Holders[0]))
	}
	fmt.Fprintf(b.say, "%q: %s, token %d.\n", s.Name, heldBy(s), s.Holders[0].Token)
	for _, h := range s.Holders {
		fmt.Fprintf(b.say, "Warning: %s.\n", warning(h))
	}
	fmt.Fprint(b.say, "Break it? Type yes: ")
	answer, _ := bufio.NewReader(b.ask).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return cli.Exit(cli.ExitFailure, fmt.Errorf("did not break %q: the answer was not yes", b.name))
	}
	return nil
}

// bounded gives a step as long as a store may take.
func bounded[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, breakLimit)
	defer cancel()
	return f(ctx)
}
