package replicasim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/sim"
)

const (
	// lateMessages is how long a message may be under way.
	lateMessages = 3 * time.Second
	// lateExpiry is by how much a leader that is well may be late to end a lease.
	lateExpiry = 500 * time.Millisecond
)

// held is the checkers' record of a lease.
type held struct {
	id   int64
	ttl  time.Duration
	rate float64 // by which clocks differ at most, each way; 0: as in most worlds
	// believedUntil is when, in true time, its holder stops believing in it.
	believedUntil time.Duration
	// lastSent is when the last renewal that anyone may have seen was sent.
	lastSent time.Duration
	gone     time.Duration // when the first member removed it; 0: not yet
	revoked  bool          // or about to be: no reader counts on it any more
}

// until is how long a holder trusts its lease: until TTL after it sent the
// request, by its own clock less the drift that it allows for.
func (l *held) until(sent time.Duration, rate float64) time.Duration {
	return sent + time.Duration(float64(l.ttl)*(1-2*max(drift, l.rate))/(1+rate))
}

// trust notes that the holder believes in its lease because of an answer to its request.
func (l *held) trust(sent time.Duration, rate float64) {
	l.believedUntil = max(l.believedUntil, l.until(sent, rate))
}

// answered judges the answer to a renewal, and lets the holder believe it.
func (k *checks) answered(w *sim.World, l *held, sent time.Duration, rate float64, a replica.AnswerLease) {
	switch {
	case l.revoked:
	case a.TTL == 0 && l.gone == 0:
		k.fail(w, "lease %d was called unknown while it lives", l.id)
	case a.TTL > 0 && l.gone > 0 && l.gone < l.until(sent, rate) && w.Now() < l.until(sent, rate):
		k.fail(w, "lease %d ended at %v, but a renewal sent at %v was granted", l.id, l.gone, sent)
	case a.TTL > 0 && w.Now() < l.until(sent, rate):
		l.trust(sent, rate)
	}
}

// rebooted forgets a member's knowledge: it goes back in time, to its snapshot.
func (k *checks) rebooted(m *Member) {
	delete(k.known, uint64(m.ID))
	delete(k.revisions.seen, uint64(m.ID))
}

// watchLeases finds leases that a member no longer has, and fails if a holder
// could still believe in one.
func (k *checks) watchLeases(w *sim.World, m *Member) {
	now := map[int64]bool{}
	for info := range m.state.Store().View().Leases() {
		now[info.ID] = true
	}
	var gone []int64
	for id := range k.known[uint64(m.ID)] {
		if !now[id] {
			gone = append(gone, id)
		}
	}
	slices.Sort(gone)
	for _, id := range gone {
		l := k.leases[id]
		if l == nil || l.gone > 0 {
			continue
		}
		l.gone = w.Now()
		w.Note("lease %d gone at member %d", id, m.ID)
		if l.gone < l.believedUntil && !l.revoked {
			k.fail(w, "lease %d ended at %v while its holder believes in it until %v", id, l.gone, l.believedUntil)
		}
		if over := l.lastSent + l.ttl; l.lastSent > k.quiet+lateMessages && l.gone > over+lateExpiry+4*k.apart {
			k.fail(w, "lease %d of %v ended at %v: nobody renewed it after %v and nothing was amiss", id, l.ttl, l.gone, l.lastSent)
		}
	}
	k.known[uint64(m.ID)] = now
}
