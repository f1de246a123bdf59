package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
)

func electCommand() *cobra.Command {
	var t tenancy
	var listen, once bool
	var onLeader string
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "elect NAME [flags] -- COMMAND [ARG…]",
		Short: "Run a command while being the leader, or listen for leaders",
		Long: `Campaigns in the election NAME and runs COMMAND while we lead. When leadership is lost,
COMMAND is stopped and we campaign again; when COMMAND ends by itself, we resign and
exit with its code. COMMAND finds in its environment what lock gives it, and
  TENURE_LEADER  our own value

--on-leader runs a shell command, beside all else, whenever somebody becomes leader,
ourselves included, with TENURE_LEASE, TENURE_TOKEN and TENURE_LEADER of that one.
It is not killed when the leader changes again: make it quick.

With --listen we do not campaign but print the leaders, one a line, until a signal, and
(vacant) when nobody leads.

` + guardHelp + `

` + exitHelp,
		Example: `  # The leader's address is its value, for others to see.
  tenure elect db --value 10.0.0.1:5432 -- postgres-primary

  # Followers follow.
  tenure elect db --value 10.0.0.2:5432 --on-leader './follow "$TENURE_LEADER"' -- postgres-primary

  # Who leads, now and from now on?
  tenure elect db --listen -o json`,
		ValidArgsFunction: completeNames(&t.at),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := context.Background()
			if listen {
				if len(args) != 1 {
					return cli.Usagef("--listen takes the name of an election and nothing else")
				}
				t.claim.Name = args[0]
				return listenLeaders(ctx, &t, o, cmd.OutOrStdout())
			}
			t.asJSON = t.asJSON || o == "json"
			if err := t.complete(cmd, args); err != nil {
				return err
			}
			return elect(ctx, &t, once, onLeader)
		},
	}
	flags := cmd.Flags()
	t.register(flags)
	o.Register(cmd)
	flags.StringVar(&t.claim.Holder, "value", "", "the `text` that we proclaim as leader, such as our address (default host:pid)")
	flags.StringVar(&onLeader, "on-leader", "", "shell `command` to run for each new leader")
	flags.BoolVar(&listen, "listen", false, "print the leaders instead of campaigning")
	flags.BoolVar(&once, "once", false, "exit with 76 when leadership is lost, instead of campaigning again")
	return cmd
}

func elect(ctx context.Context, t *tenancy, once bool, onLeader string) error {
	defer t.events.close()
	leaser, err := t.start(ctx)
	if err != nil {
		return err
	}
	defer leaser.Close()
	if onLeader != "" {
		var hooks sync.WaitGroup
		following, cancel := context.WithCancel(ctx)
		hooks.Go(func() { follow(following, leaser, t, onLeader) })
		defer hooks.Wait()
		defer cancel()
	}
	return t.lead(ctx, leaser, once)
}

// lead campaigns, and runs the command under the lease: again and again, if leadership is lost and
// no signal has told us to end.
func (t *tenancy) lead(ctx context.Context, leaser tenure.Leaser, once bool) error {
	for {
		lease, err := t.acquire(ctx, leaser, wait{})
		if err != nil {
			return err
		}
		code, err := t.under(ctx, lease, "TENURE_LEADER="+t.claim.Holder)
		var exit cli.ExitError
		switch {
		case errors.As(err, &exit) && exit.Code == cli.ExitLost && !once && t.caught == nil:
			fmt.Fprintln(os.Stderr, "tenure:", err)
			continue
		case err == nil && code != 0:
			return cli.Exit(code, nil)
		}
		return err
	}
}

// follow runs the hook for each leader.
func follow(ctx context.Context, l tenure.Leaser, t *tenancy, hook string) {
	for leader, err := range (tenure.Election{Leaser: l, Claim: t.claim}).Observe(ctx) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "tenure: --on-leader:", err)
			return
		}
		cmd := exec.CommandContext(ctx, "/bin/sh", "-c", hook)
		cmd.Env = append(append(os.Environ(), t.at.environment()...), "TENURE_LEASE="+t.claim.Name,
			"TENURE_TOKEN="+strconv.FormatUint(leader.Token, 10), "TENURE_LEADER="+leader.Holder)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil && ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "tenure: --on-leader for %s: %v\n", leader.Holder, err)
		}
	}
}

func listenLeaders(ctx context.Context, t *tenancy, o cli.Output, w io.Writer) error {
	if err := t.at.ready(); err != nil {
		return err
	}
	t.catch()
	settle(&t.at, os.Stderr)
	ctx, stop := t.calm(ctx)
	defer stop()
	l, err := lookAt(ctx, t.at)
	if err != nil {
		if stop(); t.caught != nil {
			return t.interrupted()
		}
		return err
	}
	defer l.Close()
	return tellLeaders(ctx, tenure.Election{Leaser: l, Claim: t.claim}, o, w)
}

// seenLeader is a line of elect --listen -o json.
type seenLeader struct {
	tenure.Holding
	Vacant bool `json:"vacant,omitempty"` // nobody leads, and all else is empty
}

// tellLeaders prints each leader, and each time when there is none, until the context ends, or the
// reader has gone.
func tellLeaders(ctx context.Context, e tenure.Election, o cli.Output, w io.Writer) error {
	s, err := e.Leaser.Observe(ctx, e.Claim.Name)
	told := seenLeader{Vacant: true, Holding: tenure.Holding{Token: ^uint64(0)}} // none of any state
	for ; ctx.Err() == nil; s, err = tenure.Await(ctx, e.Leaser, s) {
		if err != nil {
			return refusal(err)
		}
		leader := seenLeader{Vacant: true}
		if len(s.Holders) > 0 {
			leader = seenLeader{Holding: s.Holders[0]}
		}
		if leader.Token == told.Token {
			continue
		}
		told = leader
		if err := leader.print(o, w); err != nil {
			return err
		}
	}
	return nil
}

func (l seenLeader) print(o cli.Output, w io.Writer) (err error) {
	switch {
	case o == "json":
		err = cli.Line(w, l)
	case l.Vacant:
		_, err = fmt.Fprintln(w, "(vacant)")
	default:
		_, err = fmt.Fprintf(w, "%s\t%d\n", l.Holder, l.Token)
	}
	return err
}
