package replica

import (
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"go.etcd.io/raft/v3/raftpb"
)

// keyOrder releases entries by the keys that they touch, and has holders for each
// key. Committed entries go to the Applier at once (R24). Released says which of them are
// visible, and KeysReady says it to readers of some keys.
type keyOrder struct {
	revealed
	on  bool
	log touchLog // what in the log is not released
	// fences are entries that everyone with a promise must have, whatever it holds:
	// a leader's first, and those that change the holders of keys (R13, R17).
	fences []uint64
	// missed are unreleased entries that some holder may not have, as of when they were
	// appended; behind are those that no holder lacks, by the entry that has to be
	// released before them (R25).
	missed []missed
	behind map[uint64][]uint64
	// own are unreleased entries, ascending, that this member proposed as a leader and
	// keeps, so that it may read past them. In its term nobody else releases them; those of an earlier
	// leadership are released before the leader of a later one is beyond doubt.
	own []uint64
	// confs are the configurations from the last released one on (R13), ascending. Readers
	// have parts of it: no element is written twice.
	confs []conf
	// former are others that entries have to wait for: see Promises.
	former []*placement.Configuration
	// blind is set until the state is released with which the account began, and so
	// all configurations before it, which are not known. Meanwhile it takes everyone
	// for a holder, and this member for none.
	// Only what its leader says is released whole makes it go on.
	blind   bool
	loading bool   // that state has yet to be loaded
	unknown uint64 // its index
	// leaseKeys are the keys of clients' leases, as the Applier had them last.
	leaseKeys func(lease int64) [][]byte
	scratch   Touch
	invisible invisible

	fresh  []uint64 // released apart from all before, not reported yet
	news   quorumlease.News
	learnt learnt
}

// missed are entries, ascending, that any of the same holders may lack, and that the
// same leader keeps, or none.
type missed struct {
	holders []machine.NodeID // ascending; nil is everyone
	by      keeper
	entries []uint64
}

// keeper is the leader of a term; the zero keeper is nobody.
type keeper struct {
	member machine.NodeID
	term   uint64
}

// learnt is what was made of the leader's news already.
type learnt struct {
	term, horizon, commit uint64
	held                  int
}

// conf is a configuration that counts from an entry on. Without one, each member that has
// promises holds all keys.
type conf struct {
	index   uint64
	setting readSetting
}

// start begins to keep account: of a state at an index that is released up to
// through, and of the entries that the log has behind it.
func (k *keyOrder) start(index, through uint64, setting readSetting, entries []*raftpb.Entry) {
	*k = keyOrder{on: true, revealed: k.revealed, news: k.news, leaseKeys: k.leaseKeys}
	k.through = max(k.through, through)
	k.log.restored(index)
	k.log.releaseThrough(k.through)
	k.behind = map[uint64][]uint64{}
	k.confs = []conf{{index, setting}}
	k.blind, k.unknown = k.through < index, index
	for _, e := range entries {
		k.appended(e)
	}
}

// stop ends the account.
func (k *keyOrder) stop() { *k = keyOrder{revealed: k.revealed} }

var _ visibility = (*keyOrder)(nil)

// appended takes an entry into account, before it is acknowledged (R8).
func (k *keyOrder) appended(e *raftpb.Entry) account {
	i := e.GetIndex()
	touch := k.log.Add(e, k.leaseKeys)
	k.invisible.add(i, touch.Keys.Writes)
	if len(e.GetData()) == 0 || changes(e) {
		k.fences = append(k.fences, i)
		return account{}
	}
	settles := false
	from, kept := glance(e, func(body []byte) { settles = settles || body[0] == kindReadPolicy || body[0] == kindReadCells })
	if settles {
		if b, err := decodeBatch(e.GetData()); err == nil && b.Term == e.GetTerm() {
			if next, ok := k.confs[len(k.confs)-1].setting.after(b); ok {
				k.fences = append(k.fences, i)
				k.confs = append(k.confs, conf{i, next})
				return account{}
			}
		}
	}
	by := keeper{}
	if kept {
		by = keeper{from, e.GetTerm()}
	}
	k.noteMissing(i, k.holdersOf(touch.Keys.Writes), by)
	return account{from, kept, touch}
}

// noteMissing notes the members that may lack an entry.
func (k *keyOrder) noteMissing(i uint64, holders []machine.NodeID, by keeper) {
	if !k.log.held(i) {
		return // it touches nothing
	}
	n := slices.IndexFunc(k.missed, func(m missed) bool {
		return m.by == by && (m.holders == nil) == (holders == nil) && slices.Equal(m.holders, holders)
	})
	if n < 0 {
		n = len(k.missed)
		k.missed = append(k.missed, missed{holders: holders, by: by})
	}
	k.missed[n].entries = append(k.missed[n].entries, i)
}

// latest returns the setting that the log has last, committed or not.
func (k *keyOrder) latest() readSetting {
	if len(k.confs) == 0 {
		return readSetting{}
	}
	return k.confs[len(k.confs)-1].setting
}

// holdersOf returns the members that may hold any of the keys that an entry changes, under any
// configuration that may be in force; nil is everyone (R13).
func (k *keyOrder) holdersOf(writes keyspan.Set) []machine.NodeID {
	if k.blind {
		return nil
	}
	ids := []machine.NodeID{}
	for _, c := range k.confs {
		if c.setting.cells == nil {
			return nil
		}
		ids = addHolders(ids, c.setting.cells, writes)
	}
	for _, cells := range k.former {
		ids = addHolders(ids, cells, writes)
	}
	slices.Sort(ids)
	return ids
}

// addHolders adds those that may hold any of some keys under a configuration.
func addHolders(ids []machine.NodeID, cells *placement.Configuration, keys keyspan.Set) []machine.NodeID {
	var all placement.Set
	for _, s := range keys {
		_, some := cells.HoldersOfRange(s.Key, s.End)
		all |= some
	}
	for place, id := range cells.Members() {
		if all.Has(place) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// holds reports whether a member holds all of some keys: under the configuration that
// was committed last, and under all that may replace it.
func (k *keyOrder) holds(id machine.NodeID, keys keyspan.Set, commit uint64) bool {
	if k.blind {
		return false
	}
	return holdAll(inForce(k.confs, commit), id, keys)
}

// inForce returns the configuration that was committed last, and all that may replace it.
func inForce(confs []conf, commit uint64) []conf {
	first := 0
	for i, c := range confs {
		if c.index <= commit {
			first = i
		}
	}
	return confs[first:]
}

// holdAll reports whether a member holds all of some keys, under each of some
// configurations.
func holdAll(confs []conf, id machine.NodeID, keys keyspan.Set) bool {
	for _, c := range confs {
		if c.setting.cells == nil {
			continue
		}
		place := c.setting.cells.Place(id)
		for _, s := range keys {
			if every, _ := c.setting.cells.HoldersOfRange(s.Key, s.End); place < 0 || !every.Has(place) {
				return false
			}
		}
	}
	return true
}

// truncated forgets the entries from an index on.
func (k *keyOrder) truncated(from, last uint64) {
	k.log.Truncate(from)
	k.invisible.truncate(from)
	k.fences = slices.DeleteFunc(k.fences, func(i uint64) bool { return i >= from })
	for n := len(k.confs); n > 0 && k.confs[n-1].index >= from; n-- {
		k.confs = k.confs[: n-1 : n-1] // readers have it
	}
	if k.on && len(k.confs) == 0 { // that of the last entry released is never forgotten
		panic(fmt.Sprintf("replica: the log is cut at %d, and released entries go beyond (R13)", from))
	}
	gone := func(i uint64) bool { return i >= from }
	for n := range k.missed {
		k.missed[n].entries = slices.DeleteFunc(k.missed[n].entries, gone)
	}
	k.own = slices.DeleteFunc(k.own, gone)
}

// held returns the entries up to the horizon that are not released, for the news. The
// horizon is nearer than the commit index if they are too many.
func (k *keyOrder) held(commit uint64) (horizon uint64, held []uint64) {
	if k.blind {
		return k.through, nil // what is behind it cannot name
	}
	for i := range k.log.unreleased() {
		if i > commit {
			break
		}
		held = append(held, i)
	}
	for _, f := range k.fences {
		if f <= commit {
			held = append(held, f)
		}
	}
	slices.Sort(held)
	if held = slices.Compact(held); len(held) > maxHeld {
		return held[maxHeld] - 1, held[:maxHeld]
	}
	return commit, held
}

// maxHeld entries are named in the news.
const maxHeld = 256

// report returns what became visible.
func (k *keyOrder) report() (out Released, ok bool) {
	fresh := slices.DeleteFunc(k.fresh, func(i uint64) bool { return i <= k.through })
	k.fresh = nil
	if k.through == k.told && len(fresh) == 0 {
		return out, false
	}
	k.told = k.through
	slices.Sort(fresh)
	return Released{Through: k.through, Apart: fresh}, true
}

// everywhere reports whether each holder holds all keys, whatever configuration is in
// force.
func (k *keyOrder) everywhere() bool {
	return !k.on || !k.blind && !slices.ContainsFunc(k.confs, func(c conf) bool { return c.setting.cells != nil })
}
