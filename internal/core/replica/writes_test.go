package replica

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// An acknowledgment repeats an earlier one if the same leader was told as much in the same term. One
// that says more makes up for one that is late (D3).
func TestWhatRepeatsAnAcknowledgment(t *testing.T) {
	acks := func(term, to, index uint64) *raftpb.Message {
		return &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: &term, To: &to, Index: &index}
	}
	rejection := acks(5, 1, 9)
	rejection.Reject = new(true)
	other := acks(5, 1, 9)
	other.Type = raftpb.MsgHeartbeatResp.Enum()
	for _, tt := range []struct {
		name    string
		m       *raftpb.Message
		repeats bool
		acked   ack
	}{
		{"as much", acks(5, 1, 10), true, ack{5, 1, 10}},
		{"less", acks(5, 1, 9), true, ack{5, 1, 10}},
		{"more", acks(5, 1, 11), false, ack{5, 1, 11}},
		{"as much in another term", acks(6, 1, 10), false, ack{6, 1, 10}},
		{"less in another term", acks(6, 1, 9), false, ack{6, 1, 9}},
		{"as much to another leader", acks(5, 2, 10), false, ack{5, 2, 10}},
		{"a rejection", rejection, false, ack{5, 1, 10}},
		{"another answer", other, false, ack{5, 1, 10}},
	} {
		late := acks(5, 1, 10)
		w := &writes{acked: ack{5, 1, 10}, late: late}
		if got := w.repeats(tt.m); got != tt.repeats || w.acked != tt.acked {
			t.Errorf("%s repeats what was acknowledged: %v, and then %+v is; want %v, %+v", tt.name, got, w.acked, tt.repeats, tt.acked)
		}
		if news := tt.acked != (ack{5, 1, 10}); (w.late == nil) != news {
			t.Errorf("behind %s the late acknowledgment is still to go: %v", tt.name, w.late != nil)
		}
	}
}
