package replica

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
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
func (rl *readLeases) report(r *Replica, durable uint64) quorumlease.Report {
	report := rl.says(r, durable)
	rl.reported = lastReport{report.Holders, report.Everyone, rl.promises.Due(r.now)}
	return report
}

func (rl *readLeases) says(r *Replica, durable uint64) quorumlease.Report {
	holders, everyone := rl.promises.Holders(r.now)
	return quorumlease.Report{
		Boot: r.cfg.Boot, Term: r.term, Durable: durable, Received: rl.received,
		Holders: holders, Everyone: everyone,
	}
}

// tell reports to the leader, without an acknowledgment to go with.
func (rl *readLeases) tell(r *Replica) {
	report := rl.report(r, rl.durable)
	rl.ledger.Report(r.cfg.ID, report)
	if r.leader != 0 && !r.leading() {
		r.send(r.leader, report)
	}
	r.sends = append(r.sends, rl.directly(r, report)...)
}

// directly addresses a report to all who may wait for what it tells, beside the
// leader: in key order, where members may be far apart, whoever proposed an entry finds
// out by itself that it is released, one message before the leader could tell (R30).
func (rl *readLeases) directly(r *Replica, report quorumlease.Report) (list []machine.Envelope) {
	if !rl.keys.on {
		return nil
	}
	for _, m := range rl.everyone {
		if m != r.cfg.ID && m != r.leader {
			list = append(list, machine.Envelope{From: r.cfg.ID, To: m, Body: report})
		}
	}
	return list
}

// foresee moves raft's commit index to what the reports of this term say, ahead of the
// leader's word: a majority has it, up to an entry of the term (R30).
func (rl *readLeases) foresee(r *Replica) {
	if !rl.foresees(r) {
		return
	}
	index := min(rl.ledger.Acknowledged(rl.received), r.last)
	n, found := rl.search(index)
	if index <= rl.committed || !found || rl.tail[n].GetTerm() != r.term {
		return
	}
	from, to, term := uint64(r.leader), uint64(r.cfg.ID), r.term
	_ = r.raft.Step(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: &from, To: &to, Term: &term, Commit: &index})
}

// foresees reports whether this follower may find out for itself what is released: its
// leader must know that followers do, for what it tells readers (behind). Raft must follow
// that leader still: it may have forgotten it in this turn, for it died (onDown), and what
// is foreseen comes to raft as a heartbeat, by which it would follow the dead one again.
func (rl *readLeases) foresees(r *Replica) bool {
	return rl.keys.on && rl.loading == 0 && r.leader != 0 && !r.leading() && r.raft.BasicStatus().Lead == uint64(r.leader) && rl.ledger.Term() == r.term &&
		rl.keys.news.Term == r.term && rl.keys.news.Horizon > 0
}

// touched is the index that readers of some keys have to wait for, given what this
// leader has committed: nobody can have released more of these keys than is in its log.
func (rl *readLeases) touched(r *Replica, keys keyspan.Set, index uint64) uint64 {
	if !rl.far || !rl.keys.on {
		return rl.behind(r, index)
	}
	table := rl.keys.log.Keys()
	return max(table.LastTouch(keys), table.Floor())
}

// behind is the index that readers have to wait for at this leader, given what it has
// committed. Others may have found more of its log to be released than it knows of
// if they were in key order at any time in its reign.
func (rl *readLeases) behind(r *Replica, index uint64) uint64 {
	if rl.far && r.leading() {
		return max(index, r.last)
	}
	return index
}

// acknowledges adds a report to a response that says how far this member's log is
// the leader's. The response leaves when that is durable.
func (rl *readLeases) acknowledges(r *Replica, resp *raftpb.Message) any {
	if resp.GetType() != raftpb.MsgAppResp || resp.GetReject() || resp.GetTerm() != r.term || machine.NodeID(resp.GetTo()) != r.leader {
		return resp
	}
	if !r.cfg.Older {
		resp.Context = levelContext
	}
	rl.received = max(rl.received, resp.GetIndex())
	if r.leading() {
		// As a holder it has what others wait for, flushed or not (R31).
		rl.tell(r)
	}
	return reported{Message: resp, Report: rl.report(r, resp.GetIndex())}
}

// flushed tells that the log is durable up to where a term's leader vouched for it.
func (rl *readLeases) flushed(r *Replica, d durable) {
	if d.Term == r.term {
		rl.durable = max(rl.durable, d.Index)
		if rl.keys.on {
			rl.ledger.Report(r.cfg.ID, rl.says(r, rl.durable))
		}
	}
	if len(d.Record.Entries) > 0 {
		rl.flush += (r.now.Sub(d.Since) - rl.flush) / 8
	}
}

// slowFlush is from when on a holder sends a receipt before it has flushed: a write
// that waits for it would wait for its disk, too (R31).
const slowFlush = 2 * time.Millisecond

// receipt tells the leader at once what arrived, if this member holds a lease and its
// disk is slow. A leader that holds one tells itself.
func (rl *readLeases) receipt(r *Replica) {
	if rl.flush > slowFlush && rl.until(r) > r.now {
		rl.tell(r)
	}
}

// onTick makes up for what was lost on the way.
func (rl *readLeases) onTick(r *Replica) {
	if len(rl.held) > 0 || rl.order().unseenBy(rl.positions) {
		rl.tell(r)
	}
}
