package server

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// member is what of a node.Node is told to people and tools.
type member interface {
	ID() uint64
	Members() []*pb.Member
	Status() (st node.Status, ok bool)
	Stats() kv.Stats
	View() kv.View
	Clock() (r node.ClockReport, doubted bool)
	RoundTrip(id uint64) time.Duration
	ReadCounts() (local, rounds, forwarded uint64)
	Unsynced() bool
}

// emptySize is about what an empty store occupies. etcd's tools divide by the
// size and do not expect zero.
const emptySize = 4096

// sizes returns the bytes of a state with its history, and those that would be left of it if it were compacted now.
func sizes(of kv.Stats) (size, inUse int64) {
	return of.Bytes + emptySize, of.Bytes - of.History + emptySize
}

// statusOf is what a member says of itself.
func statusOf(m member) etcdapi.Status {
	st, ok := m.Status()
	size, inUse := sizes(m.Stats())
	out := etcdapi.Status{
		CommittedIndex: st.Commit, AppliedIndex: st.Applied, IsLearner: st.Learner, Size: size, SizeInUse: inUse,
	}
	if m.View().Revision() == 0 {
		out.Errors = append(out.Errors, "tenure: this member does not know yet which part of its state may be seen")
	}
	if c, doubted := m.Clock(); doubted {
		out.Errors = append(out.Errors, "tenure: the clock of this machine cannot be trusted, so this member reads by way of the leader: "+c.Last)
	}
	if m.Unsynced() {
		out.Errors = append(out.Errors, "tenure: this member does not sync its disk (--unsafe-no-fsync): a crash of its machine may lose acknowledged writes")
	}
	if !ok {
		out.Errors = append(out.Errors, "tenure: this member is stopping")
	}
	return out
}
