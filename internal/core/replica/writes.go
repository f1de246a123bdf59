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

// promises reports whether a record promises something, so that it has to be durable before
// anything is said; if not, it is news.
func (w *writes) promises(rec *Record) bool {
	w.news = rec.HardState
	if len(rec.Entries) == 0 && rec.Snapshot == nil && !w.noteVote(rec.HardState) {
		return false
	}
	w.news = nil
	return true
}

// noteVote reports whether a hard state differs from the durable one by more than
// its commit index, and notes it.
func (w *writes) noteVote(hard *raftpb.HardState) bool {
	if hard == nil || hard.GetTerm() == w.term && hard.GetVote() == w.vote {
		return false
	}
	w.term, w.vote = hard.GetTerm(), hard.GetVote()
	return true
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

// takeNews takes the news, to be made durable.
func (w *writes) takeNews() *raftpb.HardState {
	news := w.news
	w.news = nil
	return news
}

// takeLate takes the acknowledgment that is late.
func (w *writes) takeLate() *raftpb.Message {
	late := w.late
	w.late = nil
	return late
}

// write turns a MsgStorageAppend into a Persist, or lets its responses go if there
// is nothing that they would have to wait for.
func (r *Replica) write(m *raftpb.Message) {
	rec := Record{Entries: m.GetEntries(), HardState: r.writes.news}
	if m.Commit != nil { // or nothing of a hard state is there
		rec.HardState = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
	}
	if !raft.IsEmptySnap(m.GetSnapshot()) {
		rec.Snapshot = m.GetSnapshot()
		md := rec.Snapshot.GetMetadata()
		r.reads.noteSnapshot(r.moment, &r.effects, md.GetIndex())
		r.last = md.GetIndex()
		r.outcomes = append(r.outcomes, Restore{Index: md.GetIndex(), Term: md.GetTerm()})
	}
	if n := len(rec.Entries); n > 0 {
		r.reads.noteAppended(r.moment, rec.Entries)
		r.last = rec.Entries[n-1].GetIndex()
	}
	switch responses := m.GetResponses(); {
	case r.writes.promises(&rec):
		r.persist(&rec, responses)
		r.reads.receipt(r.moment, &r.effects)
	case r.writes.underWay > 0 && len(responses) > 0:
		r.persist(nil, responses)
	default:
		for _, resp := range responses {
			r.respond(resp)
		}
	}
}

// persist hands out a record, or nothing but the wait for earlier ones, with the
// responses that wait for it.
func (r *Replica) persist(rec *Record, responses []*raftpb.Message) {
	r.writes.underWay++
	then := make([]machine.Envelope, 1, 1+len(responses))
	for _, resp := range responses {
		body := r.reads.attachReport(r.moment, &r.effects, resp)
		then = append(then, machine.Envelope{From: r.cfg.ID, To: machine.NodeID(resp.GetTo()), Body: body})
		if m, ok := body.(reported); ok {
			then = append(then, r.reads.directly(r.moment, m.Report)...)
		}
		r.writes.repeats(resp)
	}
	done := durable{Since: r.now, Term: r.term, Index: r.reads.received}
	p := machine.Persist{Then: then}
	if rec != nil {
		rec.Released = r.reads.unwritten()
		p.Record, done.Record = *rec, *rec
	}
	then[0] = machine.Envelope{From: r.cfg.ID, To: r.cfg.ID, Body: done}
	r.persists = append(r.persists, p)
}

// respond lets a response go at once: all that was handed out is durable.
func (r *Replica) respond(resp *raftpb.Message) {
	switch {
	case machine.NodeID(resp.GetTo()) == r.cfg.ID:
		r.receive(machine.Envelope{From: r.cfg.ID, To: r.cfg.ID, Body: r.reads.attachReport(r.moment, &r.effects, resp)})
	case r.writes.repeats(resp):
		r.writes.late = resp
	default:
		body := r.reads.attachReport(r.moment, &r.effects, resp)
		r.send(machine.NodeID(resp.GetTo()), body)
		if m, ok := body.(reported); ok {
			r.sends = append(r.sends, r.reads.directly(r.moment, m.Report)...)
		}
	}
	r.reads.durable = r.reads.received
}

// onDurable learns that a Persist is durable.
func (r *Replica) onDurable(d durable) {
	r.writes.underWay--
	if snap := d.Record.Snapshot; snap != nil {
		r.tail.restored(snap.GetMetadata())
	}
	r.tail.append(d.Record.Entries)
	r.reads.flushed(r.moment, d)
}

// writeAtOnce makes the news durable, though nothing waits for them: of two members one was
// removed, and may be gone for good, and the other must know that when it restarts.
func (r *Replica) writeAtOnce() {
	if news := r.writes.takeNews(); news != nil {
		r.persist(&Record{HardState: news}, nil)
	}
}

// writeNews writes the news on a tick, though nothing waits for them, so that a restarted
// member soon knows what was committed; and sends what is late.
func (r *Replica) writeNews() {
	news, released := r.writes.takeNews(), r.reads.unwritten()
	if news != nil || released > 0 {
		r.persists = append(r.persists, machine.Persist{Record: Record{HardState: news, Released: released}})
	}
	if late := r.writes.takeLate(); late != nil {
		r.send(machine.NodeID(late.GetTo()), r.reads.attachReport(r.moment, &r.effects, late))
	}
}
