package disklease

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// ErrBlock is a register, meant for consensus, that shows something which package
// disklease did not write there, or no longer shows what it did. Nothing is taken for
// committed and nothing is given up: the operation fails.
var ErrBlock = errors.New("the register does not hold what a ranked register left in it")

var errLate = errors.New("the stores took so long that one may have been restored since")

// RankedOverNotes serves the RRReads and RRWrites of a machine by a register that can only
// be read and written, and that nothing else may use. It is Disk Paxos (Gafni and Lamport,
// 2003) in two logical registers. The register's notes are its blocks, and the register's
// data is the value written under rank Last. Its accesses are Notes, Reads and Writes at At
// 0; package quorumregister makes such a register of n > 2t disks. id names the invoker,
// and no machine before or beside it may have had the same.
//
// Each writer keeps one block: the greatest rank that it invoked anything with (mbal),
// the greatest that it wrote (bal), and the value. To read under a rank is to raise
// mbal, then to read all blocks and take the value with the greatest bal. To write is to
// put mbal, bal and value into the own block, then to read all blocks: the write has
// committed if no mbal is greater.
//
// # Why it is a ranked register
//
// All that is needed of notes is this: a read shows, for every writer, the note whose
// writing was complete before the read began, or a later one of the writer's.
// Quorumregister gives it: a note is written at n-t bases before it counts as complete,
// a read asks n-t, one base is in both, and there and in the merge a writer's greater
// Seq wins. Nothing is needed of how reads of different readers are ordered, so
// regular reads do. Within a writer's block mbal and bal only grow.
//
//   - Property 4. Write W of rank r1 commits, and read R has rank r2 > r1. If R's note
//     was complete before W's read began, W met an mbal of r2 or more and aborted. So R's
//     note was complete only after W's read had begun, hence after W's note was complete;
//     and R's read, later still, shows W's block: with a bal of r1, or one that is greater.
//   - Property 5. A write aborts for an mbal that is greater, or for rank Last: either was invoked before.
//   - Property 6. One note and one read, which end if the register is wait-free.
//
// It does not matter that Disk Paxos reads from a disk what it wrote to just before, and
// here the read may use another majority: the argument needs only the order of the two.
//
// The number of writers need not be known, for notes come by writer: the algorithm
// is uniform.
//
// # Notes that are forgotten
//
// A note is the only witness of a value that may have committed, also when its writer is
// long dead. So a store must not forget the notes of this register before it holds the
// decision as the register's data. Then it may, base by base: a reader of a base without
// the notes reads the decision there instead. A store that goes by age alone breaks
// agreement. So does a base that comes back from a backup: it has to be counted among the
// t that failed, for ever, as no waiting makes up for the values that it forgot. A
// machine does notice the loss of its own block, and reports ErrBlock.
//
// A base may also be filled anew with what a majority of all the bases has, all of them others. So it
// gets each block whose writing was complete, but not one that only this base and too few others had
// acknowledged by then. Such a writing must never become complete: one that takes longer than patience
// is done again, from the first base on, and a base is filled no sooner than patience after it
// stopped to serve the machines before. With 0, no base may be filled anew.
func RankedOverNotes(inner Proposer, id machine.ID, patience time.Duration) Proposer {
	return &rankedNotes{inner: inner, id: id, patience: patience}
}

type rankedNotes struct {
	inner    Proposer
	id       machine.ID
	patience time.Duration
	now      machine.Now

	block block  // our own, as it is to be
	saved bool   // our note is known to hold it
	seq   uint64 // under which to write the register's data, as the latest read told

	op     any    // that is being served; nil if none
	opID   uint64 // the inner machine's
	next   any    // the access to begin
	access uint64 // the latest
	begun  machine.Mono
}

// block is one writer's.
type block struct {
	mbal, bal Rank
	value     []byte
}

func (r *rankedNotes) Step(now machine.Now, in ConsensusInput) {
	r.now = now
	r.inner.Step(now, in)
}

func (r *rankedNotes) Wake(now machine.Now) {
	r.now = now
	r.inner.Wake(now)
}

func (r *rankedNotes) Accessed(now machine.Now, in machine.Accessed) {
	r.now = now
	if r.op == nil || in.ID != r.access {
		return
	}
	value, read := in.Reply.(machine.Value)
	switch {
	case in.Err != nil:
		r.answer(nil, in.Err)
	case !read && r.patience > 0 && now.Mono.Sub(r.begun) > r.patience:
		r.answer(nil, errLate)
	case read:
		r.answer(r.judge(value))
	case r.final():
		r.answer(RRVerdict{Commit: true}, nil)
	default:
		r.saved, r.next = true, machine.Read{}
	}
}

func (r *rankedNotes) answer(reply any, err error) {
	r.op = nil
	r.inner.Accessed(r.now, machine.Accessed{ID: r.opID, Reply: reply, Err: err})
}

func (r *rankedNotes) Ready() machine.Ready[Outcome] {
	rd := r.inner.Ready()
	for _, a := range rd.Accesses {
		r.op, r.opID = a.Op, a.ID
		r.begin()
	}
	rd.Accesses = nil
	if r.next != nil {
		r.access++
		r.begun = r.now.Mono
		rd.Accesses = []machine.Access{{ID: r.access, Op: r.next}}
		r.next = nil
	}
	return rd
}

// begin brings the own block to where the operation wants it, which is never back, and
// chooses the first access. A block that is not known to be saved is written again: a note
// that failed may not be there, and the operation relies on its block being read.
func (r *rankedNotes) begin() {
	was := r.block
	switch op := r.op.(type) {
	case RRRead:
		if op.Rank == (Rank{}) {
			r.next = machine.Read{}
			return
		}
		r.block.mbal = maxRank(r.block.mbal, op.Rank)
	case RRWrite:
		if r.final() {
			// Data is written with the decision only, so a write that loses to another
			// loses to the same value. One that failed must not be written under the same
			// Seq again.
			r.next, r.seq = machine.Write{Data: encodeDecision(op.Value), Seq: r.seq}, 0
			return
		}
		if op.Rank.Compare(r.block.mbal) >= 0 && op.Rank != r.block.bal {
			r.block = block{op.Rank, op.Rank, op.Value}
		}
	}
	if r.block.mbal != was.mbal || r.block.bal != was.bal {
		r.saved = false
	}
	if r.saved {
		r.next = machine.Read{}
	} else {
		r.next = machine.Note{Data: r.block.encode()}
	}
}

// final reports whether the operation writes under rank Last.
func (r *rankedNotes) final() bool {
	w, ok := r.op.(RRWrite)
	return ok && w.Rank == last
}

// judge answers the operation from what a read showed.
func (r *rankedNotes) judge(v machine.Value) (reply any, err error) {
	r.seq = v.Next
	top, above := block{}, r.block.mbal
	shown := false
	for _, n := range v.Notes {
		b, err := decodeBlock(n.Data)
		if err != nil {
			return nil, fmt.Errorf("the note of %v: %w", n.Writer, err)
		}
		if b.bal.Compare(top.bal) > 0 {
			top = b
		}
		above = maxRank(above, b.mbal)
		shown = shown || n.Writer == r.id && b.mbal == r.block.mbal && b.bal == r.block.bal
	}
	decision, decided, err := Decision(v)
	switch {
	case err != nil:
		return nil, err
	case decided:
		top, above = block{bal: last, value: decision}, last
	case r.saved && !shown:
		r.saved = false
		return nil, fmt.Errorf("%w: our own note is gone", ErrBlock)
	}
	op, ok := r.op.(RRWrite)
	switch {
	case !ok:
		return RRSeen{top.bal, top.value}, nil
	case above == op.Rank && bytes.Equal(op.Value, r.block.value):
		return RRVerdict{Commit: true}, nil
	}
	return RRVerdict{Above: above}, nil
}

// Decision returns what has been decided, if anything, in the instance of Consensus
// that a register keeps for RankedOverNotes, from what a read showed.
func Decision(v machine.Value) (value []byte, ok bool, err error) {
	switch {
	case v.Version == (machine.Version{}):
		return nil, false, nil
	case len(v.Data) == 0 || v.Data[0] != blockFormat:
		return nil, false, fmt.Errorf("%w: %.8x… is no decision", ErrBlock, v.Data)
	}
	return v.Data[1:], true, nil
}

// ObsoleteBlock reports whether a base that shows v may forget the block that a writer, now
// gone, left there for RankedOverNotes: the base holds the decision, and not as that
// writer's.
func ObsoleteBlock(v machine.Value, writer machine.ID) bool {
	_, ok, _ := Decision(v)
	return ok && v.Version.Writer != writer
}

// blockFormat is the first byte of blocks and decisions, unlike that of what a lease
// leaves in its register.
const blockFormat = 0xb1

func encodeDecision(value []byte) []byte { return append([]byte{blockFormat}, value...) }

// encode returns the block as bytes: blockFormat, then mbal and bal, each a counter of
// eight bytes, big-endian, and an ID, then the value.
func (b block) encode() []byte {
	data := []byte{blockFormat}
	for _, r := range []Rank{b.mbal, b.bal} {
		data = binary.BigEndian.AppendUint64(data, r.Counter)
		data = append(data, r.ID[:]...)
	}
	return append(data, b.value...)
}

// blockOverhead is the length of a block without its value.
const blockOverhead = 1 + 2*(8+len(machine.ID{}))

func decodeBlock(data []byte) (b block, err error) {
	if len(data) < blockOverhead || data[0] != blockFormat {
		return b, fmt.Errorf("%w: %.8x… is no block", ErrBlock, data)
	}
	rest := data[1:]
	for _, r := range []*Rank{&b.mbal, &b.bal} {
		r.Counter = binary.BigEndian.Uint64(rest)
		rest = rest[8+copy(r.ID[:], rest[8:]):]
	}
	b.value = rest
	if b.bal.Compare(b.mbal) > 0 || b.mbal.Compare(last) >= 0 {
		return b, fmt.Errorf("%w: a block with ranks out of order", ErrBlock)
	}
	return b, nil
}
