package replica

import (
	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/raft/v3/raftpb"
)

// Levels of what a member can read in the log, each with all below it. Entries of a level
// are proposed only while all members are known to have it: one that had not would end with
// errBadEntry, and the cluster with it if that is how it is upgraded. The numbers
// are told to other versions: never change or reuse one.
const (
	keepsLevel = 1 // batches that are kept
	ownLevel   = keepsLevel
)

// levelContext says this member's level. It goes with acknowledgments of the log, in a field
// that raft leaves alone there, so that members from before levels take no offence.
var levelContext = []byte{ownLevel}

// levels are what the others have told this leader, in its leadership.
type levels map[machine.NodeID]byte

// learn takes the level that goes with an acknowledgment.
func (ls levels) learn(from machine.NodeID, m *raftpb.Message) {
	if m.GetType() != raftpb.MsgAppResp || m.GetReject() {
		return
	}
	ls[from] = 0
	if c := m.GetContext(); len(c) > 0 {
		ls[from] = c[0]
	}
}

// all reports whether each of the members but one, the leader itself, has a level. Of those
// that have said nothing in its leadership it cannot know, and a newcomer is among the members
// from when the log says so.
func (ls levels) all(members []machine.NodeID, self machine.NodeID, level byte) bool {
	for _, m := range members {
		if m != self && ls[m] < level {
			return false
		}
	}
	return true
}
