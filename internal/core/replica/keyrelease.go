package replica

import (
	"math"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"go.etcd.io/raft/v3/raftpb"
)

// committed lets the Applier have everything. Once the log has decided for strict order, it
// lets the Applier have what is released, until nothing is held.
func (k *keyOrder) committed(at positions, ending bool) (upTo uint64, held bool) {
	if ending {
		return max(at.released, k.through), true
	}
	return at.committed, true
}

// reported has the leader judge by itself, others take its word, and those that hear the reports
// do both, once they know whose entries are in their state.
func (k *keyOrder) reported(at positions, by reports) (Released, bool) {
	others := by.left != keeper{}
	if by.ledger != nil && !(others && k.stillBlind()) {
		k.judge(by.ledger, at.committed, by.left)
	}
	if by.ledger == nil || others {
		k.learn(at.committed)
	}
	return k.report()
}

func (k *keyOrder) visible(uint64) uint64 { return k.through }

func (k *keyOrder) releasedHere(at positions) uint64 { return min(k.through, at.committed) }

func (k *keyOrder) hidesSome(at positions) bool { return k.through < at.handedOut }

func (k *keyOrder) addNews(at positions, news quorumlease.News) quorumlease.News {
	news.Released = k.through
	news.Horizon, news.Held = k.held(at.committed)
	return news
}

// judge finds out from reports which entries are released. Entries that are released in log
// order are released. Only the leader judges entries that it keeps, for until then it reads
// what was there before. The ledger does not hear of these, since its findings are good in
// all later terms.
func (k *keyOrder) judge(l *quorumlease.Ledger, commit uint64, left keeper) {
	k.releaseThrough(l.Release(min(commit, k.firstOf(left)-1)))
	for n := range k.missed {
		m := &k.missed[n]
		if len(m.entries) == 0 || m.isLeftTo(left) {
			continue
		}
		upTo := min(commit, l.Limit(m.mayLack))
		for len(m.entries) > 0 && m.entries[0] <= upTo {
			i := m.entries[0]
			m.entries = m.entries[1:]
			k.assured(i)
		}
	}
	k.advance(l.Acknowledged(commit))
}

// mayLack reports whether a member is one of the holders.
func (m *missed) mayLack(id machine.NodeID) bool {
	return m.holders == nil || slices.Contains(m.holders, id)
}

func (m *missed) isLeftTo(by keeper) bool { return m.by == by && by != keeper{} }

// firstOf returns the first unreleased entry that a leader keeps.
func (k *keyOrder) firstOf(by keeper) uint64 {
	first := uint64(math.MaxUint64)
	for _, m := range k.missed {
		if !m.isLeftTo(by) {
			continue
		}
		if n := slices.IndexFunc(m.entries, k.log.held); n >= 0 {
			first = min(first, m.entries[n])
		}
	}
	return first
}

// mayKeep returns what a batch changes, and whether this leader may keep it to itself: then it reads
// what was there before until it releases it. For that the others have to see in the entry the same
// changes as this member. The keys that end with a lease depend on the state that a member has
// applied, and a member that sees fewer keys releases the entries behind it. And the next leader has
// to wait for this one as a holder.
func (k *keyOrder) mayKeep(self machine.NodeID, term uint64, data []byte) (keyspan.Set, bool) {
	t := &k.scratch
	t.scan(&raftpb.Entry{Term: &term, Data: data})
	return t.Keys.Writes, len(t.ended) == 0 && k.latest().holdsAny(self, t.Keys.Writes)
}

// noteKept notes an entry that this leader has proposed and keeps, by the configuration of
// this moment (R13).
func (k *keyOrder) noteKept(self machine.NodeID, i uint64, touch *Touch) {
	if !touch.resolved && k.latest().holdsAny(self, touch.Keys.Writes) {
		k.own = append(k.own, i)
	}
}

// isOwn reports whether an unreleased entry is such a one.
func (k *keyOrder) isOwn(i uint64) bool {
	_, found := slices.BinarySearch(k.own, i)
	return found
}

// assured tells that no holder lacks an entry: it is released once all are that it
// depends on (R25).
func (k *keyOrder) assured(i uint64) {
	if !k.log.held(i) {
		return
	}
	if before := k.log.blocked(i); before != 0 {
		k.behind[before] = append(k.behind[before], i)
		return
	}
	k.release(i)
}

// release notes that one entry is released: those that depend on it may be, too.
func (k *keyOrder) release(i uint64) {
	k.log.release(i)
	k.fresh = append(k.fresh, i) // the report leaves out what is before through
	list := k.behind[i]
	delete(k.behind, i)
	for _, next := range list {
		k.assured(next)
	}
}

// learn takes the leader's word for what is released, up to where this member knows
// the log to be committed (R19).
func (k *keyOrder) learn(commit uint64) {
	k.releaseThrough(min(k.news.Released, commit))
	if k.stillBlind() {
		return // it does not know what the leader names as held
	}
	// In a term, ever fewer entries are held up to a horizon.
	now := learnt{k.news.Term, k.news.Horizon, commit, len(k.news.Held)}
	if now == k.learnt {
		return
	}
	k.learnt = now
	upTo := min(k.news.Horizon, commit)
	k.fences = slices.DeleteFunc(k.fences, func(i uint64) bool {
		if i > upTo || k.heldBack(i) {
			return false
		}
		k.fresh = append(k.fresh, i)
		return true
	})
	for i := range k.log.unreleased() {
		if i > upTo {
			break
		}
		if !k.heldBack(i) {
			k.release(i)
		}
	}
	k.advance(upTo)
}

// heldBack reports whether the leader's news names an entry.
func (k *keyOrder) heldBack(i uint64) bool {
	_, found := slices.BinarySearch(k.news.Held, i)
	return found
}

// stillBlind ends the blindness when it may end.
func (k *keyOrder) stillBlind() bool {
	k.blind = k.blind && (k.loading || k.through < k.unknown)
	return k.blind
}

// releaseThrough notes that everything up to an index is released.
func (k *keyOrder) releaseThrough(i uint64) {
	if i <= k.through {
		return
	}
	k.through = i
	k.log.releaseThrough(i)
	k.fences = slices.DeleteFunc(k.fences, func(f uint64) bool { return f <= i })
	k.unblock()
}

// trim forgets what is released of what somebody might have missed.
func (k *keyOrder) trim() {
	for n := range k.missed {
		m := &k.missed[n]
		for len(m.entries) > 0 && !k.log.held(m.entries[0]) {
			m.entries = m.entries[1:]
		}
	}
	k.missed = slices.DeleteFunc(k.missed, func(m missed) bool { return len(m.entries) == 0 })
	for len(k.own) > 0 && !k.log.held(k.own[0]) {
		k.own = k.own[1:]
	}
}

// unblock looks again at what waits for entries that are released by now.
func (k *keyOrder) unblock() {
	var done []uint64
	for before := range k.behind {
		if before <= k.through {
			done = append(done, before)
		}
	}
	slices.Sort(done)
	for _, before := range done {
		list := k.behind[before]
		delete(k.behind, before)
		for _, next := range list {
			k.assured(next)
		}
	}
}

// advance moves through as far as nothing is held, but no further than upTo, where
// entries that touch nothing are released, too.
func (k *keyOrder) advance(upTo uint64) {
	if k.stillBlind() {
		return
	}
	for i := range k.log.unreleased() {
		upTo = min(upTo, i-1)
		break
	}
	if len(k.fences) > 0 {
		upTo = min(upTo, k.fences[0]-1)
	}
	k.through = max(k.through, upTo)
	k.trim()
	// A configuration before the last released one binds nobody any more.
	n := 0
	for j, c := range k.confs {
		if c.index <= k.through {
			n = j
		}
	}
	k.confs = k.confs[n:]
}
