package replica

import (
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// An acknowledgment repeats an earlier one if the same leader was told as much in the same term. One
// that says more makes up for one that is late (D3).
func TestWhatRepeatsAnAcknowledgment(t *testing.T) {
	acks := func(term, to, index uint64) *raftpb.Message {
		return &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: &term, To: &to, Index: &index}
	}
	rejection := acks(5, 1, 9)
	rejection.Reject = new(true)
	other := acks(5, 1, 9)
	other.Type = raftpb.MsgHeartbeatResp.Enum()
	for _, tt := range []struct {
		name    string
		m       *raftpb.Message
		repeats bool
		acked   ack
	}{
		{"as much", acks(5, 1, 10), true, ack{5, 1, 10}},
		{"less", acks(5, 1, 9), true, ack{5, 1, 10}},
		{"more", acks(5, 1, 11), false, ack{5, 1, 11}},
		{"as much in another term", acks(6, 1, 10), false, ack{6, 1, 10}},
		{"less in another term", acks(6, 1, 9), false, ack{6, 1, 9}},
		{"as much to another leader", acks(5, 2, 10), false, ack{5, 2, 10}},
		{"a rejection", rejection, false, ack{5, 1, 10}},
		{"another answer", other, false, ack{5, 1, 10}},
	} {
		late := acks(5, 1, 10)
		w := &writes{acked: ack{5, 1, 10}, late: late}
		if got := w.repeats(tt.m); got != tt.repeats || w.acked != tt.acked {
			t.Errorf("%s repeats what was acknowledged: %v, and then %+v is; want %v, %+v", tt.name, got, w.acked, tt.repeats, tt.acked)
		}
		if news := tt.acked != (ack{5, 1, 10}); (w.late == nil) != news {
			t.Errorf("behind %s the late acknowledgment is still to go: %v", tt.name, w.late != nil)
		}
	}
}

// On a tick, a member writes what it has learnt and sends the acknowledgment that is late, each of them
// once.
func TestWhatATickWrites(t *testing.T) {
	news := &raftpb.HardState{Term: new(uint64(5)), Commit: new(uint64(9))}
	late := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: new(uint64(4)), To: new(uint64(2))}
	for _, tt := range []struct {
		name     string
		news     *raftpb.HardState
		recorded uint64
		late     *raftpb.Message
		record   Record
	}{
		{"nothing", nil, 9, nil, Record{}},
		{"a commit index", news, 9, nil, Record{HardState: news}},
		{"what is released", nil, 8, nil, Record{Released: 9}},
		{"both", news, 8, nil, Record{HardState: news, Released: 9}},
		{"a late acknowledgment", nil, 9, late, Record{}},
		{"all", news, 8, late, Record{HardState: news, Released: 9}},
	} {
		r := keyReader(9)
		r.reads.recorded, r.writes.news, r.writes.late = tt.recorded, tt.news, tt.late
		r.writeNews()
		r.writeNews()
		var writes []machine.Persist
		if !reflect.DeepEqual(tt.record, Record{}) {
			writes = []machine.Persist{{Record: tt.record}}
		}
		var sends []machine.Envelope
		if tt.late != nil {
			sends = []machine.Envelope{{From: 1, To: 2, Body: late}}
		}
		if !reflect.DeepEqual(r.persists, writes) || !reflect.DeepEqual(r.sends, sends) || r.writes.underWay != 0 {
			t.Errorf("with %s, two ticks write %+v, of which %d are waited for, and send %+v; want %+v, none, %+v", tt.name, r.persists, r.writes.underWay, r.sends, writes, sends)
		}
	}
}

// A commit index that was told without a record is written with the next one, unless that has a newer.
func TestNewsAreWrittenWithTheNextRecord(t *testing.T) {
	for _, tt := range []struct {
		name   string
		commit *uint64
		want   uint64
	}{
		{"entries alone", nil, 9},
		{"entries and a newer commit index", new(uint64(10)), 10},
	} {
		r := newStage(t).members[0].r
		r.writes.news, r.persists = &raftpb.HardState{Term: new(uint64(5)), Commit: new(uint64(9))}, nil
		m := &raftpb.Message{Type: raftpb.MsgStorageAppend.Enum(), Entries: []*raftpb.Entry{entryAt(r.last+1, 5, 0)}, Commit: tt.commit}
		if tt.commit != nil {
			m.Term, m.Vote = new(uint64(5)), new(uint64(3))
		}
		r.write(m)
		if len(r.persists) != 1 || len(r.persists[0].Record.(Record).Entries) != 1 {
			t.Fatalf("%s: written as %+v", tt.name, r.persists)
		}
		hard := r.persists[0].Record.(Record).HardState
		if hard.GetCommit() != tt.want || hard.GetTerm() != 5 || hard.GetVote() != m.GetVote() || r.writes.news != nil {
			t.Errorf("with %s, %v is written with them, want commit index %d; %v is left", tt.name, hard, tt.want, r.writes.news)
		}
	}
}

// A snapshot that arrives is written, its owner puts it in the place of the state, and the log ends
// with it.
func TestTheLogEndsWithASnapshot(t *testing.T) {
	r := newStage(t).members[0].r
	r.outcomes, r.persists = nil, nil
	snap := &raftpb.Snapshot{Metadata: snapshotAt(20, 3)}
	r.write(&raftpb.Message{Type: raftpb.MsgStorageAppend.Enum(), Snapshot: snap})
	if r.last != 20 || !reflect.DeepEqual(r.outcomes, []Outcome{Restore{Index: 20, Term: 3}}) {
		t.Errorf("behind a snapshot of entry 20 the log ends at %d, and the owner is told %+v", r.last, r.outcomes)
	}
	if len(r.persists) != 1 || r.persists[0].Record.(Record).Snapshot != snap {
		t.Errorf("a snapshot that arrives is written as %+v", r.persists)
	}
}

// An acknowledgment goes to the leader with a report. In key order the report goes to all others, too.
// It goes at once if everything is durable, else behind the record. A repetition waits for the next
// tick. Messages that go at once tell of nothing that is not durable here.
func TestToWhomAnAcknowledgmentGoes(t *testing.T) {
	ids := func(list ...machine.NodeID) []machine.NodeID { return list }
	for _, tt := range []struct {
		name     string
		keyOrder bool
		writing  bool
		repeats  bool
		want     []machine.NodeID
		late     bool
		durable  uint64
	}{
		{"in strict order", false, false, false, ids(2), false, 12},
		{"in key order", true, false, false, ids(2, 3, 4), false, 12},
		{"again", true, false, true, nil, true, 12},
		{"behind a record in strict order", false, true, false, ids(1, 2), false, 10},
		{"behind a record in key order", true, true, false, ids(1, 2, 3, 4), false, 10},
		{"again, behind a record", true, true, true, ids(1, 2, 3, 4), false, 10},
	} {
		r := keyReader(9)
		r.leader, r.term = 2, 5
		rl := &r.reads
		rl.count(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}, Learners: []machine.NodeID{4}}})
		rl.received, rl.durable, rl.reported = 11, 10, lastReport{}
		if !tt.keyOrder {
			rl.keys.stop()
		}
		if tt.repeats {
			r.writes.acked = ack{5, 2, 12}
		}
		if tt.writing {
			r.writes.underWay = 1
		}
		if tt.repeats && !tt.writing {
			rl.received = 12
		}
		m := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: new(uint64(5)), To: new(uint64(2)), Index: new(uint64(12))}
		r.write(&raftpb.Message{Type: raftpb.MsgStorageAppend.Enum(), Responses: []*raftpb.Message{m}})
		sends := r.sends
		if tt.writing {
			if len(r.sends) > 0 || len(r.persists) != 1 || r.persists[0].Record != nil {
				t.Errorf("%s: %+v is sent before a record that is being written, and %+v is written", tt.name, r.sends, r.persists)
				continue
			}
			sends = r.persists[0].Then
		}
		var to []machine.NodeID
		for _, env := range sends {
			to = append(to, env.To)
			switch body := env.Body.(type) {
			case reported:
				if env.To != 2 || body.Message != m || body.Report.Durable != 12 {
					t.Errorf("%s: member %d is sent the acknowledgment with %+v", tt.name, env.To, body.Report)
				}
			case quorumlease.Report:
				if env.To == 2 || body.Durable != 12 || body.Received != 12 {
					t.Errorf("%s: member %d is sent the report %+v", tt.name, env.To, body)
				}
			case durable:
			default:
				t.Errorf("%s: member %d is sent %+v", tt.name, env.To, body)
			}
		}
		if !reflect.DeepEqual(to, tt.want) || (r.writes.late == m) != tt.late || rl.durable != tt.durable {
			t.Errorf("%s: an acknowledgment goes to %d, waits for a tick: %v, and the log is durable up to %d; want %d, %v, %d", tt.name, to, r.writes.late == m, rl.durable, tt.want, tt.late, tt.durable)
		}
	}
}

// A vote is made durable once: the same term and vote promise nothing that is not on its way.
func TestAVoteIsWrittenOnce(t *testing.T) {
	var w writes
	vote := func(term, vote, commit uint64) *raftpb.HardState {
		return &raftpb.HardState{Term: &term, Vote: &vote, Commit: &commit}
	}
	for _, tt := range []struct {
		hard     *raftpb.HardState
		promises bool
	}{{vote(5, 0, 1), true}, {vote(5, 0, 2), false}, {vote(5, 2, 2), true}, {vote(5, 2, 3), false}, {vote(6, 2, 3), true}, {nil, false}} {
		if got := w.promises(&Record{HardState: tt.hard}); got != tt.promises {
			t.Errorf("the hard state %v promises something new: %v, want %v", tt.hard, got, tt.promises)
		}
	}
}

// Only a report for the leader goes to the other members as well. What is no acknowledgment to it has none.
func TestOnlyReportsGoToAll(t *testing.T) {
	r := keyReader(9)
	r.leader, r.term = 2, 5
	r.reads.electorate.follow(quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}})
	for typ, want := range map[raftpb.MessageType]int{raftpb.MsgVoteResp: 2, raftpb.MsgAppResp: 3} {
		r.persists, r.writes = nil, writes{}
		r.persist(&Record{}, []*raftpb.Message{{Type: typ.Enum(), From: new(uint64(1)), To: new(uint64(2)), Term: new(uint64(5)), Index: new(uint64(9))}})
		if got := r.persists[0].Then; len(got) != want {
			t.Errorf("with a %v to the leader, %d messages wait for the disk, want %d: %+v", typ, len(got), want, got)
		}
	}
}
