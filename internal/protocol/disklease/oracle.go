package disklease

import (
	"encoding/binary"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Oracle tells this process whether it leads (Figure 7): it contends for a lease, leads
// while it holds it, and contends again when it is lost. Once the system is stable there
// comes a time from which one oracle says yes for ever, and all others no (Property 3).
// Before that, a fail-aware lease lets at most one lead at a time. A lease without the
// checks, or with clocks that drift more than configured, may let several lead. Consensus
// tolerates both.
//
// It is a machine over those of its claims, one after the other, and has their accesses.
//
//	o := disklease.NewOracle(id, func(id machine.ID) disklease.Claim {
//		config.ID = id
//		lease, _ := disklease.New(config) // a config that New has accepted before
//		return lease                      // or quorumregister.Over(lease, …)
//	}, now)
//
// Leave ends it: Follows at once, if it led, then Left. Acquire has it contend again.
type Oracle struct {
	id       machine.ID
	claims   uint32
	newClaim func(machine.ID) Claim

	claim    Claim  // nil while it does not contend
	before   uint64 // accesses up to this ID were of earlier claims
	last     uint64 // access
	left     bool
	leads    bool
	token    uint64
	deadline machine.Mono
	out      machine.Ready[Outcome]
}

// Claim is a Lease, or a machine around one.
type Claim = machine.Storing[LeaseInput, Outcome]

// Outcomes of an Oracle, beside Trouble and Left. They are inputs of a Consensus.
type (
	// Leads: this process leads until Deadline. Token grows from leader to leader. It
	// comes again, with the same Token, whenever the deadline has moved.
	Leads struct {
		Token    uint64
		Deadline machine.Mono
	}
	// Follows: it leads no more.
	Follows struct{ Why string }
)

// NewOracle contends from now on. The id is random and new in each life of the process;
// its last four bytes count the claims that are made by newClaim, for each claim needs
// an ID of its own.
func NewOracle(id machine.ID, newClaim func(machine.ID) Claim, now machine.Now) *Oracle {
	o := &Oracle{id: id, newClaim: newClaim}
	o.contend(now)
	o.take(now)
	return o
}

// IsLeader reports whether this process leads. It compares the deadline, too: one that was
// paused and asks before its alarm has rung must not be told what was true before.
func (o *Oracle) IsLeader(now machine.Mono) bool { return o.leads && now < o.deadline }

// Writer is the claim whose accesses Ready returned last: registers are written in its
// name.
func (o *Oracle) Writer() machine.ID { return o.id }

// Step implements machine.Machine. Inputs are Acquire and Leave; others go to the claim.
func (o *Oracle) Step(now machine.Now, input LeaseInput) {
	switch in := input.(type) {
	case Acquire:
		o.left = false
		if o.claim == nil {
			o.contend(now)
		}
	case Leave:
		o.left = true
		o.follow("it was told to leave")
		o.step(now, in)
	default:
		o.step(now, in)
	}
	o.take(now)
}

// Accessed implements machine.Storing.
func (o *Oracle) Accessed(now machine.Now, in machine.Accessed) {
	if in.ID > o.before && o.claim != nil {
		in.ID -= o.before
		o.claim.Accessed(now, in)
	}
	o.take(now)
}

// Wake implements machine.Machine.
func (o *Oracle) Wake(now machine.Now) {
	if o.claim != nil {
		o.claim.Wake(now)
	}
	o.take(now)
}

func (o *Oracle) contend(now machine.Now) {
	o.claims++
	binary.BigEndian.PutUint32(o.id[len(o.id)-4:], o.claims)
	o.before = o.last
	o.claim = o.newClaim(o.id)
	o.claim.Step(now, Acquire{})
}

func (o *Oracle) step(now machine.Now, input LeaseInput) {
	if o.claim != nil {
		o.claim.Step(now, input)
	}
}

// take takes what the claim has to say, and that of the next one when it is over.
func (o *Oracle) take(now machine.Now) {
	o.out.Alarm = machine.Never
	for more := true; more && o.claim != nil; {
		rd := o.claim.Ready()
		for _, a := range rd.Accesses {
			a.ID += o.before
			o.last = max(o.last, a.ID)
			o.out.Accesses = append(o.out.Accesses, a)
		}
		o.out.Alarm = rd.Alarm
		more = false
		for _, outcome := range rd.Outcomes {
			more = o.heard(now, outcome) || more
		}
	}
}

// heard takes what the claim reports, and reports whether that made it go on.
func (o *Oracle) heard(now machine.Now, outcome Outcome) bool {
	switch outcome := outcome.(type) {
	case Acquired:
		o.leads = true
		o.token, o.deadline = outcome.Token, outcome.Deadline
		o.out.Outcomes = append(o.out.Outcomes, Leads{o.token, o.deadline})
	case Renewed:
		if o.leads {
			o.deadline = outcome.Deadline
			o.out.Outcomes = append(o.out.Outcomes, Leads{o.token, o.deadline})
		}
	case Lost:
		o.follow(outcome.Why)
		o.claim.Step(now, Leave{})
		return true
	case Left:
		o.claim = nil
		if o.left {
			o.out.Alarm = machine.Never
			o.out.Outcomes = append(o.out.Outcomes, outcome)
			return false
		}
		o.contend(now)
		return true
	default:
		o.out.Outcomes = append(o.out.Outcomes, outcome)
	}
	return false
}

func (o *Oracle) follow(why string) {
	if o.leads {
		o.leads = false
		o.out.Outcomes = append(o.out.Outcomes, Follows{why})
	}
}

// Ready implements machine.Machine.
func (o *Oracle) Ready() machine.Ready[Outcome] {
	rd := o.out
	o.out = machine.Ready[Outcome]{Alarm: rd.Alarm}
	return rd
}
