package quorumlease

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// Stalls watches, at the leader, for holders that hold up what is committed: they
// are cut off from the leader, or slow, and go on renewing with others. Their
// promises are no longer renewed (R21), so that nothing is held up for longer than
// patience, a promise, and two messages. Refusing is always safe.
type Stalls struct {
	patience time.Duration
	marks    []mark
}

// mark is how far a holder has to have come, since when.
type mark struct {
	member  machine.NodeID
	index   uint64
	since   machine.Mono
	stalled bool
}

// NewStalls watches with half a promise's length of patience.
func NewStalls(cfg Config) *Stalls { return &Stalls{patience: cfg.TTL / 2} }

// Look takes note of how far each holder has come, and returns those that are
// stalled, by member. A holder gets a new chance when it came, in half the patience,
// as far as the log was committed before.
func (s *Stalls) Look(now machine.Mono, commit uint64, l *Ledger) []machine.NodeID {
	for _, h := range l.holders() {
		has := l.has(h)
		i := slices.IndexFunc(s.marks, func(m mark) bool { return m.member == h.Member })
		if has >= commit {
			if i >= 0 {
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
			*m = mark{member: h.Member, index: commit, since: now, stalled: m.stalled && late > s.patience/2}
		case late > s.patience:
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
func (s *Stalls) Reset() { s.marks = nil }

// Due is when patience with a holder ends next.
func (s *Stalls) Due() machine.Mono {
	due := machine.Never
	for _, m := range s.marks {
		if !m.stalled {
			due = min(due, m.since.Add(s.patience+1))
		}
	}
	return due
}
