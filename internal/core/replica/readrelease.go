package replica

import (
	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// noteAppended takes entries that are being appended, over those that they replace. Of a
// leader's own the last index tells already.
func (rl *readLeases) noteAppended(at moment, entries []*raftpb.Entry) {
	if from := entries[0].GetIndex(); from <= at.last {
		rl.promises.Shortened(from - 1)
		rl.order().truncated(from, at.last)
		rl.cut(from)
		rl.count(rl.memberships.Cut(from))
	}
	rl.add(entries)
	rl.look(entries)
	order := rl.order()
	for _, e := range entries {
		a := order.appended(e)
		if a.touch != nil && at.leading() && e.GetTerm() == at.term {
			rl.wrote(e, a.from, a.touch)
			if a.kept && a.from == at.cfg.ID {
				rl.keys.noteKept(a.from, e.GetIndex(), a.touch)
			}
		}
	}
}

// wrote counts what an entry of a member's writes: each of its requests by itself, for those
// that share an entry need not have anything to do with each other.
func (rl *readLeases) wrote(e *raftpb.Entry, from machine.NodeID, touch *Touch) {
	switch t := &rl.keys.scratch; {
	case rl.plans.counter == nil:
	case touch.resolved:
		rl.plans.wrote(from, touch.Keys.Writes)
	default:
		glance(e, func(body []byte) {
			if t.scanRequest(body) {
				rl.plans.wrote(from, t.Keys.Writes)
			}
		})
	}
}

// keepsToItself reports whether this leader keeps a batch of its own to itself, in key order: then
// its readers need not wait for it, and those of other holders wait longer. So it keeps
// what is read here, once all members can read that it does.
func (rl *readLeases) keepsToItself(at moment, known levels, data []byte) bool {
	if !rl.keys.on || !at.leading() || at.cfg.Older || !known.all(rl.everyone, at.cfg.ID, keepsLevel) {
		return false
	}
	writes, may := rl.keys.mayKeep(at.cfg.ID, at.term, data)
	return may && rl.plans.readHere(writes)
}

// look notes the entries that change the holders of keys, or the members.
func (rl *readLeases) look(entries []*raftpb.Entry) {
	for _, e := range entries {
		if setsReads(e) {
			rl.settings = append(rl.settings, e.GetIndex())
		}
		if !changes(e) {
			continue
		}
		if cc, err := changeOf(e); err == nil {
			rl.count(rl.memberships.With(next(rl.memberships.Newest(), e.GetIndex(), cc)))
		}
	}
}

// noteCommitted takes entries that raft has committed.
func (rl *readLeases) noteCommitted(now machine.Mono, entries []*raftpb.Entry) {
	rl.held = append(rl.held, entries...)
	// Raft hands out what is durable here, and no leader of this term or a later one
	// lacks it. A report must say so even if nothing is left to be acknowledged.
	last := entries[len(entries)-1].GetIndex()
	rl.waits.committed(last, now)
	rl.received, rl.durable = max(rl.received, last), max(rl.durable, last)
}

// noteSnapshot tells that a snapshot takes the place of the log up to index. Entries that were
// committed before go to the Applier before it. The snapshot says how much of that is
// visible.
func (rl *readLeases) noteSnapshot(at moment, eff *effects, index uint64) {
	rl.handOut(eff, index, true)
	rl.handedOut = index
	rl.count(rl.memberships.Cut(rl.committed + 1)) // of what was never committed
	if index < at.last {
		rl.promises.Shortened(index)
	}
	rl.tail, rl.settings, rl.loading = nil, nil, index
	if rl.keys.on {
		rl.keys.start(index, 0, rl.setting, nil)
		rl.keys.loading, rl.keys.blind = true, true
	}
}

// restored tells what the Applier's state holds after a snapshot, and up to where that is
// released (R16).
func (rl *readLeases) restored(at moment, eff *effects, in Restored) {
	if in.Index < rl.loading {
		return // another has replaced it meanwhile
	}
	rl.set(at, readSetting{in.ReadPolicy, in.ReadCells})
	rl.loading = 0
	if rl.keys.loading {
		rl.keys.stop()
	}
	rl.released = max(rl.released, in.Released)
	rl.appliedThrough(in.Index)
	rl.keys.leaseKeys = in.LeaseKeys
	rl.settings = nil
	rl.count(in.Roster.Memberships)
	rl.look(rl.tail)
	rl.keys.told = in.Released // by which the owner goes
	if rl.setting.policy.ByKey() || rl.released < in.Index {
		rl.keys.start(in.Index, rl.releasedHere(), rl.setting, rl.tail)
	} else if rl.released > in.Released {
		eff.outcomes = append(eff.outcomes, Released{Through: rl.released})
	}
}

// appliedThrough notes up to where the Applier has applied.
func (rl *readLeases) appliedThrough(index uint64) {
	rl.applied = index
	rl.forget(index)
}

// onApplied learns what the Applier has applied: another setting, maybe.
func (rl *readLeases) onApplied(at moment, in Applied) {
	rl.set(at, readSetting{in.ReadPolicy, in.ReadCells})
	rl.appliedThrough(in.Index)
	if rl.loading != 0 {
		return // this is of before the snapshot, and tells nothing of what that holds
	}
	k := &rl.keys
	k.leaseKeys = in.LeaseKeys
	switch byKey := rl.setting.policy.ByKey(); {
	case byKey && !k.on: // all that was applied is released
		k.start(in.Index, in.Index, rl.setting, rl.tail)
	case !byKey && k.on && k.through >= rl.handedOut:
		k.stop()
	}
	if k.on {
		k.log.forget(in.Index)
	}
}

// release finds out what is released by now, and lets it be applied and seen.
func (rl *readLeases) release(at moment, eff *effects, node *raft.RawNode) {
	st := node.BasicStatus()
	// A leader that is being deposed in this turn has another's commit index already.
	// A leader that loads a snapshot does not know the members.
	judges := at.leading() && st.RaftState == raft.StateLeader && st.HardState.GetTerm() == rl.ledger.Term() && rl.loading == 0
	if judges {
		rl.committed = st.HardState.GetCommit()
		if released := rl.ledger.Release(rl.committed); released > rl.released {
			rl.released = released
			rl.version++
		}
	}
	defer rl.settle(at, eff)
	defer func() { rl.waits.released(rl.releasedHere()) }()
	k, order := &rl.keys, rl.order()
	upTo, held := order.committed(rl.positions, !rl.setting.policy.ByKey())
	rl.handOut(eff, upTo, held)
	by := reports{}
	switch {
	case judges:
		rl.far = rl.far || k.on
		by.ledger = &rl.ledger
	case rl.canForesee(at, st.Lead):
		by = reports{&rl.ledger, keeper{at.leader, at.term}}
	}
	if out, ok := order.reported(rl.positions, by); ok {
		rl.version++
		eff.outcomes = append(eff.outcomes, out)
	}
	if len(k.reads) > 0 {
		for _, ready := range order.mayRead(rl.reading(at, node)) {
			eff.outcomes = append(eff.outcomes, ready)
		}
	}
	if k.on && !rl.setting.policy.ByKey() && k.through >= rl.handedOut && rl.applied >= rl.handedOut {
		k.stop() // nothing is held any more
	}
}

// reading returns what reads of keys are judged by at this moment.
func (rl *readLeases) reading(at moment, node *raft.RawNode) reading {
	_, leads := rl.assured(at, node)
	return reading{
		positions: rl.positions, self: at.cfg.ID, now: at.now, until: rl.until(at), patience: at.cfg.patience(),
		leads: leads, unsettled: rl.unsettled(), last: at.last,
	}
}

// releasedHere returns up to where the log that is here is known to be released. The leader
// may have told of more (rl.released), and what is not committed here it may replace.
func (rl *readLeases) releasedHere() uint64 { return rl.order().releasedHere(rl.positions) }

// unwritten returns up to where the log is released, if the disk does not know yet, and
// zero otherwise. It says nothing of entries that are not in the log.
func (rl *readLeases) unwritten() uint64 {
	released := rl.releasedHere()
	if released <= rl.recorded {
		return 0
	}
	rl.recorded = released
	return released
}

// handOut gives committed entries up to an index to the Applier, to be seen at once or
// not.
func (rl *readLeases) handOut(eff *effects, upTo uint64, held bool) {
	if entries := rl.take(upTo); len(entries) > 0 {
		rl.handedOut = entries[len(entries)-1].GetIndex()
		eff.outcomes = append(eff.outcomes, Committed{Entries: entries, Held: held})
	}
}

// accounted reports whether the whole log was taken into account, what was appended in
// this turn included.
func (rl *readLeases) accounted(end uint64) bool {
	last := rl.applied
	if n := len(rl.tail); n > 0 {
		last = rl.tail[n-1].GetIndex()
	}
	return last == end
}

// publish tells what readers here have to look at. It is an outcome of the turn in
// which the log grew, before any acknowledgment of that leaves (R8).
func (rl *readLeases) publish(at moment, eff *effects, node *raft.RawNode) {
	now := ReadLease{}
	if !rl.keys.on && !rl.unsettled() { // else each read has to be asked for
		now.Until = rl.until(at)
	}
	if now.Until > 0 {
		now.Index = at.last
		if index, ok := rl.assured(at, node); ok {
			now.Index = rl.bound(at, index).all()
		}
	}
	if now != rl.shown {
		rl.shown = now
		eff.outcomes = append(eff.outcomes, now)
	}
	keys, ok := KeyLease{}, false
	if rl.keys.on {
		keys, ok = rl.keyLease(at)
	}
	if ok != (rl.shownKeys != nil) || ok && !keys.same(rl.shownKeys) {
		rl.shownKeys = nil
		if ok {
			shown := keys
			rl.shownKeys = &shown
		}
		eff.outcomes = append(eff.outcomes, rl.shownKeys)
	}
}
