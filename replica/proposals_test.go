package replica

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A change of the membership that the leader does not take yet is tried again at the next tick,
// and other requests do not wait for that. A put that it does not take tells that it has no
// room, and they do.
func TestARefusedChangeHoldsUpNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		asked  proto.Message
		change bool
	}{
		{"a put", &pb.PutRequest{Key: []byte("k")}, false},
		{"a change", AddMember(9, []string{"http://9:1"}, false), true},
	} {
		body, err := EncodeRequest(tc.asked)
		if err != nil {
			t.Fatal(err)
		}
		r := newStage(t).members[0].r
		p := &r.proposals
		b := &pending{requests: []Propose{{ID: 1, Body: body}}, term: 5, seq: 1}
		p.sent = []*pending{b}
		p.refused(r, refused{Boot: r.cfg.Boot, Term: 5, Seq: 1})
		if b.term != 0 || b.waits != tc.change || p.refusal == tc.change {
			t.Errorf("%s is refused: it waits for the next tick %v, and so do others %v", tc.name, b.waits, p.refusal)
		}
		if p.onTick(r); b.waits || p.refusal {
			t.Errorf("%s was refused, and after a tick it waits %v, and others %v", tc.name, b.waits, p.refusal)
		}
	}
}
