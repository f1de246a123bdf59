package replica

import (
	"encoding/binary"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// A message fits if it says nothing of this member that cannot be: each limit is the last that fits.
func TestWhichMessagesFit(t *testing.T) {
	s := newStage(t)
	for _, command := range []string{"elect 1", "put 1 k v", "deliver"} {
		s.do(command)
	}
	lead, follower := s.members[0].r, s.members[1].r
	lead.begun, follower.least = 7, follower.last
	round := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	for _, tt := range []struct {
		name string
		at   *Replica
		m    *raftpb.Message
		ok   bool
	}{
		{"a term as far ahead as may be", follower, &raftpb.Message{Type: raftpb.MsgApp.Enum(), Term: new(follower.term + termsMissed)}, true},
		{"a term further ahead", follower, &raftpb.Message{Type: raftpb.MsgApp.Enum(), Term: new(follower.term + termsMissed + 1)}, false},
		{"a commit of the whole log", follower, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Commit: new(follower.last)}, true},
		{"a commit beyond the log", follower, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Commit: new(follower.last + 1)}, false},
		{"a commit beyond the log with entries", follower, &raftpb.Message{Type: raftpb.MsgApp.Enum(), Commit: new(follower.last + 1)}, true},
		{"an acknowledgment of the whole log", lead, &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Index: new(lead.last)}, true},
		{"an acknowledgment beyond the log", lead, &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Index: new(lead.last + 1)}, false},
		{"a refusal of what is beyond the log", lead, &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Index: new(lead.last + 1), Reject: new(true)}, true},
		{"an acknowledgment of an earlier term", lead, &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Index: new(lead.last + 1), Term: new(lead.term - 1)}, true},
		{"an acknowledgment to one that does not lead", follower, &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Index: new(follower.last + 1)}, true},
		{"the latest round", lead, &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Context: round(7)}, true},
		{"a round to come", lead, &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Context: round(8)}, false},
		{"no round", lead, &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum()}, true},
		{"a round of an earlier term", lead, &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Context: round(8), Term: new(lead.term - 1)}, true},
		{"a round at one that does not lead", follower, &raftpb.Message{Type: raftpb.MsgHeartbeatResp.Enum(), Context: round(8)}, true},
		{"a hand-over by the leader", follower, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: new(uint64(1))}, true},
		{"a hand-over by another", follower, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: new(uint64(3))}, false},
	} {
		if tt.m.Term == nil {
			tt.m.Term = new(tt.at.term)
		}
		if err := tt.at.checkFits(tt.m); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want that it fits: %v", tt.name, err, tt.ok)
		}
	}
}
