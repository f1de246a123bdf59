package replica

import (
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Levels of the entries that a member can read in the log, each with all below it. Entries of a
// level are proposed only while all members are known to have it. A member without it would end
// with errBadEntry, and during an upgrade so would all members that are not upgraded yet. Other
// versions know the numbers: never change or reuse one.
const (
	keepsLevel = 1 // batches that are kept
	usersLevel = 2 // changes of users, and batches with callers
	alarmLevel = 3 // alarms
	ownLevel   = alarmLevel
)

// levelContext says this member's level. It goes with acknowledgments of the log, in a field
// that raft does not use there, so that members of versions without levels ignore it.
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

// all reports whether each member but the leader itself is known to have a level. A member that
// has said nothing in this leadership is not known to have it. A newcomer counts as a member as
// soon as the log says so.
func (ls levels) all(members []machine.NodeID, self machine.NodeID, level byte) bool {
	for _, m := range members {
		if m != self && ls[m] < level {
			return false
		}
	}
	return true
}
