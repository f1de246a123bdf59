package replica

import (
	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// writes decides what has to be durable before what is said. An fsync is dear and
// raft asks for one more often than its promises need: a new commit index alone is
// news, not a promise, and may be lost in a crash.
type writes struct {
	term, vote uint64            // as last handed out to be made durable
	news       *raftpb.HardState // differs from that by its commit index only; nil for none
	underWay   int               // persists that are not durable yet

	// late is an acknowledgment that tells the leader nothing new. It goes with the
	// next tick, unless something that does tell goes before: the leader need not
	// wake up for each commit index that it announces.
	late  *raftpb.Message
	acked ack
}

// ack is what this member last told a leader that its log holds.
type ack struct{ term, leader, index uint64 }

func (w *writes) init(hard *raftpb.HardState) { w.term, w.vote = hard.GetTerm(), hard.GetVote() }

// take turns a MsgStorageAppend into a Persist, or lets its responses go if there
// is nothing that they would have to wait for.
func (w *writes) take(r *Replica, m *raftpb.Message) {
	rec := Record{Entries: m.GetEntries(), HardState: w.news}
	if m.Term != nil && m.Commit != nil {
		rec.HardState = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
	}
	if !raft.IsEmptySnap(m.GetSnapshot()) {
		rec.Snapshot = m.GetSnapshot()
		md := rec.Snapshot.GetMetadata()
		r.reads.replaces(r, md.GetIndex())
		r.last = md.GetIndex()
		r.outcomes = append(r.outcomes, Restore{Index: md.GetIndex(), Term: md.GetTerm()})
	}
	if n := len(rec.Entries); n > 0 {
		r.reads.appends(r, rec.Entries)
		r.last = rec.Entries[n-1].GetIndex()
	}
	w.news = rec.HardState
	promise := len(rec.Entries) > 0 || rec.Snapshot != nil || w.promises(rec.HardState)
	switch {
	case promise:
		w.news = nil
		w.wait(r, &rec, m.GetResponses())
		r.reads.receipt(r)
	case w.underWay > 0 && len(m.GetResponses()) > 0:
		w.wait(r, nil, m.GetResponses())
	default:
		for _, resp := range m.GetResponses() {
			w.respond(r, resp)
		}
	}
}

// promises reports whether a hard state differs from the durable one by more than
// its commit index, and notes it.
func (w *writes) promises(hard *raftpb.HardState) bool {
	if hard == nil || hard.GetTerm() == w.term && hard.GetVote() == w.vote {
		return false
	}
	w.term, w.vote = hard.GetTerm(), hard.GetVote()
	return true
}

// wait hands out a record, or nothing but the wait for earlier ones, with the
// responses that wait for it.
func (w *writes) wait(r *Replica, rec *Record, responses []*raftpb.Message) {
	w.underWay++
	then := make([]machine.Envelope, 1, 1+len(responses))
	for _, resp := range responses {
		body := r.reads.acknowledges(r, resp)
		then = append(then, machine.Envelope{From: r.cfg.ID, To: machine.NodeID(resp.GetTo()), Body: body})
		if m, ok := body.(reported); ok {
			then = append(then, r.reads.directly(r, m.Report)...)
		}
		w.repeats(resp)
	}
	if rec != nil {
		rec.Released = r.reads.unwritten()
	}
	done := durable{Since: r.now, Term: r.term, Index: r.reads.received}
	p := machine.Persist{Then: then}
	if rec != nil {
		p.Record, done.Record = *rec, *rec
	}
	then[0] = machine.Envelope{From: r.cfg.ID, To: r.cfg.ID, Body: done}
	r.persists = append(r.persists, p)
}

// respond lets a response go at once: all that was handed out is durable.
func (w *writes) respond(r *Replica, resp *raftpb.Message) {
	switch {
	case machine.NodeID(resp.GetTo()) == r.cfg.ID:
		r.receive(machine.Envelope{From: r.cfg.ID, To: r.cfg.ID, Body: r.reads.acknowledges(r, resp)})
	case w.repeats(resp):
		w.late = resp
	default:
		body := r.reads.acknowledges(r, resp)
		r.send(machine.NodeID(resp.GetTo()), body)
		if m, ok := body.(reported); ok {
			r.sends = append(r.sends, r.reads.directly(r, m.Report)...)
		}
	}
	r.reads.durable = r.reads.received
}

// repeats reports whether a response is an acknowledgment that the leader has had
// before. If not, it makes up for one that is late.
func (w *writes) repeats(resp *raftpb.Message) bool {
	a := ack{resp.GetTerm(), resp.GetTo(), resp.GetIndex()}
	if resp.GetType() != raftpb.MsgAppResp || resp.GetReject() {
		return false
	}
	if a.term == w.acked.term && a.leader == w.acked.leader && a.index <= w.acked.index {
		return true
	}
	w.acked, w.late = a, nil
	return false
}

// durable learns that a Persist is durable.
func (w *writes) durable(r *Replica, d durable) {
	w.underWay--
	if snap := d.Record.Snapshot; snap != nil {
		r.tail.restored(snap.GetMetadata())
	}
	r.tail.append(d.Record.Entries)
	r.reads.flushed(r, d)
}

// atOnce makes the news durable, though nothing waits for them: of two members one was
// removed, and may be gone for good, and the other must know that when it restarts.
func (w *writes) atOnce(r *Replica) {
	if w.news != nil {
		rec := Record{HardState: w.news}
		w.news = nil
		w.wait(r, &rec, nil)
	}
}

// onTick writes the news, though nothing waits for them, so that a restarted
// member soon knows what was committed; and sends what is late.
func (w *writes) onTick(r *Replica) {
	if released := r.reads.unwritten(); w.news != nil || released > 0 {
		r.persists = append(r.persists, machine.Persist{Record: Record{HardState: w.news, Released: released}})
		w.news = nil
	}
	if w.late != nil {
		r.send(machine.NodeID(w.late.GetTo()), r.reads.acknowledges(r, w.late))
		w.late = nil
	}
}
