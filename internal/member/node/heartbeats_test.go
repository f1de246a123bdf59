package node

import (
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A heartbeat is late if more than the bound has passed since the one before it to the same member in the same term. Other
// messages are never.
func TestLateHeartbeatsAreCounted(t *testing.T) {
	message := func(kind raftpb.MessageType, to machine.NodeID, term uint64) machine.Envelope {
		return machine.Envelope{To: to, Body: &raftpb.Message{Type: kind.Enum(), Term: &term}}
	}
	const beat, entries = raftpb.MsgHeartbeat, raftpb.MsgApp
	begin := time.Now()
	var h heartbeats
	for _, tt := range []struct {
		name string
		env  machine.Envelope
		at   time.Duration
		late time.Duration // 0: it is not
	}{
		{"the first", message(beat, 2, 5), 0, 0},
		{"the first to another", message(beat, 3, 5), 500 * time.Millisecond, 0},
		{"entries", message(entries, 2, 5), 900 * time.Millisecond, 0},
		{"the second, as late as may be", message(beat, 2, 5), 200 * time.Millisecond, 0},
		{"the third, later", message(beat, 2, 5), 401 * time.Millisecond, time.Millisecond},
		{"the second to another", message(beat, 3, 5), 900 * time.Millisecond, 200 * time.Millisecond},
		{"the first of another term", message(beat, 2, 7), time.Hour, 0},
		{"the second of that term", message(beat, 2, 7), time.Hour + time.Second, 800 * time.Millisecond},
	} {
		late, by := h.observe(tt.env, begin.Add(tt.at), 200*time.Millisecond)
		if late != (tt.late > 0) || by != tt.late {
			t.Errorf("%s: late %v, by %v, want by %v", tt.name, late, by, tt.late)
		}
	}
	if n := h.late.Load(); n != 3 {
		t.Errorf("%d heartbeats are counted as late, want 3", n)
	}
}
