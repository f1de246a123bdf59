package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/cli"
)

// changedMember is what the changes of a member print.
type changedMember struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Change string `json:"change"`
}

// memberChange is a command that changes one member.
type memberChange struct {
	use, short, long, example string
	done                      string                   // for JSON: what has become of the member
	yes                       string                   // what --yes does; "" if there is no such flag
	usage                     func(which string) error // of the flags, before anything is asked; nil if there are none
	check                     func(c cluster, m listedMember, yes bool) (remark string, err error)
	change                    func(ctx context.Context, client *clientv3.Client, c cluster, m listedMember) error
	says                      func(m listedMember) string
	waits                     bool // for a member that has just been started, as --wait says
}

// notYet is an error that may be over in a moment: a member has just been started.
type notYet struct {
	error
	lacks string // what the member has not done yet
}

func (e notYet) Unwrap() error { return e.error }

// moment is how long a change waits for a member that has just been started.
const moment = 10 * time.Second

// insist tries again, as long as patience lasts, while a member has only just been started. It says so once to
// people, and then for what it waits.
func insist(patience wait, words io.Writer, which string, try func() error) error {
	end, told := time.Now().Add(patience.limit), ""
	for {
		err := try()
		var early notYet
		if !errors.As(err, &early) || !time.Now().Before(end) {
			return err
		}
		if words != nil && early.lacks != told {
			fmt.Fprintf(words, "tenure: waiting for %s, which has not %s yet\n", which, early.lacks)
			told = early.lacks
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// patience is how long the change waits for a member that has just been started: as was said, or not at all.
func (mc memberChange) patience(said wait) wait {
	if mc.waits {
		return said
	}
	return wait{set: true}
}

func (mc memberChange) command(at *place) *cobra.Command {
	var o cli.Output
	var yes bool
	patience := wait{limit: moment, set: true}
	cmd := &cobra.Command{
		Use: mc.use, Short: mc.short, Long: mc.long, Example: mc.example, Args: oneMember,
		ValidArgsFunction: completeMembers(at),
		RunE: func(cmd *cobra.Command, args []string) error {
			if mc.usage != nil {
				if err := mc.usage(args[0]); err != nil {
					return err
				}
			}
			try := func(ctx context.Context, client *clientv3.Client, c cluster) error {
				m, err := c.find(args[0])
				if err != nil {
					return err
				}
				if _, err := c.leader(); err != nil {
					return err
				}
				remark, err := mc.check(c, m, yes)
				if err != nil {
					return err
				}
				if err := mc.change(ctx, client, c, m); err != nil {
					return memberTrouble(fmt.Sprintf("%s %s", cmd.Name(), m), err)
				}
				say(cmd, remark)
				return o.Print(cmd.OutOrStdout(), changedMember{m.ID, m.Name, mc.done}, func() { fmt.Fprintln(cmd.OutOrStdout(), mc.says(m)) })
			}
			return insist(mc.patience(patience), people(), args[0], func() error { return withCluster(*at, try) })
		},
	}
	if mc.waits {
		cmd.Flags().Var(&patience, "wait", "how long to wait for a member that has just been started; 0 to try once")
	}
	if mc.yes != "" {
		cmd.Flags().BoolVar(&yes, "yes", false, mc.yes)
	}
	o.Register(cmd)
	return cmd
}

// say says what is not an error, if anything.
func say(cmd *cobra.Command, remark string) {
	if remark != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "tenure:", remark)
	}
}

func memberRemoveCommand(at *place) *cobra.Command {
	return memberChange{
		use:   "remove MEMBER",
		short: "Remove a member for good",
		long: `Removes a member. Its process ends by itself, and its directory is of no use any more. To let
it come back, add it again and start it with an empty directory. A leader hands leadership
over first.`,
		example: "  tenure member remove c\n  tenure member remove 51f2a6d4bc06e3a1 --yes",
		done:    "removed",
		yes:     "remove it even if too few voters will be up",
		check: func(c cluster, m listedMember, yes bool) (remark string, err error) {
			after := c.voting().without(m)
			switch {
			case m.Learner:
				return "", nil
			case after.voters == 0:
				return "", memberTrouble("remove "+m.String(), rpctypes.ErrMemberNotEnoughStarted)
			}
			return after.allow("the removal of "+m.String(), yes, "start those that are down, or remove them, first")
		},
		change: func(ctx context.Context, client *clientv3.Client, _ cluster, m listedMember) error {
			_, err := client.MemberRemove(ctx, m.id)
			return err
		},
		says: func(m listedMember) string {
			return fmt.Sprintf("%s was removed; its directory is of no use any more", m)
		},
	}.command(at)
}

func memberPromoteCommand(at *place) *cobra.Command {
	return memberChange{
		use:   "promote MEMBER",
		short: "Give a learner its vote, once it has caught up",
		long: `Gives a learner a vote. The server refuses that until the learner has almost all of the log.
A member that has just been started is known by its name, and catches up, within a moment:
--wait says how long to wait for that.`,
		example: "  tenure member promote d\n  tenure member promote d --wait 10m   # with a large log",
		waits:   true,
		done:    "promoted",
		yes:     "promote it even if too few voters will be up",
		check:   cluster.mayPromote,
		change: func(ctx context.Context, client *clientv3.Client, _ cluster, m listedMember) error {
			_, err := client.MemberPromote(ctx, m.id)
			return err
		},
		says: func(m listedMember) string { return fmt.Sprintf("%s votes now", m) },
	}.command(at)
}

// mayPromote judges whether a member may have a vote.
func (c cluster) mayPromote(m listedMember, yes bool) (remark string, err error) {
	if !m.Learner {
		return "", fmt.Errorf("%s votes already", m)
	}
	remark, err = c.voting().with(m).allow("the promotion of "+m.String(), yes, "start "+m.String()+" first")
	if err != nil && !m.Reachable {
		err = notYet{err, "started"}
	}
	return remark, err
}

func memberUpdateCommand(at *place) *cobra.Command {
	var peerURLs []string
	cmd := memberChange{
		use:   "update MEMBER --peer-urls URL",
		short: "Tell the members at which peer URL a member is from now on",
		long: `Tells the members where one of them is from now on. Do it before that one is started there.
Until it listens there it is down for the others.`,
		example: "  tenure member update c --peer-urls http://10.0.0.7:2380",
		done:    "updated",
		usage: func(which string) error {
			if len(peerURLs) != 1 {
				return cli.Usagef("at which URL do the others reach %s? give one, such as --peer-urls http://10.0.0.7:2380", which)
			}
			return reachable("--peer-urls", peerURLs)
		},
		check: func(cluster, listedMember, bool) (string, error) { return "", nil },
		change: func(ctx context.Context, client *clientv3.Client, _ cluster, m listedMember) error {
			_, err := client.MemberUpdate(ctx, m.id, peerURLs)
			return err
		},
		says: func(m listedMember) string { return fmt.Sprintf("the others look for %s at %s now", m, peerURLs[0]) },
	}.command(at)
	cmd.Flags().StringSliceVar(&peerURLs, "peer-urls", nil, "`URL` at which the other members reach it")
	return cmd
}

func memberMoveLeaderCommand(at *place) *cobra.Command {
	return memberChange{
		use:   "move-leader MEMBER",
		short: "Make a member the leader",
		long: `Passes leadership to a member, such as before the leader's host is taken down. Writes wait for
a moment. (A leader that ends by SIGTERM passes leadership on by itself.)`,
		example: "  tenure member move-leader b",
		done:    "leader",
		check: func(_ cluster, m listedMember, _ bool) (string, error) {
			switch {
			case m.Learner:
				return "", fmt.Errorf("%s has no vote and cannot lead: promote it first", m)
			case !m.Reachable:
				return "", fmt.Errorf("%s does not answer, and would not take leadership: start it first", m)
			}
			return "", nil
		},
		change: func(ctx context.Context, _ *clientv3.Client, c cluster, m listedMember) error {
			if m.Leader {
				return nil
			}
			leader, err := c.leader()
			if err != nil {
				return err
			}
			cfg, err := at.config()
			if err != nil {
				return err
			}
			cfg.Endpoints = leader.ClientURLs // only the leader can pass it on
			client, err := clientOf(ctx, *at, cfg)
			if err != nil {
				return err
			}
			defer client.Close()
			_, err = client.MoveLeader(ctx, m.id)
			return err
		},
		says: func(m listedMember) string { return fmt.Sprintf("%s leads now", m) },
	}.command(at)
}
