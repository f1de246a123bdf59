package flease

import (
	"maps"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// recollect has a peer that has started hear the records of the others, until none is missing that it has
// acknowledged in an earlier life; see "Records" in the package comment.
func (p *Peer) recollect() {
	for p.ctx.Err() == nil {
		if _, whole := p.shelf.size(); whole {
			return
		}
		first, fits := p.gather()
		if p.confirmed(first) || first.sufficient() {
			p.completed(first, nil)
			continue
		}
		if began := first.begun(p.self, p.pure.Incarnation); began != nil {
			p.completed(first, began)
			continue
		}
		if p.allBlank(first, first) {
			if second, _ := p.gather(); p.allBlank(second, first) {
				// A majority had forgotten the records at one moment, and nothing brings them back. The
				// cluster may as well be new.
				p.completed(second, second.blank(first))
				continue
			}
		}
		pause := p.pure.RoundTimeout
		if !fits {
			p.cfg.Logger.Error("flease: this peer misses records of --every and has no room for them", "names", heardMax)
			pause *= 20 // megabytes each time
		}
		_ = wait(p.ctx, pause)
	}
}

// gather asks all members for all of their records, and keeps what they show. It reports whether there was room for them.
func (p *Peer) gather() (r round, fits bool) {
	r, fits = p.round(p.ctx, recordQuestion{From: p.self}, round.sufficient), true
	for id, a := range r.answers {
		for _, k := range a.Records {
			if !p.shelf.putHeard(k) {
				fits = false
				delete(r.answers, id)
				break
			}
		}
	}
	return r, fits
}

// completed notes that no record is missing, unless the list has changed since the round.
func (p *Peer) completed(r round, began map[machine.NodeID]uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members.Epoch == r.epoch {
		p.shelf.complete(began, r.epoch)
	}
}

// allBlank reports whether this peer and others, a majority together, missed records in both rounds.
func (p *Peer) allBlank(r, before round) bool {
	blank := r.blank(before)
	_, self := blank[p.self]
	return self && len(blank) >= r.majority && r.moved()
}

// begun returns the members that were blank at one moment, as one says that it was among them, if this peer was,
// too, in this life. The one that completed first is blank no more, and the others would wait for each other. Its word counts
// though it has restarted since: the moment was.
func (r round) begun(self machine.NodeID, life uint32) map[machine.NodeID]uint32 {
	for _, id := range slices.Sorted(maps.Keys(r.answers)) {
		if a := r.answers[id]; a.Began[self] == life {
			return a.Began
		}
	}
	return nil
}

// confirmed reports whether the file that the peer has restored is that of its last life, as far as the others
// that answer know. At least one of them has to have forgotten nothing itself, unless all have answered: of two peers
// of which one has crashed nobody would come any more.
func (p *Peer) confirmed(r round) bool {
	former, earlier := p.shelf.restored()
	if former == 0 {
		return false
	}
	own, remember := append(slices.Clone(earlier), p.pure.Incarnation), false
	for id, a := range r.answers {
		switch {
		case id == p.self:
		case later(a.Lives, former, own):
			p.cfg.Logger.Warn("flease: the state was not that of the last shutdown, so that records may be missing until others have shown theirs", "peer", id)
			p.shelf.miss()
			return false
		case !a.blank():
			remember = true
		}
	}
	return remember || len(r.answers) == r.members
}

// later reports whether there may have been a life after a former one beside those that are known: the present one, and
// earlier ones, of which another may have heard that has not heard of the former.
func later(lives []uint32, former uint32, known []uint32) bool {
	since := lives[slices.Index(lives, former)+1:]
	return slices.ContainsFunc(since, func(life uint32) bool { return !slices.Contains(known, life) })
}
