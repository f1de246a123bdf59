package quorumlease

import (
	"cmp"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Ledger decides from the reports of one term which entries are released (R1). The leader
// of that term has one. Any other member that gets the reports may have one too, because a
// released entry stays released for ever.
type Ledger struct {
	term     uint64
	counting Memberships
	all      []machine.NodeID // the members that may hold
	members  []account        // by member
	released uint64
}

// account records how much of the log a member is known to have.
type account struct {
	member machine.NodeID
	// boot is the latest known life of the member; received belongs to that life.
	boot              uint64
	received, durable uint64
	report            Report // the one that says most
}

// Begin begins a term with its members: reports of other terms do not count (R17). Learners
// may hold leases but do not vouch.
func (l *Ledger) Begin(term uint64, members Memberships) {
	*l = Ledger{term: term, released: l.released}
	l.Count(members)
}

// Count sets the memberships that count from now on.
func (l *Ledger) Count(members Memberships) { l.counting, l.all = members, members.Everyone() }

// Term returns the term whose reports count.
func (l *Ledger) Term() uint64 { return l.term }

// find searches linearly: there are few members, and it is called often.
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
		// Entries that the earlier life had received and not flushed are lost.
		a.boot, a.received = r.Boot, 0
	}
	if r.Boot == a.boot {
		a.received = max(a.received, r.Received)
	}
	a.durable = max(a.durable, r.Durable)
	// A report stays true for the entries that it covers. The one that covers most is kept;
	// of two that cover the same, the later, which may name fewer holders.
	if a.report.Term == 0 || r.Durable >= a.report.Durable {
		a.report = r
	}
}

// has returns up to where a life of a member has the log. A life that is over can never
// read, so it counts as having everything.
func (l *Ledger) has(who Lifetime) uint64 {
	i, known := l.find(who.Member)
	if !known {
		return 0
	}
	switch a := &l.members[i]; {
	case a.boot > who.Boot: // a life that is over reads no more (R15)
		return ^uint64(0)
	case a.boot == who.Boot:
		return max(a.received, a.durable)
	default:
		return a.durable
	}
}

// flushed returns up to where every life of a member has the log.
func (l *Ledger) flushed(member machine.NodeID) uint64 {
	if i, known := l.find(member); known {
		return l.members[i].durable
	}
	return 0
}

// vouchedUpTo returns up to where a report vouches for entries that the given members hold. Its
// sender has the log up to there, and so has each of them that the sender was bound to.
func (l *Ledger) vouchedUpTo(r *Report, holds func(machine.NodeID) bool) uint64 {
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

// Lacking returns the members that lack entries up to an index and that some reporting
// voter is bound to. That voter does not vouch for those of the entries that they hold. It
// serves logs and status pages only.
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

// Acknowledged returns up to where a majority has the log in this term, and at most limit.
// The log is committed up to there if it ends with an entry of the term. An entry that
// changes the voters needs a majority of the voters before it. Until they have it, no entry
// behind it counts.
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

// Limit returns up to where a majority of the voters vouches for entries that only these
// members hold: those are released once they are committed (R1). Up to and including an
// entry that changes the voters, a majority of the voters before it suffices too, since it
// shares a voter with each majority after it. Entries behind the change wait for the change
// (R23).
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

// majority returns up to where a majority of the given voters vouches.
func (l *Ledger) majority(voters []machine.NodeID, holds func(machine.NodeID) bool) uint64 {
	limits := make([]uint64, 0, 8)
	for _, v := range voters {
		if i, known := l.find(v); known {
			limits = append(limits, l.vouchedUpTo(&l.members[i].report, holds))
		}
	}
	need := Majority(len(voters))
	if len(limits) < need {
		return 0
	}
	slices.SortFunc(limits, func(a, b uint64) int { return cmp.Compare(b, a) })
	return limits[need-1]
}

// Release returns up to where the log is released in its order, given up to where it is
// committed. Each holder has all of the log up to there, whichever keys it holds.
func (l *Ledger) Release(commit uint64) uint64 {
	l.released = max(l.released, min(commit, l.Limit(everybody)))
	return l.released
}

// holders returns the lives that any report names and that are not known to be over.
func (l *Ledger) holders() []Lifetime {
	list := make([]Lifetime, 0, len(l.members)+1) // a member that starts anew may be there twice
	for i := range l.members {
		for _, h := range l.members[i].report.Holders {
			if !slices.Contains(list, h) && !l.over(h) {
				list = append(list, h)
			}
		}
	}
	return list
}

// over reports whether a life has ended, because a later one is known.
func (l *Ledger) over(who Lifetime) bool {
	i, known := l.find(who.Member)
	return known && l.members[i].boot > who.Boot
}

// latest returns up to where the latest life of a member has the log.
func (l *Ledger) latest(member machine.NodeID) uint64 {
	if i, known := l.find(member); known {
		return max(l.members[i].received, l.members[i].durable)
	}
	return 0
}

// Holding describes a member that some voter is bound to.
type Holding struct {
	Lifetime
	Has      uint64           // up to where it has the log, as far as that matters
	Grantors []machine.NodeID // the voters bound to it
}

// Holdings returns the members that voters are bound to, for logs and status pages.
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
