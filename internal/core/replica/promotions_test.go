package replica

import (
	"maps"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A leader counts the learners that get a vote, and those that it refuses one, by the reason. Other changes and other
// members count nothing.
func TestPromotionsAreCounted(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "pass 200ms"} {
		s.do(command)
	}
	before := FoundedBy([]*pb.Member{{ID: 1}, {ID: 2, IsLearner: true}, {ID: 3}, {ID: 4, IsLearner: true}})
	after := FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}, {ID: 4, IsLearner: true}, {ID: 5}, {ID: 6, IsLearner: true}})
	for id, want := range map[machine.NodeID]uint64{1: 1, 2: 0} {
		r := s.members[id-1].r
		r.roster = before
		r.enrolled(after)
		if got := r.Status().Promoted; got != want {
			t.Errorf("member %d counts %d promotions, want %d", id, got, want)
		}
	}
	r := s.members[0].r
	if got := r.Status().Unpromoted; got != nil {
		t.Errorf("without a refusal %v are counted", got)
	}
	r.roster = before
	r.reads.memberships = before.Memberships
	ask := func(m *Propose) {
		if v := r.admit(r.term, nil, []Propose{*m}); v < refusals {
			t.Fatalf("a change that makes no sense: verdict %d", v)
		}
	}
	proposal := func(body []byte, err error) *Propose {
		if err != nil {
			t.Fatal(err)
		}
		return &Propose{Body: body}
	}
	for range 2 {
		ask(proposal(EncodeRequest(PromoteMember(9))))
	}
	ask(proposal(EncodeRequest(PromoteMember(3))))
	ask(proposal(EncodeRequest(RemoveMember(9))))
	want := map[string]uint64{"etcdserver: member not found": 2, "etcdserver: can only promote a learner member": 1}
	if got := r.Status().Unpromoted; !maps.Equal(got, want) {
		t.Errorf("promotions that were refused are counted as %v, want %v", got, want)
	}
}
