package quorumlease

import (
	"cmp"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Ledger decides what is released, from the reports of one term (R1). The leader of
// that term has one; but so may anybody whom the reports reach, for what is released
// stays so for ever (Lemma S).
type Ledger struct {
	term     uint64
	counting Memberships
	all      []machine.NodeID // who may hold
	members  []account        // by member
	released uint64
}

// account is what a member is known to have.
type account struct {
	member machine.NodeID
	// boot is the latest life that was heard of; received is that life's.
	boot              uint64
	received, durable uint64
	report            Report // the one that says most
}

// Reign begins a term, with the members of it: no report of another counts (R17).
// Learners may hold leases and have no say.
func (l *Ledger) Reign(term uint64, members Memberships) {
	*l = Ledger{term: term, released: l.released}
	l.Count(members)
}

// Count tells which memberships count from now on.
func (l *Ledger) Count(members Memberships) { l.counting, l.all = members, members.Everyone() }

// Term is the term whose reports count.
func (l *Ledger) Term() uint64 { return l.term }

// find looks at one after the other: there are a handful, and it is asked for often.
func (l *Ledger) find(member machine.NodeID) (at int, known bool) {
	for at = range l.members {
		if id := l.members[at].member; id >= member {
			return at, id == member
		}
	}
	return len(l.members), false
}

// Report takes a report.
func (l *Ledger) Report(from machine.NodeID, r Report) {
	if r.Term != l.term || l.term == 0 {
		return
	}
	i, known := l.find(from)
	if !known {
		l.members = slices.Insert(l.members, i, account{member: from})
	}
	a := &l.members[i]
	if r.Boot > a.boot {
		// What the life before had only received is lost.
		a.boot, a.received = r.Boot, 0
	}
	if r.Boot == a.boot {
		a.received = max(a.received, r.Received)
	}
	a.durable = max(a.durable, r.Durable)
	// Each report is good for ever, for the entries that it speaks of. The one that
	// speaks of most is kept; of two alike the later, which may name fewer holders.
	if a.report.Term == 0 || r.Durable >= a.report.Durable {
		a.report = r
	}
}

// has is up to where a life of a member has the log, or can never read without it.
func (l *Ledger) has(who Lifetime) uint64 {
	i, known := l.find(who.Member)
	if !known {
		return 0
	}
	switch a := &l.members[i]; {
	case a.boot > who.Boot: // it reads no more (R15)
		return ^uint64(0)
	case a.boot == who.Boot:
		return max(a.received, a.durable)
	default:
		return a.durable
	}
}

// flushed is up to where all lives of a member have the log.
func (l *Ledger) flushed(member machine.NodeID) uint64 {
	if i, known := l.find(member); known {
		return l.members[i].durable
	}
	return 0
}

// vouches is up to where a report lets entries be released that some members hold:
// its sender has them, and so has every holder that the sender was bound to.
func (l *Ledger) vouches(r *Report, holds func(machine.NodeID) bool) uint64 {
	limit := r.Durable
	for _, h := range r.Holders {
		if holds(h.Member) {
			limit = min(limit, l.has(h))
		}
	}
	if r.Everyone {
		for _, m := range l.all {
			if holds(m) {
				limit = min(limit, l.flushed(m))
			}
		}
	}
	return limit
}

// Lacking are the members that do not have the log up to an index, while a voter that has
// reported is bound to them: of what they hold, that is not released by its word. For
// people.
func (l *Ledger) Lacking(index uint64, holds func(machine.NodeID) bool) []machine.NodeID {
	var list []machine.NodeID
	for _, m := range l.all {
		if !holds(m) {
			continue
		}
		for i := range l.members {
			r := &l.members[i].report
			if r.Everyone && l.flushed(m) < index || slices.ContainsFunc(r.Holders, func(h Lifetime) bool { return h.Member == m && l.has(h) < index }) {
				list = append(list, m)
				break
			}
		}
	}
	return list
}

func everybody(machine.NodeID) bool { return true }
func nobody(machine.NodeID) bool    { return false }

// Acknowledged is up to where a majority has the log, in this term, and no further
// than limit: up to there it is committed, if it ends with an entry of the term. An
// entry that changes who is a voter is for a majority of those before it, and until
// they have it there is nothing behind it.
func (l *Ledger) Acknowledged(limit uint64) uint64 {
	if l.term == 0 {
		return 0
	}
	newest := l.counting.Newest()
	has := l.majority(newest.Voters, nobody)
	for _, before := range l.counting[:max(0, len(l.counting)-1)] {
		switch old := l.majority(before.Voters, nobody); {
		case old < newest.Index:
			has = old
		default:
			has = max(has, newest.Index)
		}
	}
	return min(limit, has)
}

// Limit is up to where a majority of the voters vouches for entries: those are
// released that are committed, and that change what only these members hold (R1). Up to
// an entry that changes who is a voter, and for that itself, a majority of those before
// will do as well: it shares a voter with each of those after. What is behind waits for
// the change (R23).
func (l *Ledger) Limit(holds func(machine.NodeID) bool) uint64 {
	if l.term == 0 {
		return 0
	}
	newest := l.counting.Newest()
	limit := l.majority(newest.Voters, holds)
	for _, before := range l.counting[:max(0, len(l.counting)-1)] {
		limit = max(limit, min(newest.Index, l.majority(before.Voters, holds)))
	}
	return limit
}

// majority is up to where a majority of some voters vouches.
func (l *Ledger) majority(voters []machine.NodeID, holds func(machine.NodeID) bool) uint64 {
	limits := make([]uint64, 0, 8)
	for _, v := range voters {
		if i, known := l.find(v); known {
			limits = append(limits, l.vouches(&l.members[i].report, holds))
		}
	}
	need := Majority(len(voters))
	if len(limits) < need {
		return 0
	}
	slices.SortFunc(limits, func(a, b uint64) int { return cmp.Compare(b, a) })
	return limits[need-1]
}

// Release returns up to where the log is released in its order, given up to where it
// is committed: whatever a holder holds, it has all of it.
func (l *Ledger) Release(commit uint64) uint64 {
	l.released = max(l.released, min(commit, l.Limit(everybody)))
	return l.released
}

// holders are the lives that some report names, other than of their senders.
func (l *Ledger) holders() []Lifetime {
	var list []Lifetime
	for i := range l.members {
		for _, h := range l.members[i].report.Holders {
			if !slices.Contains(list, h) && !l.over(h) {
				list = append(list, h)
			}
		}
	}
	return list
}

// over tells that a life has ended: a later one was heard of.
func (l *Ledger) over(who Lifetime) bool {
	i, known := l.find(who.Member)
	return known && l.members[i].boot > who.Boot
}

// latest is how far the latest life of a member has come.
func (l *Ledger) latest(member machine.NodeID) uint64 {
	if i, known := l.find(member); known {
		return max(l.members[i].received, l.members[i].durable)
	}
	return 0
}

// Holding is what the Ledger knows of a member that some voter is bound to.
type Holding struct {
	Lifetime
	Has      uint64           // up to where it has the log, as far as that matters
	Grantors []machine.NodeID // who is bound to it
}

// Holdings are for people.
func (l *Ledger) Holdings() []Holding {
	var list []Holding
	for _, h := range l.holders() {
		at := Holding{Lifetime: h, Has: l.has(h)}
		for i := range l.members {
			if slices.Contains(l.members[i].report.Holders, h) {
				at.Grantors = append(at.Grantors, l.members[i].member)
			}
		}
		list = append(list, at)
	}
	slices.SortFunc(list, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Boot, b.Boot))
	})
	return list
}
