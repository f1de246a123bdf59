package diskleasesim

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// parliament judges an instance: proposals and decisions, and the operations on its ranked
// register.
type parliament struct {
	w     *sim.World
	fault error

	proposals map[string]bool
	decision  string
	by        string // the first that decided

	greatest  disklease.Rank            // of all that was invoked
	written   map[disklease.Rank]string // the operations that were invoked under a rank
	committed []disklease.Rank
	reads     []read
}

// read is a read that has returned.
type read struct{ rank, saw disklease.Rank }

func newParliament(w *sim.World) parliament {
	return parliament{w: w, proposals: map[string]bool{}, written: map[disklease.Rank]string{}}
}

func (p *parliament) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	p.w.Note("VIOLATION %v", err)
	if p.fault == nil {
		p.fault = err
		p.w.Mark(sim.Violation, "", "%v", err)
	}
}

func (p *parliament) onDecision(who, value string) {
	switch {
	case !p.proposals[value]:
		p.fail("validity: %s decided %q, which nobody proposed", who, value)
	case p.by == "":
		p.by, p.decision = who, value
	case p.decision != value:
		p.fail("agreement: %s decided %q, %s %q", p.by, p.decision, who, value)
	}
}

func (p *parliament) onInvoke(op any) {
	switch op := op.(type) {
	case disklease.RRRead:
		p.greatest = maxRank(p.greatest, op.Rank)
	case disklease.RRWrite:
		p.greatest = maxRank(p.greatest, op.Rank)
		if was, ok := p.written[op.Rank]; ok && was != string(op.Value) {
			p.fail("agreement: %q and %q are written under rank %v", was, op.Value, op.Rank)
		}
		p.written[op.Rank] = string(op.Value)
	}
}

// onReturn judges Properties 4 and 5.
func (p *parliament) onReturn(op, reply any) {
	switch reply := reply.(type) {
	case disklease.RRSeen:
		rank := op.(disklease.RRRead).Rank
		if value, ok := p.written[reply.Rank]; reply.Rank != (disklease.Rank{}) && (!ok || value != string(reply.Value)) {
			p.fail("Property 4: a read returned %q under rank %v, which nobody wrote", reply.Value, reply.Rank)
		}
		p.reads = append(p.reads, read{rank, reply.Rank})
		for _, w := range p.committed {
			p.onRead(read{rank, reply.Rank}, w)
		}
	case disklease.RRVerdict:
		rank := op.(disklease.RRWrite).Rank
		if !reply.Commit {
			if p.greatest.Compare(rank) <= 0 {
				p.fail("Property 5: a write of rank %v aborted, and no greater rank was invoked", rank)
			}
			p.w.Count("aborts", 1)
			return
		}
		p.committed = append(p.committed, rank)
		for _, r := range p.reads {
			p.onRead(r, rank)
		}
	}
}

func (p *parliament) onRead(r read, committed disklease.Rank) {
	if r.rank.Compare(committed) > 0 && r.saw.Compare(committed) < 0 {
		p.fail("Property 4: a write of rank %v committed, and a read of rank %v saw %v", committed, r.rank, r.saw)
	}
}

func maxRank(a, b disklease.Rank) disklease.Rank {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// watched tells the judge a machine's operations on its ranked register.
type watched struct {
	disklease.Proposer
	p  *parliament
	op any // the last
}

func (m *watched) Accessed(now machine.Now, in machine.Accessed) {
	if in.Err == nil {
		m.p.onReturn(m.op, in.Reply)
	}
	m.Proposer.Accessed(now, in)
}

func (m *watched) Ready() machine.Ready[disklease.Outcome] {
	rd := m.Proposer.Ready()
	for _, a := range rd.Accesses {
		m.op = a.Op
		m.p.onInvoke(a.Op)
	}
	return rd
}
