package replica

import (
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/machine"
	"go.etcd.io/raft/v3/raftpb"
)

// Inputs: what the owner of a Replica steps into it, beside machine.Envelope
// and machine.Wake.
type (
	// Propose asks for a request to be replicated. Its fate comes back as a
	// [Result] of the [Applier] or as [Dropped], under the same ID; a Result may
	// still follow a Dropped that was ambiguous. Bodies of up to MaxEntryBytes
	// share an entry.
	Propose struct {
		ID   uint64 // chosen by the owner, never reused within a boot
		Body []byte // from EncodeRequest
	}
	// Read asks for the index that a linearizable read has to wait for. Reads
	// are numbered upwards; a ReadReady for number n answers all up to n.
	Read struct{ Number uint64 }
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
		Leases      []LeaseChange
		Batches     []BatchFate
	}
	// Restored tells that the Applier now holds the state of a snapshot.
	Restored struct {
		Index, Term uint64
		Leases      []LeaseChange
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
	// HandOver asks a leader to pass leadership to its most advanced follower.
	HandOver struct{}
)

// Outcomes: what a Replica reports to its owner.
type (
	// Committed entries are to be given to the Applier, in order, and then
	// reported with Applied.
	Committed struct{ Entries []*raftpb.Entry }
	// Restore asks the owner to put the snapshot that arrived with this index
	// in place of the Applier's state, and to report Restored. It is in order
	// with Committed.
	Restore struct{ Index, Term uint64 }
	// ReadReady answers all Reads up to Number: they may be served from a state
	// that has applied Index.
	ReadReady struct{ Number, Index uint64 }
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
}

// Bodies of envelopes between replicas, beside *raftpb.Message.
type (
	// forward carries a batch to the leader of Term, who appends it in that
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
	// durable is stepped by the driver when a Record has become durable. It
	// never leaves the machine.
	durable struct{ Record Record }
)

// LeaseChange tells what an entry did to a lease.
type LeaseChange struct {
	ID         int64
	Kind       LeaseChangeKind
	TTL        int64 // seconds, when granted
	Checkpoint int64 // milliseconds remaining, 0 for none; when granted or checkpointed
}

// LeaseChangeKind is one of the constants below.
type LeaseChangeKind uint8

const (
	LeaseGranted LeaseChangeKind = iota
	LeaseGone
	LeaseCheckpointed
)

// BatchFate tells what became of one of this member's batches.
type BatchFate struct {
	Seq     uint64
	Refused bool // it reached the log under another term than it was meant for
}

// Result is the outcome of a proposed request at the member that proposed it.
type Result struct {
	ID       uint64
	Response proto.Message // nil on error
	Err      error
}
