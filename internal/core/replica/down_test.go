package replica

import (
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/raft/v3/raftpb"
)

// The death of a process counts for the leader that raft knows. If a heartbeat arrives in the same
// turn, that is not the leader that was last reported.
func TestDownComesWithAHeartbeat(t *testing.T) {
	for _, tt := range []struct {
		name         string
		from, dead   machine.NodeID
		fresh        bool           // the member has yet to hear of a leader
		downFirst    bool           // before the heartbeat
		want         machine.NodeID // leader, after the turn
		wantCampaign bool
	}{
		{"first heartbeat of the dead", 1, 1, true, false, 0, true},
		{"first heartbeat of another", 3, 1, false, false, 3, false},
		{"heartbeat after a mistake", 1, 1, false, true, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			s.do("elect 1")
			m := s.members[1]
			term, from := m.r.Status().Term, uint64(tt.from)
			if tt.fresh {
				s.boot(m)
			}
			if tt.from != 1 {
				term++
			}
			inputs := []any{machine.Envelope{From: tt.from, To: m.id, Body: &raftpb.Message{
				Type: raftpb.MsgHeartbeat.Enum(), From: &from, To: new(uint64(m.id)), Term: &term,
			}}, Down{Node: tt.dead}}
			if tt.downFirst {
				slices.Reverse(inputs)
			}
			for _, in := range inputs {
				labstage.Feed(m.r, machine.Now{Mono: s.now}, in)
			}
			rd := m.r.Ready()
			if got := m.r.Status().Leader; got != tt.want {
				t.Errorf("the leader is %d, want %d", got, tt.want)
			}
			if got := rd.Alarm < s.now.Add(50*time.Millisecond); got != tt.wantCampaign {
				t.Errorf("the next alarm is in %v, before a tick is %v", rd.Alarm.Sub(s.now), got)
			}
		})
	}
}

// After the leader's death the others campaign one after another. Each waits for the outcome before it
// tries again, twice as long each time. A new campaign would end the one before, whose votes may still
// be in transit.
func TestCampaignsWaitForTheirOutcome(t *testing.T) {
	for id, turn := range map[int]time.Duration{2: 0, 3: 50 * time.Millisecond} {
		s := newStage(t)
		s.do("elect 1")
		m := s.members[id-1]
		r, tick := m.r, m.r.cfg.Tick
		again := turn // of all three voters this member is one later
		if id == 2 {
			again = tick / 2
		} else {
			again = tick
		}
		for range 2 { // a later death is waited for no longer
			r.Step(machine.Now{Mono: s.now}, Down{Node: 1})
			rd := r.Ready()
			for wait := tick/10 + turn; wait < 10*tick; {
				if got := r.campaignAt.Sub(s.now); !r.bereaved || got != wait || rd.Alarm > r.campaignAt {
					t.Fatalf("member %d campaigns in %v, if nobody leads %v, and is woken in %v; want %v", id, got, r.bereaved, rd.Alarm.Sub(s.now), wait)
				}
				term := r.raft.BasicStatus().HardState.GetTerm()
				s.now = r.campaignAt
				r.Wake(machine.Now{Mono: s.now})
				rd = r.Ready()
				asks := false
				for _, env := range rd.Sends {
					msg, ok := env.Body.(*raftpb.Message)
					asks = asks || ok && msg.GetType() == raftpb.MsgPreVote && msg.GetTerm() == term+1
				}
				if !asks {
					t.Fatalf("member %d asks for no votes when it is to campaign: %v", id, rd.Sends)
				}
				if wait == tick/10+turn {
					wait = 2*tick + again
				} else {
					wait = 2*(wait-again) + again
				}
			}
			term, from := r.raft.BasicStatus().HardState.GetTerm(), uint64(1)
			s.told(m, 1, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: &from, Term: &term})
			if r.bereaved {
				t.Errorf("member %d takes the leader for dead, which is heard of", id)
			}
		}
	}
}

// A follower may find out by itself which entries are committed. If its leader's death is reported in
// the same turn, that must not make raft follow the dead leader again. Otherwise it would wait for an
// election timeout.
func TestDownInTheTurnOfForesight(t *testing.T) {
	s := newStageOf(t, ReadLeases{Policy: "all/key", TTL: 200 * time.Millisecond})
	s.do("elect 1")
	s.do("pass 2s")
	f := s.members[1]
	if !f.r.reads.canForesee(f.r.moment, f.r.raft.BasicStatus().Lead) {
		t.Fatal("it foresees nothing: the test shows nothing")
	}
	s.do("put 1 k v")
	now := machine.Now{Mono: s.now}
	var own []machine.Envelope
	for _, env := range s.wire {
		if env.To != f.id {
			continue
		}
		f.r.Receive(now, env)
		rd := f.r.Ready()
		for _, p := range rd.Persists {
			s.write(f, p.Record.(Record))
			own = append(own, p.Then...)
		}
	}
	before := f.r.raft.BasicStatus().HardState.GetCommit()
	for _, env := range own {
		if env.To == f.id {
			f.r.Receive(now, env)
		}
	}
	control := *f.r // not stepped any further; only what foresight would say is asked of it
	if index := min(control.reads.ledger.Acknowledged(control.reads.received), control.last); index <= before {
		t.Fatalf("nothing is to be foreseen: %d is acknowledged, %d committed", index, before)
	}
	f.r.Step(now, Down{Node: 1})
	f.r.Ready()
	if lead := f.r.raft.BasicStatus().Lead; lead != 0 || !f.r.bereaved {
		t.Errorf("the dead leader %d leads again, and nobody campaigns before the election timeout", lead)
	}
}

// A vote binds its member for good. So it is durable before it is sent, even in a term that the member
// knew before.
func TestAVoteInAKnownTermIsDurableFirst(t *testing.T) {
	s := newStage(t)
	m := s.members[1]
	term, from, to := m.r.raft.BasicStatus().HardState.GetTerm(), uint64(3), uint64(2)
	m.r.Receive(machine.Now{Mono: s.now}, machine.Envelope{From: 3, To: 2, Body: &raftpb.Message{
		Type: raftpb.MsgVote.Enum(), From: &from, To: &to, Term: &term, Index: new(m.r.last + 1), LogTerm: &term,
	}})
	rd := m.r.Ready()
	if hard := m.r.raft.BasicStatus().HardState; hard.GetVote() != 3 || hard.GetTerm() != term {
		t.Fatalf("no vote in the known term %d: %v", term, hard)
	}
	for _, env := range rd.Sends {
		if msg, ok := env.Body.(*raftpb.Message); ok && msg.GetType() == raftpb.MsgVoteResp {
			t.Error("the vote is told before it is durable")
		}
	}
	written := false
	for _, p := range rd.Persists {
		rec := p.Record.(Record)
		written = written || rec.HardState.GetVote() == 3 && len(p.Then) > 0
	}
	if !written {
		t.Error("the vote is not written, or nothing waits for it")
	}
}
