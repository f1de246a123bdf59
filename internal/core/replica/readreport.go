package replica

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// lastReport is what the leader was told of this member's promises.
type lastReport struct {
	holders  []quorumlease.Lifetime
	everyone bool
	lapse    machine.Mono // when one of them runs out, unless renewed
}

// report says what this member has and to whom it is bound. It is true from now on:
// what is promised later is stamped with what is reported now (R3).
func (rl *readLeases) report(at moment, durable uint64) quorumlease.Report {
	report := rl.currentReport(at, durable)
	rl.reported = lastReport{report.Holders, report.Everyone, rl.promises.Due(at.now)}
	return report
}

func (rl *readLeases) currentReport(at moment, durable uint64) quorumlease.Report {
	holders, everyone := rl.promises.Holders(at.now)
	return quorumlease.Report{
		Boot: at.cfg.Boot, Term: at.term, Durable: durable, Received: rl.received,
		Holders: holders, Everyone: everyone,
	}
}

// tell reports to the leader, without an acknowledgment to go with.
func (rl *readLeases) tell(at moment, eff *effects) {
	report := rl.report(at, rl.durable)
	rl.ledger.Report(at.cfg.ID, report)
	if at.leader != 0 && !at.leading() {
		eff.send(at.leader, report)
	}
	eff.sends = append(eff.sends, rl.directly(at, report)...)
}

// directly addresses a report to all members that may wait for it, beside the leader. In key
// order, where members may be far apart, the member that proposed an entry finds out by itself
// that it is released, one message before the leader could tell (R30).
func (rl *readLeases) directly(at moment, report quorumlease.Report) (list []machine.Envelope) {
	if !rl.keys.on {
		return nil
	}
	for _, m := range rl.everyone {
		if m != at.cfg.ID && m != at.leader {
			list = append(list, machine.Envelope{From: at.cfg.ID, To: m, Body: report})
		}
	}
	return list
}

// foresee returns what moves raft's commit index to what the reports of this term say, ahead of
// the leader's word: a majority has it, up to an entry of the term (R30). Nil is nothing.
func (rl *readLeases) foresee(at moment, node *raft.RawNode) *raftpb.Message {
	if !rl.keys.on || !rl.canForesee(at, node.BasicStatus().Lead) {
		return nil
	}
	index := min(rl.ledger.Acknowledged(rl.received), at.last)
	n, found := rl.search(index)
	if index <= rl.committed || !found || rl.tail[n].GetTerm() != at.term {
		return nil
	}
	from, to, term := uint64(at.leader), uint64(at.cfg.ID), at.term
	return &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: &from, To: &to, Term: &term, Commit: &index}
}

// canForesee reports whether this follower may find out for itself what is released: its
// leader must know that followers do, for what it tells readers (behind). Raft must follow
// that leader still. It may have forgotten the leader in this turn, for the leader died
// (onDown). A foreseen commit comes to raft as a heartbeat, and by that raft would follow
// the dead leader again.
func (rl *readLeases) canForesee(at moment, lead uint64) bool {
	return rl.keys.on && rl.loading == 0 && at.leader != 0 && !at.leading() && lead == uint64(at.leader) && rl.ledger.Term() == at.term &&
		rl.keys.news.Term == at.term && rl.keys.news.Horizon > 0
}

// readBound is up to where readers have to wait at this member, given what it has committed.
type readBound struct {
	index, committed uint64
	// last is the end of the log, if others may have found more of it to be released than this
	// leader knows of. They may if they were in key order at any time in its leadership.
	last uint64
	// touched is, then, which keys the log touches; nil if that is not known.
	touched *keyspan.Table
}

// bound returns up to where readers have to wait, given that the log is committed up to an index.
func (rl *readLeases) bound(at moment, index uint64) readBound {
	b := readBound{index: index, committed: rl.committed}
	if rl.far && at.leading() {
		b.last = at.last
	}
	if rl.far && rl.keys.on {
		b.touched = rl.keys.log.Keys()
	}
	return b
}

// all returns the index that readers of any keys have to wait for.
func (b readBound) all() uint64 { return max(b.index, b.last) }

// of returns the index that readers of some keys have to wait for: no member can have released
// more of these keys than is in this leader's log.
func (b readBound) of(keys keyspan.Set) uint64 {
	if b.touched == nil {
		return b.all()
	}
	return max(b.touched.LastTouch(keys), b.touched.Floor())
}

// attachReport adds a report to a response that says how far this member's log is
// the leader's. The response leaves when that is durable.
func (rl *readLeases) attachReport(at moment, eff *effects, resp *raftpb.Message) any {
	if resp.GetType() != raftpb.MsgAppResp || resp.GetReject() || resp.GetTerm() != at.term || machine.NodeID(resp.GetTo()) != at.leader {
		return resp
	}
	if !at.cfg.Older {
		resp.Context = levelContext
	}
	rl.received = max(rl.received, resp.GetIndex())
	if at.leading() {
		// As a holder it has what others wait for, flushed or not (R31).
		rl.tell(at, eff)
	}
	return reported{Message: resp, Report: rl.report(at, resp.GetIndex())}
}

// flushed tells that the log is durable up to where a term's leader vouched for it.
func (rl *readLeases) flushed(at moment, d durable) {
	if d.Term == at.term {
		rl.durable = max(rl.durable, d.Index)
		if rl.keys.on {
			rl.ledger.Report(at.cfg.ID, rl.currentReport(at, rl.durable))
		}
	}
	if len(d.Record.Entries) > 0 {
		rl.flush += (at.now.Sub(d.Since) - rl.flush) / 8
	}
}

// slowFlush is from when on a holder sends a receipt before it has flushed: a write
// that waits for it would wait for its disk, too (R31).
const slowFlush = 2 * time.Millisecond

// receipt tells the leader at once what arrived, if this member holds a lease and its
// disk is slow. A leader that holds one tells itself.
func (rl *readLeases) receipt(at moment, eff *effects) {
	if rl.flush > slowFlush && rl.until(at) > at.now {
		rl.tell(at, eff)
	}
}

// onTick makes up for what was lost on the way.
func (rl *readLeases) onTick(at moment, eff *effects) {
	if len(rl.held) > 0 || rl.order().hidesSome(rl.positions) {
		rl.tell(at, eff)
	}
}
