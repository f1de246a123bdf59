package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/api/readleasepb"
)

// readLeases is the members' joint report on read leases: `tenure read-lease` prints it, and
// `tenure status` has it as a part.
type readLeases struct {
	Policy string `json:"policy"`
	Order  string `json:"order"`
	Leader string `json:"leader"` // name, or id if it has none; empty if it did not answer
	Term   uint64 `json:"term"`
	// Indexes of the log.
	Committed uint64            `json:"committed"`
	Released  uint64            `json:"released"`
	HeldUp    *heldUp           `json:"held_up,omitempty"`
	Members   []readLeaseMember `json:"members"`
	// Cells are the holders of keys, if the policy divides the keys.
	Cells []string `json:"cells,omitempty"`

	best uint64 // the member whose view of the cluster this is
}

type heldUp struct {
	Entries   uint64   `json:"entries"`
	WaitingMS float64  `json:"waiting_ms"` // of the first of them
	By        []string `json:"by"`
}

type readLeaseMember struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	URLs    []string `json:"urls"`
	Leader  bool     `json:"leader"`
	Learner bool     `json:"learner"`
	// Holds names the keys that it reads by itself at this time.
	Holds    string   `json:"holds,omitempty"`
	LeftMS   float64  `json:"left_ms,omitempty"` // unless it renews its lease
	TTLMS    float64  `json:"ttl_ms,omitempty"`  // of its own promises
	Boot     uint64   `json:"boot,omitempty"`
	Grantors []string `json:"grantors,omitempty"` // members that are bound to it
	Has      uint64   `json:"has,omitempty"`      // index up to which it has the log
	Stalled  bool     `json:"stalled,omitempty"`
	Reads    *reads   `json:"reads,omitempty"`
	// Clock describes faults of its machine's clocks since it started.
	Clock *memberClock `json:"clock,omitempty"`
	Error string       `json:"error,omitempty"`

	left time.Duration
}

// memberClock describes how far a member can trust its clock.
type memberClock struct {
	Doubted  bool    `json:"doubted"` // now: it holds no read lease
	Doubts   uint64  `json:"doubts"`
	Pauses   uint64  `json:"pauses"`
	Suspends uint64  `json:"suspends"`
	Last     string  `json:"last"`
	AgoMS    float64 `json:"last_ago_ms"`
}

// reads are linearizable ones since the member started.
type reads struct {
	Local     uint64 `json:"local"`
	Rounds    uint64 `json:"rounds"`
	Forwarded uint64 `json:"forwarded"`
}

func (r *reads) all() uint64 { return r.Local + r.Rounds + r.Forwarded }

// askReadLeases asks some of the members, those that are known to answer perhaps.
func askReadLeases(ctx context.Context, client *clientv3.Client, members, asked []*pb.Member) (*readLeases, error) {
	answers := make([]*readleasepb.GetResponse, len(asked))
	errs := make([]error, len(asked))
	var asks errgroup.Group
	for i, m := range asked {
		asks.Go(func() error {
			errs[i] = atMember(ctx, client, m, func(ctx context.Context, service readleasepb.ReadLeaseClient) (err error) {
				answers[i], err = service.Get(ctx, &readleasepb.GetRequest{})
				return err
			})
			return nil
		})
	}
	_ = asks.Wait()
	s := &readLeases{}
	for _, m := range members {
		s.Members = append(s.Members, readLeaseMember{ID: hexID(m.ID), Name: m.Name, URLs: m.ClientURLs, Learner: m.IsLearner})
	}
	known, unknown := false, false
	for i, m := range asked {
		known, unknown = known || errs[i] == nil, unknown || status.Code(errs[i]) == codes.Unimplemented
		switch {
		case status.Code(errs[i]) == codes.Unimplemented:
			s.member(m.ID).Error = "tells nothing of read leases: an older version"
		case errs[i] != nil:
			s.member(m.ID).Error = status.Convert(errs[i]).Message()
		}
	}
	switch {
	case !known && (unknown || len(asked) == 0):
		return nil, errNoReadLeases
	case !known:
		return nil, status.Errorf(status.Code(errs[0]), "no member tells of its read leases: %s", status.Convert(errs[0]).Message())
	}
	s.fill(answers)
	return s, nil
}

// atMember calls a member at the first of its URLs that answers. Its errors have a
// gRPC status.
func atMember(ctx context.Context, client *clientv3.Client, m *pb.Member, call func(context.Context, readleasepb.ReadLeaseClient) error) error {
	err := status.Error(codes.Unavailable, "it has not started yet: it has no client URL")
	for _, url := range m.ClientURLs {
		failed := atURL(ctx, client, url, call)
		switch code := status.Code(failed); code {
		case codes.OK, codes.Unimplemented, codes.InvalidArgument:
			return failed
		default:
			err = status.Errorf(code, "no answer from %s: %s", url, status.Convert(failed).Message())
		}
	}
	return err
}

func atURL(ctx context.Context, client *clientv3.Client, url string, call func(context.Context, readleasepb.ReadLeaseClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := client.Dial(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	return call(ctx, readleasepb.NewReadLeaseClient(conn))
}

// fill adds the members' answers, nil for those that gave none. Of the cluster the leader of the latest
// term knows most; of its own lease and its reads each member.
func (s *readLeases) fill(answers []*readleasepb.GetResponse) {
	answers = slices.DeleteFunc(slices.Clone(answers), func(a *readleasepb.GetResponse) bool { return a == nil })
	best := slices.MaxFunc(answers, func(a, b *readleasepb.GetResponse) int {
		return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(leading(a), leading(b)), cmp.Compare(a.ReleasedIndex, b.ReleasedIndex))
	})
	s.best = best.MemberId
	s.Policy, s.Order, s.Term = best.Policy, best.Order, best.Term
	s.Committed, s.Released = best.CommittedIndex, best.ReleasedIndex
	if leading(best) == 1 {
		s.Leader = s.nameOf(best.MemberId)
	}
	if h := best.HeldUp; h != nil {
		s.HeldUp = &heldUp{Entries: h.Entries, WaitingMS: millis(h.Waiting.AsDuration()), By: s.namesOf(h.By)}
	}
	for _, h := range best.Holders {
		if m := s.member(h.GetMember().GetId()); m != nil && h.Boot >= m.Boot {
			m.Boot, m.Has, m.Holds = h.Boot, h.HasIndex, ""
			if h.Active {
				m.Holds = holding(h)
			}
		}
	}
	for i := range s.Members {
		s.Members[i].Grantors = s.namesOf(grantors(s.Members[i], answers, best))
	}
	for _, id := range best.Stalled {
		if m := s.member(id); m != nil {
			m.Stalled = true
		}
	}
	for _, a := range answers {
		if m := s.member(a.MemberId); m != nil {
			m.tell(a, best)
		}
	}
}

// grantors returns the members that are bound to a member, by their own reports, or by the
// leader's for those that do not answer.
func grantors(m readLeaseMember, answers []*readleasepb.GetResponse, best *readleasepb.GetResponse) (ids []uint64) {
	answered := func(id uint64) bool {
		return slices.ContainsFunc(answers, func(a *readleasepb.GetResponse) bool { return a.MemberId == id })
	}
	for _, a := range answers {
		for _, h := range a.Holders {
			if hexID(h.GetMember().GetId()) != m.ID || h.Boot < m.Boot {
				continue
			}
			for _, g := range h.Grantors {
				if g == a.MemberId || a == best && !answered(g) {
					ids = append(ids, g)
				}
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// tell adds the member's report on itself.
func (m *readLeaseMember) tell(a, best *readleasepb.GetResponse) {
	m.Leader = a == best && leading(a) == 1
	m.TTLMS = millis(a.Ttl.AsDuration())
	m.left = a.LeaseLeft.AsDuration()
	m.LeftMS = millis(m.left)
	m.Holds = ""
	for _, h := range a.Holders {
		if h.GetMember().GetId() == a.MemberId && h.Active {
			m.Holds = holding(h)
		}
	}
	if c := a.Clock; c != nil {
		m.Clock = &memberClock{c.Doubted, c.Doubts, c.Pauses, c.Suspends, c.Last, millis(c.LastAgo.AsDuration())}
	}
	m.Reads = &reads{a.Reads.GetLocal(), a.Reads.GetRounds(), a.Reads.GetForwarded()}
}

// holding describes the keys that a holder may read by itself.
func holding(h *readleasepb.Holder) string {
	switch n := len(h.Keys); n {
	case 0:
		if h.Partial {
			return "some keys"
		}
		return "all keys"
	case 1:
		return "1 range"
	default:
		return fmt.Sprintf("%d ranges", n)
	}
}

// leading is 1 if the answer comes from a leader, and 0 otherwise.
func leading(a *readleasepb.GetResponse) int {
	if a.Leader != nil && a.Leader.Id == a.MemberId {
		return 1
	}
	return 0
}

func (s *readLeases) member(id uint64) *readLeaseMember {
	for i := range s.Members {
		if s.Members[i].ID == hexID(id) {
			return &s.Members[i]
		}
	}
	return nil
}

func (s *readLeases) nameOf(id uint64) string {
	if m := s.member(id); m != nil {
		return cmp.Or(m.Name, m.ID)
	}
	return hexID(id)
}

func (s *readLeases) namesOf(ids []uint64) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = s.nameOf(id)
	}
	return names
}

func hexID(id uint64) string { return fmt.Sprintf("%x", id) }
