package replica

import (
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"go.etcd.io/raft/v3/raftpb"
)

// Inputs: what the owner of a Replica steps into it, beside messages and Planned.
type (
	// Propose asks for a request to be replicated. Its fate comes back as a
	// [Result] of the [Applier] or as [Dropped], under the same ID; a Result may
	// still follow a Dropped that was ambiguous. Bodies of up to MaxEntryBytes
	// share an entry.
	Propose struct {
		ID     uint64      // chosen by the owner, never reused within a boot
		Body   []byte      // from EncodeRequest
		Caller auth.Caller // by whom the request is judged, once users are in force
	}
	// Read asks for the index that a linearizable read has to wait for. Reads
	// are numbered upwards; a ReadReady for number n answers all up to n.
	Read struct{ Number uint64 }
	// ReadKeys asks how some keys may be read, in key order; the answer is KeysReady.
	// There is none if no leader can be asked for eight election timeouts.
	ReadKeys struct {
		ID   uint64 // chosen by the owner, never reused within a boot
		Keys keyspan.Set
	}
	// Doubted tells that this member's clock may not have gone as time does since then, and
	// may not do so until then. It has no read lease for so long, whatever it was promised;
	// and what it has promised as a grantor lasts longer (R11).
	Doubted struct{ Since, Until machine.Mono }
	// Served tells that reads were served under the lease, so that it goes on. Keys are
	// those that were, if its KeyLease says that they are counted.
	Served struct{ Keys keyspan.Set }
	// AskLease asks the leader about a lease, and renews it if Renew is set.
	// The answer is an AnswerLease with the same ID; there is none if no leader
	// can be asked for eight election timeouts.
	AskLease struct {
		ID    uint64
		Lease int64
		Renew bool
	}
	// Applied tells that the Applier has applied everything up to Index, what
	// that did to leases, and which of this member's batches it contained.
	Applied struct {
		Index, Term uint64
		Leases      []leaseChange
		Batches     []batchFate
		// As of Index:
		ReadPolicy quorumlease.Policy
		ReadCells  *placement.Configuration // nil: each member with promises holds all keys
		LeaseKeys  func(lease int64) [][]byte
		Roster     Roster
		UsersUsed  bool // users or roles were changed before
		AlarmsUsed bool // an alarm was raised before
	}
	// Restored tells that the Applier now holds the state of a snapshot.
	Restored struct {
		Index, Term uint64
		Released    uint64 // up to where the state may be seen
		Leases      []leaseChange
		ReadPolicy  quorumlease.Policy
		ReadCells   *placement.Configuration
		LeaseKeys   func(lease int64) [][]byte
		Roster      Roster
		UsersUsed   bool
		AlarmsUsed  bool
	}
	// Snapshotted tells that the state at Index is durable as a snapshot, so
	// that older entries are needed no more.
	Snapshotted struct {
		Index, Term uint64
		ConfState   *raftpb.ConfState
	}
	// SnapshotSent tells how sending a snapshot to a member ended.
	SnapshotSent struct {
		To machine.NodeID
		OK bool
	}
	// Down tells that a member's connection was closed by its end, as it is
	// when its process died. Being wrong about it costs an election at worst.
	Down struct{ Node machine.NodeID }
	// Unreachable tells that messages to a member are being lost.
	Unreachable struct{ Node machine.NodeID }
	// HandOver asks a leader to pass leadership to a voter, or if To is 0 to its most
	// advanced follower.
	HandOver struct{ To machine.NodeID }
)

// Outcomes: what a Replica reports to its owner, beside a *Plan and a *KeyLease.
type (
	// Committed entries are to be given to the Applier, in order, and then
	// reported with Applied. Entries that are Held are visible to nobody before a Released
	// says so: no reader, no watcher, and no caller that waits for a Result.
	Committed struct {
		Entries []*raftpb.Entry
		Held    bool
	}
	// Released tells what may be seen of what was Held: everything Through an index,
	// and the Results and keys of some entries Apart from it.
	Released struct {
		Through uint64
		Apart   []uint64
	}
	// KeysReady answers a ReadKeys: it may be served from a state that has applied
	// Index, as it was at UpTo or before, or as it is published. Local tells that no
	// message was needed. Exact reads are of keys that must be seen together: no state
	// behind UpTo will do, published or not. Those that must be ordered ByLog may be
	// served from no state yet: propose EncodeRead of the keys.
	KeysReady struct {
		ID          uint64
		Index, UpTo uint64
		Local       bool
		Exact       bool
		ByLog       bool
	}
	// Restore asks the owner to put the snapshot that arrived with this index
	// in place of the Applier's state, and to report Restored. It is in order
	// with Committed.
	Restore struct{ Index, Term uint64 }
	// ReadReady answers all Reads up to Number: they may be served from a state
	// that has applied Index.
	ReadReady struct{ Number, Index uint64 }
	// ReadLease lets this member's readers answer by themselves: one that loads it,
	// then reads the clock, and finds Until not reached, may answer from any state
	// that has applied Index. It must be visible to readers before anything of the
	// same turn leaves (R8). The zero ReadLease is none.
	ReadLease struct {
		Until machine.Mono
		Index uint64
	}
	// AnswerLease answers an AskLease. TTL and Remaining are in milliseconds;
	// both are zero for a lease that does not exist.
	AnswerLease struct {
		ID             uint64
		Lease          int64
		TTL, Remaining int64
	}
	// Dropped tells that proposals were not or may not have been replicated.
	Dropped struct {
		IDs       []uint64
		Ambiguous bool // they may have been, or may yet be
	}
	// Rejected tells that a change of the membership makes no sense, or would leave a
	// cluster that does not work. Err is etcd's for it.
	Rejected struct {
		ID  uint64
		Err error
	}
	// Removed tells that this member is one no more, and never will be again.
	Removed struct{}
	// LeaderChanged reports what this member believes about leadership.
	LeaderChanged struct {
		Leader machine.NodeID // 0: none known
		Term   uint64
	}
	// SendSnapshot asks the owner to stream its newest durable snapshot to a
	// member together with Message, and to report SnapshotSent.
	SendSnapshot struct {
		To      machine.NodeID
		Message *raftpb.Message
	}
	// WantSnapshot asks for a snapshot of the applied state: the tail of the
	// log in memory has grown past its bound.
	WantSnapshot struct{}
)

// Record is what a Replica makes durable: the raft messages' own types.
type Record struct {
	HardState *raftpb.HardState // nil when unchanged
	Entries   []*raftpb.Entry
	Snapshot  *raftpb.Snapshot // nil unless one arrived; metadata only
	// Released is up to where the log is known to be released, zero when unchanged.
	// It may be lost: a member that knows less waits until it is told again.
	Released uint64
}

// Bodies of envelopes between replicas, beside *raftpb.Message.
type (
	// forward carries a batch to the leader of Term, which appends it in that
	// term or not at all.
	forward struct {
		Term  uint64
		Seq   uint64
		Entry []byte
	}
	// refused tells the sender of a forward that it was not appended.
	refused struct {
		Boot uint64 // of the sender of the forward
		Term uint64
		Seq  uint64
	}
	// rejected tells the sender of a forward that its change of the membership was
	// refused for good.
	rejected struct {
		Boot, Term, Seq uint64
		Why             verdict
	}
	// readAsk asks the leader for an index that a round's reads may be served from.
	// With Keys, it is for those only.
	readAsk struct {
		Keys  keyspan.Set
		Boot  uint64 // of the asker
		Round uint64
	}
	// readAnswer answers a readAsk.
	readAnswer struct {
		Boot  uint64 // of the asker
		Round uint64
		Index uint64
	}
	// leaseAsks carries a member's questions about leases to the leader.
	leaseAsks struct {
		Boot uint64
		Asks []leaseAsk
	}
	leaseAsk struct {
		ID    uint64
		Lease int64
		Renew bool
	}
	// leaseAnswers carries answers back, of one or more leaseAsks or parts of them.
	leaseAnswers struct {
		Boot    uint64 // of the asker
		Answers []AnswerLease
	}
	// durable is stepped by the driver when a Record, or all before it if it is
	// empty, has become durable. It never leaves the machine.
	durable struct {
		Record Record
		// Since is when it was handed out, Term and Index up to where the log is
		// then durable that the leader of a term has vouched for.
		Since       machine.Mono
		Term, Index uint64
	}

	// reported is an acknowledgment of raft's, and to whom its sender was bound.
	reported struct {
		*raftpb.Message
		Report quorumlease.Report
	}
	// announced is a message of raft's leader, and what is released.
	announced struct {
		*raftpb.Message
		News quorumlease.News
	}
)

// leaseChange tells what an entry did to a lease.
type leaseChange struct {
	ID         int64
	Kind       leaseChangeKind
	TTL        int64 // seconds, when granted
	Checkpoint int64 // milliseconds remaining, 0 for none; when granted or checkpointed
}

// leaseChangeKind is one of the constants below.
type leaseChangeKind uint8

const (
	leaseGranted leaseChangeKind = iota
	leaseGone
	leaseCheckpointed
)

// batchFate tells what became of one of this member's batches.
type batchFate struct {
	Seq     uint64
	Refused bool // it reached the log under another term than it was meant for
}

// Result is the outcome of a proposed request at the member that proposed it.
type Result struct {
	ID       uint64
	Index    uint64        // of its entry
	Response proto.Message // nil on error
	Err      error
}
