package etcdapi

import (
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// The contenders of a name are all keys under NAME/, and nothing else.
func TestTheRangeOfContenders(t *testing.T) {
	if key, end := contenders([]byte("l")); string(key) != "l/" || string(end) != "l0" {
		t.Errorf("the contenders of l are from %q to %q, want from l/ to l0", key, end)
	}
}

// The leader is the contender that came first, also when it has written since another came.
func TestALeaderThatProclaimsStaysTheLeader(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &served{fake: f, t: t}
	s.grant(0xa)
	e := &electionServer{Server: New(f, Config{})}
	won, err := e.Campaign(t.Context(), &v3electionpb.CampaignRequest{Name: []byte("e"), Lease: 0xa, Value: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	s.put("e/b", "waits")
	if _, err := e.Proclaim(t.Context(), &v3electionpb.ProclaimRequest{Leader: won.Leader, Value: []byte("uno")}); err != nil {
		t.Fatal(err)
	}
	got, err := e.Leader(t.Context(), &v3electionpb.LeaderRequest{Name: []byte("e")})
	if err != nil || string(got.Kv.Key) != "e/a" || string(got.Kv.Value) != "uno" {
		t.Errorf("the leader is %v, %v, want e/a, which came first, with its new value", got, err)
	}
}

// A leader that proclaims with another lease, as after its session was renewed, has its key on that
// lease: the end of the lease before does not end the leadership.
func TestAProclamationIsOnTheLeaseThatItTells(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &served{fake: f, t: t}
	s.grant(0xa)
	s.grant(0xb)
	e := &electionServer{Server: New(f, Config{})}
	won, err := e.Campaign(t.Context(), &v3electionpb.CampaignRequest{Name: []byte("e"), Lease: 0xa})
	if err != nil {
		t.Fatal(err)
	}
	won.Leader.Lease = 0xb
	if _, err := e.Proclaim(t.Context(), &v3electionpb.ProclaimRequest{Leader: won.Leader, Value: []byte("one")}); err != nil {
		t.Fatal(err)
	}
	got, err := e.Leader(t.Context(), &v3electionpb.LeaderRequest{Name: []byte("e")})
	if err != nil || got.Kv.Lease != 0xb {
		t.Errorf("after a proclamation with lease b the leader is %v, %v; want its key on that lease", got, err)
	}
}

// A candidate without a lease is told which one the server granted, for without it nobody can
// renew the leadership.
func TestACampaignWithoutALeaseTellsTheLeaseThatWasGranted(t *testing.T) {
	f := newFake(t, watch.Config{})
	e := &electionServer{Server: New(f, Config{})}
	won, err := e.Campaign(t.Context(), &v3electionpb.CampaignRequest{Name: []byte("e"), Value: []byte("one")})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.View().Range(&pb.RangeRequest{Key: won.Leader.Key})
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("the leader's key: %v, %v", r, err)
	}
	if kv := r.Kvs[0]; won.Leader.Lease == 0 || won.Leader.Lease != kv.Lease || won.Leader.Rev != kv.CreateRevision || string(won.Leader.Name) != "e" {
		t.Errorf("the campaign tells of %v, and the leader's key is %v: the lease and the revision differ", won.Leader, kv)
	}
}

// An observer tells each value of a leader once, though what was before has been compacted.
func TestAnObserverOfACompactedPastTellsEachValueOnce(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &served{fake: f, t: t}
	s.put("e/a", "one")
	s.put("x", "")
	if _, err := s.Propose(t.Context(), &pb.CompactionRequest{Revision: s.put("y", "")}); err != nil {
		t.Fatal(err)
	}
	e, over := &electionServer{Server: New(f, Config{})}, errors.New("over")
	var told []string
	_ = wantReturn(t, "an observer that has heard enough", func() error {
		return e.Observe(&v3electionpb.LeaderRequest{Name: []byte("e")}, telling{contextOnly{ctx: t.Context()}, func(r *v3electionpb.LeaderResponse) error {
			if told = append(told, string(r.Kv.Value)); len(told) > 1 {
				return over
			}
			go s.put("e/a", "uno")
			return nil
		}})
	})
	if len(told) != 2 || told[0] != "one" || told[1] != "uno" {
		t.Errorf("an observer is told %q, want one and then uno", told)
	}
}

// A leader that comes after an observer has found nobody, and before it watches, is told.
func TestAnObserverHearsOfALeaderThatCameMeanwhile(t *testing.T) {
	f := newFake(t, watch.Config{})
	before := f.View()
	(&served{fake: f, t: t}).put("e/a", "one")
	e, over := &electionServer{Server: New(turning{f, make(chan kv.View, 1)}, Config{})}, errors.New("over")
	e.backend.(turning).first <- before
	told := ""
	_ = wantReturn(t, "an observer of a leader that came meanwhile", func() error {
		return e.Observe(&v3electionpb.LeaderRequest{Name: []byte("e")}, telling{contextOnly{ctx: t.Context()}, func(r *v3electionpb.LeaderResponse) error {
			told = string(r.Kv.Key)
			return over
		}})
	})
	if told != "e/a" {
		t.Errorf("an observer is told of %q, want e/a, which came while it looked", told)
	}
}
