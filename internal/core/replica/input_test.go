package replica

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// Each input comes to the part that it is for, as it is.
func TestWhereInputsGo(t *testing.T) {
	cells := &placement.Configuration{}
	plan := new(Plan)
	for _, tt := range []struct {
		input     Input
		got, want func(r *Replica) any
	}{
		{Propose{ID: 4, Body: []byte("p")},
			func(r *Replica) any { return r.proposals.come },
			func(*Replica) any { return []Propose{{ID: 4, Body: []byte("p")}} }},
		{Read{Number: 8},
			func(r *Replica) any { return r.rounds.wanted },
			func(*Replica) any { return uint64(8) }},
		{ReadKeys{ID: 3, Keys: key("k")},
			func(r *Replica) any { return r.reads.keys.reads },
			func(r *Replica) any { return []*keyRead{{ReadKeys: ReadKeys{ID: 3, Keys: key("k")}, since: r.now}} }},
		{Planned{plan: plan, cells: cells},
			func(r *Replica) any { return r.reads.plans.ready },
			func(*Replica) any { return cells }},
		{Restored{Index: 20, Term: 4, Released: 20, ReadPolicy: quorumlease.AllByKey},
			func(r *Replica) any { return []uint64{r.visible, r.visibleTerm} },
			func(*Replica) any { return []uint64{20, 4} }},
		{AskLease{ID: 6, Lease: 2},
			func(r *Replica) any { return len(r.asks.own) },
			func(*Replica) any { return 1 }},
	} {
		s := led(t, ReadLeases{Policy: quorumlease.AllByKey})
		r := s.members[1].r
		r.reads.plans.underWay = plan
		r.Step(machine.Now{Mono: s.now + 1}, tt.input)
		if got, want := tt.got(r), tt.want(r); !reflect.DeepEqual(got, want) {
			t.Errorf("of %T a member has %+v, want %+v", tt.input, got, want)
		}
	}
}

// Time passes with messages as well: a tick that is due is made up for when one comes.
func TestMessagesTick(t *testing.T) {
	s := led(t, ReadLeases{})
	r := s.members[1].r
	r.Receive(machine.Now{Mono: r.nextTick}, machine.Envelope{From: 3, To: 2, Body: readAnswer{}})
	if r.nextTick <= r.now {
		t.Errorf("a message came when a tick was due, and the next tick is %v away", r.nextTick.Sub(r.now))
	}
}

// A response of this term that acknowledges nothing tells of a later term, and not of its sender's log: the leader
// would begin with that log from the start. One of a later term has the leader step down.
func TestWhatAcknowledgesNothing(t *testing.T) {
	for _, tt := range []struct {
		name  string
		later uint64 // terms
		index uint64
		heard bool
	}{
		{"that acknowledges nothing", 0, 0, false},
		{"that acknowledges an entry", 0, 1, true},
		{"that acknowledges nothing in a later term", 1, 0, true},
	} {
		s := newStage(t)
		m := s.members[0]
		if err := m.r.raft.Campaign(); err != nil {
			t.Fatal(err)
		}
		s.ready(m)
		for m.r.leader != 1 && len(s.wire) > 0 {
			s.deliver(false)
		}
		s.wire = nil // the others have nothing yet
		state := func() (got string) {
			m.r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
				if id == 2 {
					got = fmt.Sprint(pr.State, pr.Match, pr.Next)
				}
			})
			return got
		}
		before, from, to, term := state(), uint64(2), uint64(1), m.r.term+tt.later
		m.r.Receive(machine.Now{Mono: s.now}, machine.Envelope{From: 2, To: 1, Body: &raftpb.Message{
			Type: raftpb.MsgAppResp.Enum(), From: &from, To: &to, Term: &term, Index: &tt.index,
		}})
		if after := state(); (after != before) != tt.heard {
			t.Errorf("a response %s came: the leader knew of the follower's log %q, and knows %q; want it heard: %v", tt.name, before, after, tt.heard)
		}
	}
}

// heardLog is a logger that keeps what raft says.
type heardLog struct {
	discard
	said []string
}

func (l *heardLog) Warningf(format string, v ...any) { l.Infof(format, v...) }
func (l *heardLog) Infof(format string, v ...any)    { l.said = append(l.said, fmt.Sprintf(format, v...)) }

// What raft says goes to the Logger. What has been voted for before the start is known to be durable.
func TestAMemberGoesOn(t *testing.T) {
	log := Genesis([]machine.NodeID{1, 2, 3})
	log.HardState = &raftpb.HardState{Term: new(uint64(5)), Commit: new(uint64(1)), Vote: new(uint64(2))}
	said := &heardLog{}
	r, err := New(Config{
		ID: 1, Boot: 1, Tick: time.Second, ElectionTicks: 10, Log: log, Restored: Restored{Index: 1}, Logger: said,
	}, machine.Now{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(said.said, "\n"), "newRaft") {
		t.Errorf("the Logger was told %q, want that raft begins", said.said)
	}
	if r.writes.noteVote(log.HardState) {
		t.Error("the vote that was found on disk is taken for one that is not durable")
	}
}

// A group of one has its leader at once. A newcomer to it has no vote, and does not complain of that.
func TestAGroupOfOneBeginsAtOnce(t *testing.T) {
	for id, alone := range map[machine.NodeID]bool{1: true, 2: false} {
		said := &heardLog{}
		r, err := New(Config{
			ID: id, Boot: 1, Tick: time.Second, ElectionTicks: 10, Log: Genesis([]machine.NodeID{1}), Restored: Restored{Index: 1}, Logger: said,
		}, machine.Now{})
		if err != nil {
			t.Fatal(err)
		}
		if began := r.raft.BasicStatus().RaftState != raft.StateFollower; began != alone {
			t.Errorf("member %d campaigns at once: %v, want %v", id, began, alone)
		}
		if refused := strings.Contains(strings.Join(said.said, "\n"), "can not campaign"); refused {
			t.Errorf("member %d is told to campaign and has no vote: %q", id, said.said)
		}
	}
}
