package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// changedPolicy is what `read-lease set` prints.
type changedPolicy struct {
	Previous string `json:"previous"`
	Policy   string `json:"policy"`
}

func readLeaseSetCommand(at *place) *cobra.Command {
	var o cli.Output
	var order, cells string
	cmd := &cobra.Command{
		Use:   "set POLICY",
		Short: "Change which members answer linearizable reads by themselves: off, leader, all, static, quorum or cost",
		Long: `Changes the cluster's policy of read leases, while it serves and for all its members.
No read is wrong and no write is lost meanwhile: leases that the new policy does not
want are given back, those that it wants are taken when somebody reads.

  off     for clusters that must never wait for a member that died, nor rely on clocks
          that run at about the same rate
  leader  reads at the leader ask nobody; writes are as fast as with off, and wait up to
          a lease's length when the leader dies
  all     reads at every member ask nobody; a write waits for all that are read from,
          and up to a lease's length when one of those dies

With --order key a write waits for those only that hold its keys, and what a reader of
one key has seen says nothing of other keys: revisions are in order for each key and no
more. A member that was started with --read-lease-changes order has to be asked for that,
if the cluster is in strict order. These policies divide the keys among members and need it:

  static  as --cells says
  quorum  each key is held by the leader and those who read it most, a majority together
  cost    each key is held by whoever makes reads and writes of it cheapest

--cells lists who holds what by the names of members, * for all:
  prefix:/jp/ = a,b; range:/eu/a../eu/n = b,c; key:/motd = *; default = a
hash:I/N is the I-th of N parts, from 0, by the hash of keys that are in no prefix, range or
key; N is a power of two. The default holds the rest, and there has to be one.

The member that leads when cells are set holds all keys besides, which costs writes
nothing. When another leads, it reads what it does not hold by asking others, until the
cells are set again; the former leader goes on to hold all. quorum and cost look at that
every few seconds themselves. What they have found stays if the policy becomes static with
--cells "$(tenure read-lease --cells)".`,
		Example:   "  tenure read-lease set all\n  tenure read-lease set off --at etcd://10.0.0.1:2379\n  tenure read-lease set cost --order key\n  tenure read-lease set static --order key --cells 'prefix:/jp/ = tokyo; default = *'",
		Args:      cobra.ExactArgs(1),
		ValidArgs: policyNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			policy, err := readLeasePolicy(args[0], order)
			switch {
			case err != nil:
				return cli.Usagef("%s", strings.TrimPrefix(err.Error(), "quorumlease: "))
			case cells != "" && policy != quorumlease.Static:
				return cli.Usagef("--cells assigns keys to holders with the policy static only; with %s the leader does that", args[0])
			case cells == "" && policy == quorumlease.Static:
				return cli.Usagef("static needs --cells: the holders of keys, such as 'prefix:/jp/ = tokyo; default = *'; to keep the cells that quorum or cost have found: --cells \"$(tenure read-lease --cells)\"")
			}
			return withMembers(*at, func(ctx context.Context, client *clientv3.Client, _ []*pb.Member) error {
				service := readleasepb.NewReadLeaseClient(client.ActiveConnection())
				got, err := service.Set(ctx, &readleasepb.SetRequest{Policy: string(policy), Cells: cells})
				if err != nil {
					return trouble(*at, undecided(err))
				}
				changed := changedPolicy{got.Previous, got.Policy}
				return o.Print(cmd.OutOrStdout(), changed, func() {
					if cells != "" {
						fmt.Fprintf(cmd.OutOrStdout(), "policy %s with these cells, was %s\n", got.Policy, got.Previous)
						return
					}
					if got.Previous == got.Policy {
						fmt.Fprintf(cmd.OutOrStdout(), "policy %s, as it was\n", got.Policy)
						return
					}
					fmt.Fprintf(cmd.OutOrStdout(), "policy %s, was %s\n", got.Policy, got.Previous)
				})
			})
		},
	}
	cmd.Flags().StringVar(&order, "order", "", "`order` of writes: strict, as etcd has it, or key (default that of POLICY, which is strict unless it ends in /key)")
	cmd.Flags().StringVar(&cells, "cells", "", "`holders` of keys, with the policy static")
	o.Register(cmd)
	return cmd
}

// policyNames are the policies without their order.
var policyNames = []string{"off", "leader", "all", "static", "quorum", "cost"}

// readLeasePolicy is the policy of a name in an order, "" for that of the name.
func readLeasePolicy(name, order string) (quorumlease.Policy, error) {
	policy, err := quorumlease.ParsePolicy(name)
	byKey, keyErr := quorumlease.ParsePolicy(name + "/key")
	switch {
	case order != "" && order != "strict" && order != "key":
		return "", fmt.Errorf("order %q: want strict or key", order)
	case order == "key" && keyErr == nil:
		return byKey, nil
	case order == "key" && err == nil && !policy.ByKey():
		return "", fmt.Errorf("the policy %s has no order, as nobody holds anything", name)
	case order == "strict" && err == nil && policy.ByKey():
		return "", fmt.Errorf("the policy %s is in key order, not strict", name)
	case err != nil && keyErr == nil:
		return "", fmt.Errorf("the policy %s divides the keys among members, which takes order key: a reader of one key then learns nothing about other keys", name)
	}
	return policy, err
}

// undecided adds to an error what to do about it, if the change may have been made.
func undecided(err error) error {
	switch code := status.Code(err); code {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unimplemented:
		return err
	default:
		return status.Errorf(code, "%s; whether the policy was changed is not known: `tenure read-lease` shows it, and to set it again does no harm", status.Convert(err).Message())
	}
}
