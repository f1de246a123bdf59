package replica

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"go.etcd.io/raft/v3/raftpb"
)

// A death is of the leader that raft knows, which is not the one last reported if
// a heartbeat comes in the same turn.
func TestDownComesWithAHeartbeat(t *testing.T) {
	for _, tt := range []struct {
		name         string
		from, dead   machine.NodeID
		fresh        bool           // the member has yet to hear of a leader
		downFirst    bool           // before the heartbeat
		want         machine.NodeID // leader, after the turn
		wantCampaign bool
	}{
		{"first heartbeat of the dead", 1, 1, true, false, 0, true},
		{"first heartbeat of another", 3, 1, false, false, 3, false},
		{"heartbeat after a mistake", 1, 1, false, true, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			s.do("elect 1")
			m := s.members[1]
			term, from := m.r.Status().Term, uint64(tt.from)
			if tt.fresh {
				s.boot(m)
			}
			if tt.from != 1 {
				term++
			}
			inputs := []any{machine.Envelope{From: tt.from, To: m.id, Body: &raftpb.Message{
				Type: raftpb.MsgHeartbeat.Enum(), From: &from, To: new(uint64(m.id)), Term: &term,
			}}, Down{Node: tt.dead}}
			if tt.downFirst {
				slices.Reverse(inputs)
			}
			for _, in := range inputs {
				m.r.Step(machine.Now{Mono: s.now}, in)
			}
			rd := m.r.Ready()
			if got := m.r.Status().Leader; got != tt.want {
				t.Errorf("the leader is %d, want %d", got, tt.want)
			}
			if got := rd.Alarm < s.now.Add(50*time.Millisecond); got != tt.wantCampaign {
				t.Errorf("the next alarm is in %v, before a tick is %v", rd.Alarm.Sub(s.now), got)
			}
		})
	}
}
