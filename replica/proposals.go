package replica

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// proposals brings this member's requests into the log, each exactly once.
//
// A batch is addressed to the leader of one term and can enter the log in that
// term only. So when an entry of a later term has been applied and the batch
// was not among those before it, the batch is dead, and it is addressed anew:
// a change of leader costs a client time but no error.
type proposals struct {
	seq  uint64
	open []Propose // not yet in a batch
	// openSince is when the oldest of these came.
	openSince machine.Mono
	sent      []*pending // batches whose fate is open, oldest first
	// appliedTerm is the term up to which dead batches were looked for.
	appliedTerm uint64
	// refusal stops addressing until the next tick or leader: a leader without
	// room must not be asked at wire speed.
	refusal bool
}

type pending struct {
	requests []Propose
	seq      uint64
	term     uint64 // that it is addressed to; 0: nobody yet
	since    machine.Mono
	sent     machine.Mono
	entry    []byte // as it was sent to another member; nil once it is not
	waits    bool   // until the next tick
}

func (p *proposals) add(r *Replica, in Propose) {
	if len(p.open) == 0 {
		p.openSince = r.now
	}
	p.open = append(p.open, in)
}

// maxBatches of this member are on their way at once; what comes up meanwhile
// shares the next. One is being written while another is being applied; more of
// them would be smaller, and each costs every member a message, a record and a
// wake-up.
const maxBatches = 2

// maxApart are on their way at once in key order, where each request has an entry to
// itself, so that it waits for nobody else's keys.
const maxApart = 1024

// Where members are near each other, two are enough, for batches as for rounds, and
// what comes up meanwhile shares the next. Where they are far, an answer takes longer
// than spacing: then another sets out, up to maxFlying of them.
const (
	spacing   = 5 * time.Millisecond
	maxFlying = 64
)

// mayGo tells whether another batch may set out.
func (p *proposals) mayGo(r *Replica) bool {
	n := len(p.sent)
	if r.reads.keys.on {
		return n < maxApart
	}
	return n < maxBatches || n < maxFlying && r.now.Sub(p.sent[n-1].since) >= spacing
}

// due is when another batch may set out.
func (p *proposals) due(r *Replica) machine.Mono {
	if n := len(p.sent); len(p.open) > 0 && n > 0 && n < maxFlying && !p.mayGo(r) {
		return p.sent[n-1].since.Add(spacing)
	}
	return machine.Never
}

// turn addresses what is not addressed yet.
func (p *proposals) turn(r *Replica) {
	for len(p.open) > 0 && p.mayGo(r) {
		n, bytes := 0, 0
		for n < len(p.open) && (n == 0 || !r.reads.keys.on) {
			bytes += p.open[n].size()
			alone := asksChange(p.open[n:]) || asksChange(p.open[max(0, n-1):n])
			if n > 0 && (bytes > r.cfg.MaxEntryBytes || alone) {
				break
			}
			n++
		}
		p.sent = append(p.sent, &pending{requests: p.open[:n:n], since: r.now})
		p.open, p.openSince = p.open[n:], r.now
	}
	if len(p.open) == 0 {
		p.open = nil
	}
	if r.leader == 0 || p.refusal {
		return
	}
	for _, b := range slices.Clone(p.sent) {
		if b.term != 0 || b.waits || p.address(r, b) {
			continue
		}
		if asksChange(b.requests) { // which waits for the one before, and holds up nothing
			b.waits = true
			continue
		}
		p.refusal = true
		return
	}
}

// address sends a batch to the leader, and returns false if that must be tried again.
func (p *proposals) address(r *Replica, b *pending) bool {
	p.seq++
	entry := (&batch{Term: r.term, From: r.cfg.ID, Boot: r.cfg.Boot, Seq: p.seq, Requests: b.requests}).encode()
	if r.reads.keeps(r, entry) {
		keep(entry)
	}
	if r.leading() {
		switch v := r.admit(r.term, entry, b.requests); {
		case v == notNow:
			return false // busy, or about to learn of a new term
		case v >= refusals:
			p.reject(r, b, v)
			return true
		}
		entry = nil
	} else {
		r.send(r.leader, forward{Term: r.term, Seq: p.seq, Entry: entry})
	}
	b.term, b.seq, b.sent, b.entry = r.term, p.seq, r.now, entry
	return true
}

// settled learns from the Applier which batches are done or dead.
func (p *proposals) settled(r *Replica, in Applied) {
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
		r.leases.settled(r, fate)
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
func (p *proposals) refused(r *Replica, m refused) {
	if m.Boot != r.cfg.Boot {
		return
	}
	for _, b := range p.sent {
		if b.term == m.Term && b.seq == m.Seq {
			b.term = 0
			b.waits = asksChange(b.requests)
			p.refusal = p.refusal || !b.waits
		}
	}
}

// rejected takes back a change of the membership that no leader may make.
func (p *proposals) rejected(r *Replica, m rejected) {
	if m.Boot != r.cfg.Boot {
		return
	}
	for _, b := range slices.Clone(p.sent) {
		if b.term == m.Term && b.seq == m.Seq {
			p.reject(r, b, m.Why)
		}
	}
}

func (p *proposals) reject(r *Replica, b *pending, why verdict) {
	p.sent = slices.DeleteFunc(slices.Clone(p.sent), func(o *pending) bool { return o == b })
	r.outcomes = append(r.outcomes, Rejected{ID: b.requests[0].ID, Err: why.err()})
}

// restored gives up the batches whose fate a snapshot has hidden.
func (p *proposals) restored(r *Replica, term uint64) {
	p.appliedTerm = max(p.appliedTerm, term)
	p.abandon(r, func(b *pending) bool { return b.term != 0 && b.term <= term })
}

// onTick repeats what may have been lost on the way, and gives up what nobody
// waits for.
func (p *proposals) onTick(r *Replica) {
	p.refusal = false
	for _, b := range p.sent {
		b.waits = false
		if b.entry != nil && b.term == r.term && r.leader != 0 && !r.leading() && r.now.Sub(b.sent) > r.cfg.electionTimeout() {
			b.sent = r.now
			r.send(r.leader, forward{Term: b.term, Seq: b.seq, Entry: b.entry})
		}
	}
	p.abandon(r, func(b *pending) bool {
		return r.now.Sub(b.since) > r.cfg.patience()
	})
	if len(p.open) > 0 && r.now.Sub(p.openSince) > r.cfg.patience() {
		// Without a leader nothing moves; what piles up must not be kept.
		r.outcomes = append(r.outcomes, Dropped{IDs: idsOf(p.open)})
		p.open = nil
	}
}

func idsOf(requests []Propose) []uint64 {
	ids := make([]uint64, len(requests))
	for i, req := range requests {
		ids[i] = req.ID
	}
	return ids
}

func (p *proposals) abandon(r *Replica, which func(*pending) bool) {
	var keep []*pending
	for _, b := range p.sent {
		if !which(b) {
			keep = append(keep, b)
			continue
		}
		r.outcomes = append(r.outcomes, Dropped{IDs: idsOf(b.requests), Ambiguous: b.term != 0})
	}
	p.sent = keep
}
