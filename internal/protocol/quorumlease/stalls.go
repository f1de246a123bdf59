package quorumlease

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Stalls finds, at the leader, holders that delay committed entries: they are slow or cut
// off from the leader, and go on renewing with other voters. Their promises are no longer
// renewed (R21), so that they delay an entry by at most the patience, a promise, and two
// messages. Refusing is always safe.
//
// The patience is half a promise's length plus the least time that this holder has taken,
// up to a promise's length. A holder that is far away is not slow.
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

// mark is the index that a holder has to reach, and since when.
type mark struct {
	member  machine.NodeID
	index   uint64
	since   machine.Mono
	stalled bool
}

// NewStalls returns a Stalls for promises of this length.
func NewStalls(cfg Config) *Stalls { return &Stalls{ttl: cfg.TTL} }

// recordTime records how long a holder took, and returns the least time it has taken.
func (s *Stalls) recordTime(member machine.NodeID, took time.Duration) time.Duration {
	took = min(took, s.ttl)
	i := slices.IndexFunc(s.bests, func(b best) bool { return b.member == member })
	if i < 0 {
		s.bests = append(s.bests, best{member, took})
		return took
	}
	s.bests[i].took = min(s.bests[i].took, took)
	return s.bests[i].took
}

// leastTime returns the least time a holder has taken, 0 if none is known.
func (s *Stalls) leastTime(member machine.NodeID) time.Duration {
	i := slices.IndexFunc(s.bests, func(b best) bool { return b.member == member })
	if i < 0 {
		return 0
	}
	return s.bests[i].took
}

// Look records how far each holder has come, and returns the stalled ones, by member. A
// stalled holder gets a new chance when it catches up with the committed log within a
// quarter of a promise's length plus its least time.
func (s *Stalls) Look(now machine.Mono, commit uint64, l *Ledger) []machine.NodeID {
	holders := l.holders()
	for _, h := range holders {
		has := l.has(h)
		i := slices.IndexFunc(s.marks, func(m mark) bool { return m.member == h.Member })
		if has >= commit {
			if i >= 0 {
				s.recordTime(h.Member, now.Sub(s.marks[i].since))
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
			usual := s.recordTime(h.Member, late)
			*m = mark{member: h.Member, index: commit, since: now, stalled: m.stalled && late > s.ttl/4+usual}
		case late > s.ttl/2+s.leastTime(h.Member):
			m.stalled = true
		}
	}
	// A stalled holder without promises is watched until it has caught up with the others.
	s.marks = slices.DeleteFunc(s.marks, func(m mark) bool {
		named := slices.ContainsFunc(holders, func(h Lifetime) bool { return h.Member == m.member })
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

// Reset forgets all observations, for a new term.
func (s *Stalls) Reset() { s.marks, s.bests = nil, nil }

// Due returns when the patience with a holder ends next.
func (s *Stalls) Due() machine.Mono {
	due := machine.Never
	for _, m := range s.marks {
		if !m.stalled {
			due = min(due, m.since.Add(s.ttl/2+s.leastTime(m.member)+1))
		}
	}
	return due
}
