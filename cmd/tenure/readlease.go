package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/cli"
)

func readLeaseCommand() *cobra.Command {
	var at place
	var o cli.Output
	var cells bool
	cmd := &cobra.Command{
		Use:   "read-lease",
		Short: "Show which members answer linearizable reads by themselves, and choose them",
		Long: `A member with a read lease answers linearizable reads from its own memory, without a
message. In return a write is answered only when every such member has it, or its
lease has run out. The policy of the cluster says who takes leases:

  off     nobody: each read waits until the leader has asked the others
  leader  the leader; reads at other members cost a question to it
  all     every member that is read from
  static, quorum, cost
          the keys are divided among members: by hand, each key to who reads it most,
          or to whom makes its reads and writes cheapest

The order is strict, as etcd has it: a reader of a revision sees all before it. In key
order, which those that divide the keys take and the others may (leader/key, all/key),
a write waits only for those that hold its keys, and that is promised of each key and of
keys that are read or written together, but of no two others.

HOLDS is what a member reads by itself at this time: all keys, so many ranges of keys,
or some keys, by their hash. LEFT is for how much longer unless it renews its lease,
which it does while it is read from. BOUND TO IT are the members
that wait for it. HAS LOG TO is how far it has the log, as far as the leader has heard.
READS are linearizable ones since the member started: LOCAL by its lease, ROUND by
asking the others, FORWARDED by asking the leader.

"Held up" are writes that are replicated and wait for a member with a lease, for as long
as the first of them has; those that are named lack one of them and hold its keys. A member
that is waited for too long is stalled: its lease is not renewed until it has caught up.

TROUBLE also tells what was odd about a member's clock: that its process or machine stood
still, which is safe; or that its time of day moved apart from the clock by which leases are
measured, or that clock runs too fast or too slow. Then the member gives its lease up for
as long, and for a second.

If the keys are divided, some of their holders are shown below, and all of them with
--cells, in the words of "tenure read-lease set --cells". Keys and ranges come first; all
other keys go by their hash, hash:I/N being the I-th of N parts; and the default has what
is in none of these. Members that are named hold the keys if they are read from, and have
a lease by the table above.`,
		Example: "  tenure read-lease\n  tenure read-lease -o json\n  tenure read-lease --cells\n  tenure read-lease set all\n  tenure read-lease holders config/ --prefix",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withMembers(at, func(ctx context.Context, client *clientv3.Client, members []*pb.Member) error {
				leases, err := askReadLeases(ctx, client, members, members)
				if err != nil {
					return trouble(at, err)
				}
				if cells || o == "table" {
					if err := leases.askCells(ctx, client, members); err != nil && cells {
						return trouble(at, err)
					}
				}
				if cells && o == "table" {
					return leases.allCells(cmd.OutOrStdout())
				}
				return o.Print(cmd.OutOrStdout(), leases, func() { leases.table(cmd.OutOrStdout()) })
			})
		},
	}
	serverFlag(cmd.PersistentFlags(), &at)
	cmd.Flags().BoolVar(&cells, "cells", false, "show the holders of keys and nothing else, or with -o json that besides")
	o.Register(cmd)
	cmd.AddCommand(readLeaseSetCommand(&at), readLeaseHoldersCommand(&at))
	return cmd
}

// withMembers runs one short command with a client of the cluster and its members.
func withMembers(at place, f func(context.Context, *clientv3.Client, []*pb.Member) error) error {
	return withMembersFor(10*time.Second, at, f)
}

// withMembersFor is withMembers with another limit.
func withMembersFor(limit time.Duration, at place, f func(context.Context, *clientv3.Client, []*pb.Member) error) error {
	if err := at.ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	client, err := serverAt(ctx, at)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := listMembers(ctx, client)
	if refused := at.refused(err); refused != nil {
		return refused
	}
	if err != nil {
		return cli.Exit(cli.ExitUnavailable, fmt.Errorf("no member answers at %s: %w; check the address, and that the server runs", at, err))
	}
	return f(ctx, client, list.Members)
}

// errNoReadLeases is the error for servers without the service.
var errNoReadLeases = errors.New("no server there knows read leases")

// trouble is an error of the service's, as a colleague would put it, with the exit
// code that it deserves.
func trouble(at place, err error) error {
	switch code := status.Code(err); {
	case errors.Is(err, errNoReadLeases) || code == codes.Unimplemented:
		return fmt.Errorf("the server at %s has no read leases to show or set: it is a stock etcd, or a Tenure before they came; it serves all the same, each linearizable read by way of its leader", at)
	case code == codes.InvalidArgument:
		return cli.Usagef("%s", strings.TrimPrefix(status.Convert(err).Message(), "quorumlease: "))
	case code == codes.PermissionDenied:
		return errors.New(status.Convert(err).Message())
	}
	return cli.Exit(cli.ExitUnavailable, errors.New(status.Convert(err).Message()))
}
