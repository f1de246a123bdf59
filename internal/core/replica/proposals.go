package replica

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// proposals brings this member's requests into the log, each exactly once.
//
// A batch is addressed to the leader of one term and can enter the log in that
// term only. So when an entry of a later term has been applied and the batch
// was not among those before it, the batch is dead, and it is addressed anew.
// A change of leader costs a client time but no error.
type proposals struct {
	seq   uint64
	come  []Propose  // since the last turn
	lanes []*lane    // with what is not yet in a batch, or with batches on their way
	sent  []*pending // batches whose fate is open, oldest first
	// appliedTerm is the term up to which dead batches were looked for.
	appliedTerm uint64
	// refusal stops addressing until the next tick or leader: a leader without
	// room must not be asked at wire speed.
	refusal bool
}

type pending struct {
	requests []Propose
	lane     *lane
	seq      uint64
	term     uint64 // that it is addressed to; 0: nobody yet
	since    machine.Mono
	sent     machine.Mono
	entry    []byte // as it was sent to another member; nil once it is not
	waits    bool   // until the next tick
}

func (p *proposals) add(in Propose) { p.come = append(p.come, in) }

// due returns when another batch may set out.
func (p *proposals) due(now machine.Mono) machine.Mono {
	due := machine.Never
	for _, l := range p.lanes {
		if len(l.open) > 0 && l.flying < maxFlying && !l.mayGo(now) {
			due = min(due, l.last.Add(spacing))
		}
	}
	return due
}

// turnProposals puts what has come into batches, and addresses those that are not yet addressed.
func (r *Replica) turnProposals() {
	p := &r.proposals
	r.fileArrived()
	p.depart(r.now, r.cfg.MaxEntryBytes)
	if r.leader == 0 || p.refusal {
		return
	}
	for _, b := range p.unaddressed() {
		if r.address(b) {
			continue
		}
		if solitary(b.requests) { // which waits for something, and holds up nothing
			b.waits = true
			continue
		}
		p.refusal = true
		return
	}
}

// unaddressed returns the batches that are to be addressed now.
func (p *proposals) unaddressed() (list []*pending) {
	for _, b := range p.sent {
		if b.term == 0 && !b.waits {
			list = append(list, b)
		}
	}
	return list
}

// depart makes batches of what waits in lanes.
func (p *proposals) depart(now machine.Mono, maxBytes int) {
	for _, l := range p.lanes {
		l.flying = 0
	}
	for _, b := range p.sent {
		b.lane.flying++
		b.lane.last = b.since
	}
	for _, l := range p.lanes {
		for len(l.open) > 0 && len(p.sent) < maxApart && l.mayGo(now) {
			p.sent = append(p.sent, &pending{requests: l.next(maxBytes), lane: l, since: now})
			l.flying, l.last, l.since = l.flying+1, now, now
		}
	}
	p.lanes = slices.DeleteFunc(p.lanes, func(l *lane) bool { return l.flying == 0 && len(l.open) == 0 })
}

// encode makes an entry of a batch, addressed to the leader that is known.
func (p *proposals) encode(at moment, b *pending) []byte {
	p.seq++
	return (&batch{Term: at.term, From: at.cfg.ID, Boot: at.cfg.Boot, Seq: p.seq, Requests: b.requests}).encode()
}

// addressed notes that a batch was addressed last; the entry is nil if this member leads.
func (p *proposals) addressed(at moment, b *pending, entry []byte) {
	b.term, b.seq, b.sent, b.entry = at.term, p.seq, at.now, entry
}

// address sends a batch to the leader, and returns false if that must be tried again.
func (r *Replica) address(b *pending) bool {
	p := &r.proposals
	entry := p.encode(r.moment, b)
	if r.reads.keepsToItself(r.moment, r.levels, entry) {
		keep(entry)
	}
	if r.leading() {
		switch v := r.admit(r.term, entry, b.requests); {
		case v == notNow:
			return false // busy, or about to learn of a new term
		case v >= refusals:
			p.reject(&r.effects, b, v)
			return true
		}
		entry = nil
	} else {
		r.send(r.leader, forward{Term: r.term, Seq: p.seq, Entry: entry})
	}
	p.addressed(r.moment, b, entry)
	return true
}

// settled learns from the Applier which batches are done or dead.
func (p *proposals) settled(in Applied) {
	for _, fate := range in.Batches {
		for i, b := range p.sent {
			if b.term == 0 || b.seq != fate.Seq {
				continue
			}
			if fate.Refused {
				b.term = 0
			} else {
				p.sent = append(p.sent[:i:i], p.sent[i+1:]...)
			}
			break
		}
	}
	if in.Term > p.appliedTerm {
		p.appliedTerm = in.Term
		for _, b := range p.sent {
			if b.term < in.Term {
				b.term = 0
			}
		}
	}
}

// refused takes back a batch that the leader did not append. It is tried again
// at the next tick, when the leader may be less busy.
func (p *proposals) refused(at moment, m refused) {
	if m.Boot != at.cfg.Boot {
		return
	}
	for _, b := range p.sent {
		if b.term == m.Term && b.seq == m.Seq {
			b.term = 0
			b.waits = solitary(b.requests)
			p.refusal = p.refusal || !b.waits
		}
	}
}

// rejected takes back a change of the membership that no leader may make.
func (p *proposals) rejected(at moment, eff *effects, m rejected) {
	if m.Boot != at.cfg.Boot {
		return
	}
	for _, b := range slices.Clone(p.sent) {
		if b.term == m.Term && b.seq == m.Seq {
			p.reject(eff, b, m.Why)
		}
	}
}

func (p *proposals) reject(eff *effects, b *pending, why verdict) {
	p.sent = slices.DeleteFunc(slices.Clone(p.sent), func(o *pending) bool { return o == b })
	eff.outcomes = append(eff.outcomes, Rejected{ID: b.requests[0].ID, Err: why.err()})
}

// restored gives up the batches whose fate a snapshot has hidden.
func (p *proposals) restored(eff *effects, term uint64) {
	p.appliedTerm = max(p.appliedTerm, term)
	p.abandon(eff, func(b *pending) bool { return b.term != 0 && b.term <= term })
}

// onTick repeats what may have been lost on the way, and gives up what nobody
// waits for.
func (p *proposals) onTick(at moment, eff *effects) {
	p.refusal = false
	for _, b := range p.sent {
		b.waits = false
		if b.entry != nil && b.term == at.term && at.leader != 0 && !at.leading() && at.now.Sub(b.sent) > at.cfg.electionTimeout() {
			b.sent = at.now
			eff.send(at.leader, forward{Term: b.term, Seq: b.seq, Entry: b.entry})
		}
	}
	p.abandon(eff, func(b *pending) bool {
		return at.now.Sub(b.since) > at.cfg.patience()
	})
	for _, l := range p.lanes {
		if len(l.open) > 0 && at.now.Sub(l.since) > at.cfg.patience() {
			// Without a leader nothing moves, and proposals must not pile up.
			eff.outcomes = append(eff.outcomes, Dropped{IDs: idsOf(l.open)})
			l.open = nil
		}
	}
}

func idsOf(requests []Propose) []uint64 {
	ids := make([]uint64, len(requests))
	for i, req := range requests {
		ids[i] = req.ID
	}
	return ids
}

func (p *proposals) abandon(eff *effects, which func(*pending) bool) {
	var keep []*pending
	for _, b := range p.sent {
		if !which(b) {
			keep = append(keep, b)
			continue
		}
		eff.outcomes = append(eff.outcomes, Dropped{IDs: idsOf(b.requests), Ambiguous: b.term != 0})
	}
	p.sent = keep
}
