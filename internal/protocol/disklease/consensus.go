package disklease

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Consensus lets any number of processes agree on one value, for ever (Figure 8 of the
// paper). It is a machine over a ranked register, which it uses by RRRead and RRWrite at
// At 0: see RankedOverNotes and RankedOverBases. One instance is one register of that
// kind, by whatever name it has, and nothing else: many may share an Oracle.
//
//	c := disklease.NewConsensus(id, 100*time.Millisecond)
//	m := disklease.RankedOverNotes(c, id, 0)        // At 0: a register of its own
//	m.Step(now, disklease.Propose{Value: mine})
//	m.Step(now, leads)                           // what an Oracle reports, as it does
//	… Decided{Value} comes out
//
// These hold at all times, however slow, paused or crashed processes are, and however many
// believe that they lead:
//
//   - Validity: the decided value was proposed.
//   - Agreement: no two processes decide different values.
//   - Integrity: a machine decides once.
//
// Termination needs one that leads, alone and for long enough: then all live proposers
// decide. This is what the lease is for, and all that it is for.
//
// # How
//
// The leader reads the ranked register under a new rank, then writes the value that it
// found, or its own value if it found none, under that rank. If that commits, the value is
// the decision. If it aborts, somebody else tried under a greater rank; the next attempt
// takes one that is greater still.
//
// Agreement: of the writes that commit, let (r, v) be that of the least rank, and consider
// the writes that are invoked with ranks above r in the order of time. Each follows a
// read with the same rank, which by Property 4 saw r or more: v, or what an earlier one
// of those writes wrote, which is v too.
//
// # Followers
//
// Figure 8 leaves processes that never lead without an answer. Here the decision is written
// again under rank Last once it has committed. A process that does not lead looks for it
// about once every poll, by a read under the zero Rank, which disturbs no other operation.
// The decision is reported only after that write, so that a process may stop for good after
// Decided. One that crashes between commit and Last leaves it to the next leader, whose
// attempt can only end in the same value.
//
// # In a register
//
// Over notes all this is one logical register: the blocks are its notes, its data is
// the decision. Anybody may read it there: Decision.
type Consensus struct {
	id   machine.ID
	poll time.Duration

	proposal *Propose
	until    machine.Mono // we lead until then
	rank     Rank         // of our latest attempt
	seen     Rank         // greatest that stood in our way

	doing  doing
	op     any    // that the doing consists of
	access uint64 // the latest
	open   bool   // and it has not ended
	alarm  machine.Mono
	out    machine.Ready[Outcome]
}

// doing is where in Figure 8 a machine is.
type doing int

const (
	pausing    doing = iota // until the alarm, or until we lead
	learning                // whether there is a decision
	ranking                 // reading under our rank
	proposing               // writing under our rank
	publishing              // writing the decision under Last
	decided
)

// MaxProposal is the longest value that every register takes, in bytes. A longer one comes
// to nothing but Trouble.
const MaxProposal = 512

// Inputs, beside Leads and Follows.
type (
	// Propose begins, with the value to decide unless another one has been; Decided
	// follows. A machine has one proposal: another is ignored, unless the decision is
	// known already, which is then reported again. A Value is at most MaxProposal bytes.
	Propose struct{ Value []byte }
)

// Outcomes, beside Trouble.
type (
	// Decided: this is the value, for everybody and for ever, and it can be read.
	Decided struct{ Value []byte }
)

// Proposer is a Consensus, or a machine around one.
type Proposer = machine.Storing[ConsensusInput, Outcome]

// NewConsensus returns one process's part in an instance. The id is random and new in
// each life of the process. After about every poll it looks for a decision while it
// does not lead, and tries again what failed.
func NewConsensus(id machine.ID, poll time.Duration) *Consensus {
	return &Consensus{id: id, poll: poll, alarm: machine.Never}
}

// Step implements machine.Machine.
func (c *Consensus) Step(now machine.Now, input ConsensusInput) {
	switch in := input.(type) {
	case Propose:
		switch {
		case c.doing == decided:
			c.report()
		case c.proposal == nil:
			c.proposal = &in
			c.turn(now.Mono)
		}
	case Leads:
		led := now.Mono < c.until
		c.until = in.Deadline
		if !led && c.doing == pausing && c.proposal != nil {
			c.turn(now.Mono)
		}
	case Follows:
		c.until = 0
	}
}

// Wake implements machine.Machine.
func (c *Consensus) Wake(now machine.Now) {
	if now.Mono >= c.alarm {
		c.wake(now.Mono)
	}
}

// Accessed implements machine.Storing.
func (c *Consensus) Accessed(now machine.Now, in machine.Accessed) {
	if c.open && in.ID == c.access {
		c.open = false
		c.accessed(now.Mono, in)
	}
}

// wake goes on after a pause: with what failed, or with the next turn.
func (c *Consensus) wake(now machine.Mono) {
	if c.doing == pausing {
		c.turn(now)
	} else {
		c.begin(c.doing, c.op)
	}
}

// turn is once around the loop of Figure 8.
func (c *Consensus) turn(now machine.Mono) {
	if now >= c.until {
		c.begin(learning, RRRead{})
		return
	}
	c.rank = Rank{max(c.rank.Counter, c.seen.Counter) + 1, c.id}
	c.begin(ranking, RRRead{c.rank})
}

func (c *Consensus) begin(d doing, op any) {
	c.access++
	c.doing, c.op, c.open, c.alarm = d, op, true, machine.Never
	c.out.Accesses = append(c.out.Accesses, machine.Access{ID: c.access, Op: op})
}

func (c *Consensus) rest(until machine.Mono) { c.doing, c.op, c.alarm = pausing, nil, until }

func (c *Consensus) accessed(now machine.Mono, in machine.Accessed) {
	if in.Err != nil {
		// It may have happened, or may yet: the same again does no harm.
		c.alarm = now.Add(c.poll)
		c.out.Outcomes = append(c.out.Outcomes, Trouble{in.Err})
		return
	}
	switch reply := in.Reply.(type) {
	case RRSeen:
		c.read(now, reply)
	case RRVerdict:
		c.wrote(now, reply)
	}
}

// read takes what a look or the read of an attempt has found.
func (c *Consensus) read(now machine.Mono, found RRSeen) {
	switch {
	case found.Rank == last:
		c.decide(found.Value)
	case c.doing == learning && now < c.until:
		c.turn(now)
	case c.doing == learning:
		c.rest(now.Add(c.poll))
	case found.Rank == (Rank{}):
		c.begin(proposing, RRWrite{c.rank, c.proposal.Value})
	default:
		c.begin(proposing, RRWrite{c.rank, found.Value})
	}
}

// wrote takes the verdict on an attempt, or on the decision.
func (c *Consensus) wrote(now machine.Mono, verdict RRVerdict) {
	value := c.op.(RRWrite).Value
	switch {
	case verdict.Commit && c.doing == publishing:
		c.decide(value)
	case verdict.Commit:
		c.begin(publishing, RRWrite{last, value})
	case verdict.Above == last:
		c.begin(learning, RRRead{})
	default:
		// Two that both believe they lead could abort each other in step for ever: the
		// pause differs between them.
		c.seen = verdict.Above
		c.rest(now.Add(c.poll * time.Duration(1+int(c.id[0])) / 256))
	}
}

func (c *Consensus) decide(value []byte) {
	c.doing, c.op, c.alarm = decided, RRWrite{last, value}, machine.Never
	c.report()
}

func (c *Consensus) report() {
	c.out.Outcomes = append(c.out.Outcomes, Decided{c.op.(RRWrite).Value})
}

// Ready implements machine.Machine.
func (c *Consensus) Ready() machine.Ready[Outcome] {
	rd := c.out
	rd.Alarm = c.alarm
	c.out = machine.Ready[Outcome]{}
	return rd
}
