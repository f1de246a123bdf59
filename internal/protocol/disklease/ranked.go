package disklease

import (
	"bytes"
	"cmp"
	"math"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A ranked register (section 9; Chockler and Malkhi, "Active Disk Paxos with
// infinitely many processes", 2002) is what keeps consensus safe when several
// believe that they lead. It is read and written under ranks, and promises:
//
//   - Safety (Property 4). A read returns what some write was invoked with, and its
//     rank, or nothing. Once a write with rank r has committed, each read with a
//     greater rank returns r or a greater rank.
//   - Non-triviality (Property 5). A write that aborts has a reason: before it
//     returned, an operation with a greater rank was invoked.
//   - Liveness (Property 6). Every operation ends.
//
// Its operations are RRRead and RRWrite. One store can serve them if it is able to
// change its state as a Ranked does. So can n > 2t of those (RankedOverBases), or
// a register that can merely be read and written (RankedOverNotes).

// Rank orders attempts: by Counter, ties by ID. Each process makes ranks of its own, with
// its ID and a Counter that grows, and uses none for two values. The zero Rank comes before
// them all: a read under it promises nothing and is a mere look.
type Rank struct {
	Counter uint64
	ID      machine.ID
}

// last is the rank above all others. Only a committed value may be written under it, so it
// needs no ID: all its users write the same value. A value under Last is the decision.
var last = Rank{Counter: math.MaxUint64}

// Compare orders ranks.
func (r Rank) Compare(o Rank) int {
	return cmp.Or(cmp.Compare(r.Counter, o.Counter), r.ID.Compare(o.ID))
}

func maxRank(a, b Rank) Rank {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// RRRead is the Op that reads a ranked register. The reply is an RRSeen.
type RRRead struct{ Rank Rank }

// RRWrite is the Op that writes a ranked register, under a Rank that is not zero. The
// reply is an RRVerdict. To repeat one that failed, or of which nothing was heard, is harmless.
type RRWrite struct {
	Rank  Rank
	Value []byte
}

// RRSeen is the value that a read found, and under which rank it was written: the
// zero Rank if nothing was.
type RRSeen struct {
	Rank  Rank
	Value []byte
}

// RRVerdict ends a write.
type RRVerdict struct {
	Commit bool
	Above  Rank // if it aborted: the greatest rank that was met
}

// Ranked is the state of a ranked register in one store that can read and change it
// in one indivisible step: an active disk, a script of a server, a row. It must be
// durable before the reply leaves.
type Ranked struct {
	Read    Rank // greatest rank that read
	Written Rank // greatest rank that wrote, and
	Value   []byte
}

// Do performs an RRRead or RRWrite and returns its reply.
//
// A write commits if no greater rank was here. It need not be greater than Written: a
// write that is repeated, because its reply was lost, would meet itself and abort
// though there is no greater rank, against Property 5.
func (s *Ranked) Do(op any) any {
	switch op := op.(type) {
	case RRRead:
		s.Read = maxRank(s.Read, op.Rank)
		return RRSeen{s.Written, s.Value}
	case RRWrite:
		again := op.Rank == s.Written && bytes.Equal(op.Value, s.Value)
		if op.Rank.Compare(s.Read) < 0 || op.Rank.Compare(s.Written) <= 0 && !again {
			return RRVerdict{Above: maxRank(s.Read, s.Written)}
		}
		s.Written, s.Value = op.Rank, op.Value
		return RRVerdict{Commit: true}
	}
	panic("disklease: a ranked register is asked for something else than RRRead and RRWrite")
}
