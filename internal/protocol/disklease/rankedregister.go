package disklease

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// RankedOverBases serves the RRReads and RRWrites of a machine by n ranked registers
// (see Ranked) of which any minority may hang or fail. Its Access.At is the base.
// A machine has one operation at a time; a base that failed is asked again after pause.
//
// An operation goes to all and ends with the replies of a majority: a read with what
// has the greatest rank among them; a write has committed if all of them say so.
// Why that keeps the properties:
//
//   - Property 4: a committed write of rank r1 and a read of rank r2 > r1 have a base
//     in common. There the write came first, for it would have been refused after the
//     read. So that base shows r1 or a greater rank, as ranks written never go back.
//   - Property 5: a base refuses only for a greater rank that was invoked before.
//   - Property 6: nobody waits for more than a majority.
func RankedOverBases(inner Proposer, n int, pause time.Duration) Proposer {
	return &rankedBases{inner: inner, pause: pause, bases: make([]rankedBase, n)}
}

type rankedBases struct {
	inner Proposer
	pause time.Duration
	bases []rankedBase
	now   machine.Now
	last  uint64 // the latest access

	op      any // that is being served; nil if none
	id      uint64
	replies int
	seen    RRSeen
	verdict RRVerdict
}

// rankedBase is what is on its way to a base: at most one access, also when it hangs
// while operations come and go.
type rankedBase struct {
	access uint64 // that has not ended; 0 if none
	ours   bool   // it belongs to the operation that is being served
	ended  bool   // the base has answered that operation
	failed bool   // not to be asked before
	again  machine.Mono
}

func (r *rankedBases) Step(now machine.Now, in ConsensusInput) {
	r.now = now
	r.inner.Step(now, in)
}

func (r *rankedBases) Wake(now machine.Now) {
	r.now = now
	r.inner.Wake(now)
}

func (r *rankedBases) Accessed(now machine.Now, in machine.Accessed) {
	r.now = now
	for i := range r.bases {
		b := &r.bases[i]
		if b.access == 0 || b.access != in.ID {
			continue
		}
		b.access = 0
		if in.Err != nil {
			b.failed, b.again = true, now.Mono.Add(r.pause)
		} else if b.ours {
			b.ended = true
			r.replied(in.Reply)
		}
	}
}

// replied counts a base's reply, and answers with the majority's.
func (r *rankedBases) replied(reply any) {
	r.replies++
	var answer any
	switch reply := reply.(type) {
	case RRSeen:
		if reply.Rank.Compare(r.seen.Rank) > 0 {
			r.seen = reply
		}
		answer = r.seen
	case RRVerdict:
		r.verdict.Commit = r.verdict.Commit && reply.Commit
		r.verdict.Above = maxRank(r.verdict.Above, reply.Above)
		answer = r.verdict
	}
	if r.replies > len(r.bases)/2 {
		r.op = nil
		for i := range r.bases {
			r.bases[i].ours = false
		}
		r.inner.Accessed(r.now, machine.Accessed{ID: r.id, Reply: answer})
	}
}

func (r *rankedBases) Ready() machine.Ready[Outcome] {
	rd := r.inner.Ready()
	for _, a := range rd.Accesses {
		r.op, r.id = a.Op, a.ID
		r.replies, r.seen, r.verdict = 0, RRSeen{}, RRVerdict{Commit: true}
		for i := range r.bases {
			r.bases[i].ours, r.bases[i].ended = false, false
		}
	}
	rd.Accesses = nil
	if r.op == nil {
		return rd
	}
	for i := range r.bases {
		b := &r.bases[i]
		switch {
		case b.ended || b.access != 0:
		case b.failed && r.now.Mono < b.again:
			rd.Alarm = min(rd.Alarm, b.again)
		default:
			r.last++
			b.access, b.ours, b.failed = r.last, true, false
			rd.Accesses = append(rd.Accesses, machine.Access{ID: b.access, At: i, Op: r.op})
		}
	}
	return rd
}
