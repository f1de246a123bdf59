package etcdapi

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// ErrCells says that a text is no list of keys and their holders.
var ErrCells = errors.New("holders of keys")

// readLeaseServer is the one service that is ours and not etcd's.
type readLeaseServer struct {
	*Server
	readleasepb.UnsafeReadLeaseServer
}

// Get tells what this member knows of read leases.
func (s *readLeaseServer) Get(_ context.Context, r *readleasepb.GetRequest) (*readleasepb.GetResponse, error) {
	st, err := s.readLeases()
	if err != nil {
		return nil, err
	}
	members := s.backend.Members()
	leader, term, _ := s.backend.Leader()
	resp := &readleasepb.GetResponse{
		ClusterId: s.clusterID, MemberId: s.memberID, Leader: describe(leader, members), Term: term,
		Policy: st.Policy, Order: st.Order, Ttl: durationpb.New(st.TTL), LeaseLeft: known(st.Left),
		CommittedIndex: st.Committed, ReleasedIndex: st.Released, Stalled: st.Stalled,
		Reads: &readleasepb.Reads{Local: st.LocalReads, Rounds: st.RoundReads, Forwarded: st.ForwardedReads},
	}
	if st.HeldUp > 0 {
		resp.HeldUp = &readleasepb.HeldUp{Entries: st.HeldUp, Waiting: durationpb.New(st.Waiting), By: st.WaitsFor}
	}
	for _, h := range st.Holders {
		resp.Holders = append(resp.Holders, s.holder(&st, &h, members))
	}
	if c := st.Clock; c != nil {
		resp.Clock = &readleasepb.Clock{
			Doubted: c.Doubted, Doubts: c.Doubts, Pauses: c.Pauses, Suspends: c.Suspends, Last: c.Last, LastAgo: durationpb.New(c.Ago),
		}
	}
	if r.Cells && st.Cells != nil {
		resp.Cells = st.Cells()
	}
	return resp, nil
}

// Set changes the policy of the cluster.
func (s *readLeaseServer) Set(ctx context.Context, r *readleasepb.SetRequest) (*readleasepb.SetResponse, error) {
	policy, err := quorumlease.ParsePolicy(r.Policy)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if n := strings.Count(r.Cells, ";") + 1; n > maxCells || len(r.Cells) > maxCellBytes {
		return nil, status.Errorf(codes.InvalidArgument, "%d cells in %d bytes: there may be %d in %d at most; put the common part of the keys into their prefix", n, len(r.Cells), maxCells, maxCellBytes)
	}
	if err := s.mayChange(ctx, policy); err != nil {
		return nil, err
	}
	kept := r.Cells == "" && r.Policy == string(quorumlease.Static)
	if kept { // what the cluster has now decides
		if err := s.backend.Barrier(ctx); err != nil {
			return nil, toStatus(err)
		}
	}
	before, err := s.readLeases()
	if err != nil {
		return nil, err
	}
	if kept {
		if before.Policy != r.Policy {
			return nil, status.Errorf(codes.InvalidArgument, "policy %s needs cells that give each key its holders. The policy now is %s, and no cells were given by hand. To keep those that quorum/key or cost/key have found, give the cells that Get returns", r.Policy, before.Policy)
		}
		return &readleasepb.SetResponse{Previous: before.Policy, Policy: r.Policy}, nil
	}
	if r.Cells != "" && r.Policy != string(quorumlease.Static) {
		return nil, status.Errorf(codes.InvalidArgument, "cells divide the keys with policy %s only: policy %s has none", quorumlease.Static, r.Policy)
	}
	if err := s.backend.SetReadPolicy(ctx, r.Policy, r.Cells); errors.Is(err, ErrCells) {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	} else if err != nil {
		return nil, toStatus(err)
	}
	return &readleasepb.SetResponse{Previous: before.Policy, Policy: r.Policy}, nil
}

// Limits of a text that divides the keys, since each request and each entry looks at it.
const (
	maxCells     = 1024
	maxCellBytes = 64 << 10
)

// mayChange refuses what clients may not change here.
func (s *readLeaseServer) mayChange(ctx context.Context, to quorumlease.Policy) error {
	switch {
	case s.config.ReadLeaseChanges == ChangeNothing:
		return status.Error(codes.PermissionDenied, "this member was started with --read-lease-changes none: ask another member, or the operator")
	case s.config.ReadLeaseChanges == ChangeOrder || !to.ByKey():
		return nil
	}
	if err := s.backend.Barrier(ctx); err != nil { // the order that the cluster has now decides
		return toStatus(err)
	}
	now, err := s.readLeases()
	if err != nil {
		return err
	}
	if now.Order == "key" {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "policy %s would give up etcd's order of revisions for all clients, which the operator has to permit: start a member with --read-lease-changes order, and ask it", to)
}

// Holders lists the members that may answer reads of a range.
func (s *readLeaseServer) Holders(_ context.Context, r *readleasepb.HoldersRequest) (*readleasepb.HoldersResponse, error) {
	asked := KeyRange{Key: r.Key, End: r.RangeEnd}
	if len(r.Key) == 0 {
		return nil, rpctypes.ErrGRPCEmptyKey
	}
	if from, to := asked.bounds(); to != nil && bytes.Compare(from, to) >= 0 {
		return nil, status.Errorf(codes.InvalidArgument, "tenure: a range from %q to %q has no key: its end must be behind its begin, or one zero byte for all keys from there on", r.Key, r.RangeEnd)
	}
	st, err := s.readLeases()
	if err != nil {
		return nil, err
	}
	members := s.backend.Members()
	leader, term, _ := s.backend.Leader()
	resp := &readleasepb.HoldersResponse{
		MemberId: s.memberID, Leader: describe(leader, members), Term: term, Policy: st.Policy, Order: st.Order,
	}
	nearest(st.Holders, s.memberID)
	for _, h := range st.Holders {
		if told := s.holder(&st, &h, members); told.Active && h.holds(asked) {
			resp.Holders = append(resp.Holders, told)
		}
	}
	return resp, nil
}

func (s *readLeaseServer) readLeases() (ReadLeaseStatus, error) {
	st, err := s.backend.ReadLeases()
	if err != nil {
		return st, toStatus(err)
	}
	st.withSelf(s.memberID)
	return st, nil
}

func (s *readLeaseServer) holder(st *ReadLeaseStatus, h *ReadLeaseHolder, members []*pb.Member) *readleasepb.Holder {
	told := &readleasepb.Holder{
		Member: describe(h.Member, members), Boot: h.Boot, Grantors: h.Grantors, HasIndex: h.Has,
		Active:  st.reader(h, s.memberID, voters(members)),
		Stalled: slices.Contains(st.Stalled, h.Member), RoundTrip: known(h.RoundTrip), Partial: h.Partial,
	}
	for _, k := range h.Keys {
		told.Keys = append(told.Keys, &readleasepb.KeyRange{Key: k.Key, RangeEnd: k.End})
	}
	return told
}

// describe names a member, nil if there is none.
func describe(id uint64, members []*pb.Member) *readleasepb.Member {
	if id == 0 {
		return nil
	}
	told := &readleasepb.Member{Id: id}
	if at := slices.IndexFunc(members, func(m *pb.Member) bool { return m.ID == id }); at >= 0 {
		told.Name, told.ClientUrls = members[at].Name, members[at].ClientURLs
	}
	return told
}

func voters(members []*pb.Member) (ids []uint64) {
	for _, m := range members {
		if !m.IsLearner {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// known is a duration, nil if it is none.
func known(d time.Duration) *durationpb.Duration {
	if d <= 0 {
		return nil
	}
	return durationpb.New(d)
}
