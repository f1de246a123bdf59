package quorumlease

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Stalls watches, at the leader, for holders that hold up what is committed: they
// are cut off from the leader, or slow, and go on renewing with others. Their
// promises are no longer renewed (R21), so that nothing is held up for longer than
// patience, a promise, and two messages. Refusing is always safe.
//
// Patience is half a promise's length, and beside it as long as that holder takes at
// best, up to a promise's length: one that is far away is not slow.
type Stalls struct {
	ttl   time.Duration
	marks []mark
	bests []best
}

// best is the least time that a holder has taken in this term.
type best struct {
	member machine.NodeID
	took   time.Duration
}

// mark is how far a holder has to have come, since when.
type mark struct {
	member  machine.NodeID
	index   uint64
	since   machine.Mono
	stalled bool
}

// NewStalls watches with patience for holders of promises of this length.
func NewStalls(cfg Config) *Stalls { return &Stalls{ttl: cfg.TTL} }

// came notes how long a holder took, and returns what it takes at best.
func (s *Stalls) came(member machine.NodeID, took time.Duration) time.Duration {
	took = min(took, s.ttl)
	i := slices.IndexFunc(s.bests, func(b best) bool { return b.member == member })
	if i < 0 {
		s.bests = append(s.bests, best{member, took})
		return took
	}
	s.bests[i].took = min(s.bests[i].took, took)
	return s.bests[i].took
}

// atBest is what a holder takes at best, 0 if that is not known yet.
func (s *Stalls) atBest(member machine.NodeID) time.Duration {
	i := slices.IndexFunc(s.bests, func(b best) bool { return b.member == member })
	if i < 0 {
		return 0
	}
	return s.bests[i].took
}

// Look takes note of how far each holder has come, and returns those that are
// stalled, by member. A holder gets a new chance when it came, in a quarter of a promise's
// length and what it takes at best, as far as the log was committed before.
func (s *Stalls) Look(now machine.Mono, commit uint64, l *Ledger) []machine.NodeID {
	for _, h := range l.holders() {
		has := l.has(h)
		i := slices.IndexFunc(s.marks, func(m mark) bool { return m.member == h.Member })
		if has >= commit {
			if i >= 0 {
				s.came(h.Member, now.Sub(s.marks[i].since))
				s.marks = slices.Delete(s.marks, i, i+1)
			}
			continue
		}
		if i < 0 {
			s.marks = append(s.marks, mark{member: h.Member, index: commit, since: now})
			continue
		}
		m := &s.marks[i]
		switch late := now.Sub(m.since); {
		case has >= m.index:
			usual := s.came(h.Member, late)
			*m = mark{member: h.Member, index: commit, since: now, stalled: m.stalled && late > s.ttl/4+usual}
		case late > s.ttl/2+s.atBest(h.Member):
			m.stalled = true
		}
	}
	// A stalled holder whose promises have run out is looked at until it has come
	// as far as the others.
	s.marks = slices.DeleteFunc(s.marks, func(m mark) bool {
		named := slices.ContainsFunc(l.holders(), func(h Lifetime) bool { return h.Member == m.member })
		return !named && (!m.stalled || l.latest(m.member) >= commit || !slices.Contains(l.all, m.member))
	})
	var stalled []machine.NodeID
	for _, m := range s.marks {
		if m.stalled {
			stalled = append(stalled, m.member)
		}
	}
	slices.Sort(stalled)
	return stalled
}

// Reset forgets what was seen: another term begins.
func (s *Stalls) Reset() { s.marks, s.bests = nil, nil }

// Due is when patience with a holder ends next.
func (s *Stalls) Due() machine.Mono {
	due := machine.Never
	for _, m := range s.marks {
		if !m.stalled {
			due = min(due, m.since.Add(s.ttl/2+s.atBest(m.member)+1))
		}
	}
	return due
}
