package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/cli"
)

// keyHolders is what `read-lease holders` prints.
type keyHolders struct {
	Key      string      `json:"key"`
	RangeEnd string      `json:"range_end,omitempty"`
	Policy   string      `json:"policy"`
	Order    string      `json:"order"`
	Leader   string      `json:"leader"` // name, or id if it has none; empty if there is none
	Holders  []keyHolder `json:"holders"`

	leader *readleasepb.Member
}

type keyHolder struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	URLs        []string `json:"urls"`
	RoundTripMS float64  `json:"round_trip_ms"`
}

func readLeaseHoldersCommand(at *place) *cobra.Command {
	var prefix bool
	var o cli.Output
	cmd := &cobra.Command{
		Use:   "holders KEY [RANGE_END]",
		Short: "Show which members answer reads of a key or a range by themselves at this time",
		Long: `Lists the members that answer linearizable reads of a key by themselves at this time,
the nearest to this machine first: to read there costs one round trip to it and no
message between members. All other members answer too, by asking.

RANGE_END makes it a range, which ends before it; --prefix means all keys that begin
with KEY. ROUND TRIP is measured from here. Programs ask any member by the service
tenure.readlease.v1.ReadLease, package readleasepb.`,
		Example: "  tenure read-lease holders config/db\n  tenure read-lease holders a b\n  tenure read-lease holders config/ --prefix -o json",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := keyRange(args, prefix)
			if err != nil {
				return cli.Usage(err)
			}
			return withMembers(*at, func(ctx context.Context, client *clientv3.Client, members []*pb.Member) error {
				holders, err := askHolders(ctx, client, members, r)
				if err != nil {
					return trouble(*at, err)
				}
				return o.Print(cmd.OutOrStdout(), holders, func() { holders.table(cmd.OutOrStdout()) })
			})
		},
	}
	cmd.Flags().BoolVar(&prefix, "prefix", false, "all keys that begin with KEY")
	o.Register(cmd)
	return cmd
}

// keyRange is the range that the arguments name, by etcd's conventions.
func keyRange(args []string, prefix bool) (*readleasepb.HoldersRequest, error) {
	r := &readleasepb.HoldersRequest{Key: []byte(args[0])}
	switch {
	case prefix && len(args) > 1:
		return nil, errors.New("either RANGE_END or --prefix: a prefix says where its range ends")
	case prefix && args[0] == "":
		r.Key, r.RangeEnd = []byte{0}, []byte{0} // all keys
	case prefix:
		r.RangeEnd = []byte(clientv3.GetPrefixRangeEnd(args[0]))
	case args[0] == "":
		return nil, errors.New(`no key is empty; "" --prefix means all keys`)
	case len(args) > 1 && args[1] <= args[0]:
		return nil, fmt.Errorf("a range from %q to %q has no key: it must end behind its begin", args[0], args[1])
	case len(args) > 1:
		r.RangeEnd = []byte(args[1])
	}
	return r, nil
}

// askHolders asks every member whether it is a holder, for each knows that best of
// itself, and measures how far it is.
func askHolders(ctx context.Context, client *clientv3.Client, members []*pb.Member, r *readleasepb.HoldersRequest) (*keyHolders, error) {
	answers := make([]*readleasepb.HoldersResponse, len(members))
	took := make([]time.Duration, len(members))
	errs := make([]error, len(members))
	var asks errgroup.Group
	for i, m := range members {
		asks.Go(func() error {
			errs[i] = atMember(ctx, client, m, func(ctx context.Context, service readleasepb.ReadLeaseClient) (err error) {
				took[i], err = roundTrip(func() (err error) {
					answers[i], err = service.Holders(ctx, r)
					return err
				})
				return err
			})
			return nil
		})
	}
	_ = asks.Wait()
	return holdersOf(r, members, answers, took, errs)
}

// holdersOf puts the members' answers together, nil for those that gave none: those that hold the range by their own word,
// the nearest first, and the rest by the latest answer. Without an answer it returns the error that says most.
func holdersOf(r *readleasepb.HoldersRequest, members []*pb.Member, answers []*readleasepb.HoldersResponse, took []time.Duration, errs []error) (*keyHolders, error) {
	s := &keyHolders{Key: string(r.Key), RangeEnd: string(r.RangeEnd), Holders: []keyHolder{}}
	for i, a := range answers {
		if a == nil {
			continue
		}
		if slices.ContainsFunc(a.Holders, func(h *readleasepb.Holder) bool { return h.GetMember().GetId() == a.MemberId }) {
			m := members[i]
			s.Holders = append(s.Holders, keyHolder{hexID(m.ID), m.Name, m.ClientURLs, millis(took[i])})
		}
	}
	last := latest(answers)
	if last == nil {
		for _, err := range errs {
			if code := status.Code(err); code == codes.Unimplemented || code == codes.InvalidArgument {
				return nil, err
			}
		}
		return nil, errs[0]
	}
	s.Policy, s.Order, s.leader = last.Policy, last.Order, last.Leader
	if l := last.Leader; l != nil {
		s.Leader = cmp.Or(l.Name, hexID(l.Id))
	}
	slices.SortStableFunc(s.Holders, func(a, b keyHolder) int { return cmp.Compare(a.RoundTripMS, b.RoundTripMS) })
	return s, nil
}

// roundTrip calls twice, for the first call makes the connection, and returns how long the second takes.
func roundTrip(call func() error) (time.Duration, error) {
	if err := call(); err != nil {
		return 0, err
	}
	asked := time.Now()
	err := call()
	return time.Since(asked), err
}

// latest is the answer of the latest term, of one that knows the leader if any does; nil if
// there is no answer.
func latest(answers []*readleasepb.HoldersResponse) (last *readleasepb.HoldersResponse) {
	for _, a := range answers {
		if a != nil && (last == nil || a.Term > last.Term || a.Term == last.Term && last.Leader == nil) {
			last = a
		}
	}
	return last
}

func (s *keyHolders) table(w io.Writer) {
	if len(s.Holders) == 0 {
		fmt.Fprintf(w, "no member answers by itself at this time (policy %s); ", s.Policy)
		if s.leader == nil {
			fmt.Fprintln(w, "and there is no leader: a majority of the members must be up and reach each other")
			return
		}
		fmt.Fprintf(w, "the leader is nearest to an answer: %s at %s\n", s.Leader, strings.Join(s.leader.ClientUrls, ","))
		return
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "NAME\tID\tROUND TRIP\tURLS")
	for _, h := range s.Holders {
		fmt.Fprintf(tw, "%s\t%s\t%.1f ms\t%s\n", h.Name, h.ID, h.RoundTripMS, strings.Join(h.URLs, ","))
	}
	tw.Flush()
}
