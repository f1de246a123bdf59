package fastct

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// phase is where a member is within a round of an instance.
type phase int

const (
	idle       phase = iota // nothing was proposed here in this life
	leasing                 // FAST coordinator, asks for the lease (line 16)
	collecting              // NORMAL coordinator, waits for estimates (line 26)
	waiting                 // waits for the coordinator's estimate (line 32)
	acked                   // has acknowledged; the decision, or the round's end, will be told
	counting                // coordinator, waits for acknowledgments (line 39)
	settled                 // decided
)

// instance is a member's part in one consensus, and the variables of Figure 4.
type instance struct {
	cn    uint64
	phase phase

	value []byte // v_p
	est   []byte // estimate_p
	ts    int64  // ts_p; -1 before anything was adopted, for FAST rounds begin at 0 (F8)
	round int64  // r_p; -1 before the first
	fast  bool   // fast_p
	ready bool   // phases 1 and 2 of FAST mode are complete, see line 44

	estimates map[machine.NodeID]Estimate // of this round, by sender
	replies   map[machine.NodeID]bool     // to this round's NewEstimate; true: an Ack
	buffer    []machine.Envelope          // what came before it was ready
	due       int64                       // the round that was decided in, as long as the value is not here; -1
	dueFrom   machine.NodeID
	wanted    bool          // Wanted was said
	retry     machine.Mono  // when to repeat what is waited on
	pause     time.Duration // from then to the next time
}

func newInstance(cn uint64) *instance { return &instance{cn: cn, ts: -1, round: -1, due: -1} }

// cnRound returns what a message is about; ok is false if it is not about an instance.
func cnRound(body any) (cn uint64, round int64, ok bool) {
	switch b := body.(type) {
	case Estimate:
		return b.CN, b.Round, true
	case NewEstimate:
		return b.CN, b.Round, true
	case Ack:
		return b.CN, b.Round, true
	case Nack:
		return b.CN, b.Round, true
	case Abort:
		return b.CN, b.Round, true
	case Call:
		return b.CN, b.Round, true
	case Decide:
		return b.CN, b.Round, true
	}
	return 0, 0, false
}
