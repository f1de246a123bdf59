package replica

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// A member asks for promises while it is read from, if it has a leader and is not alone. It gives them
// back once when the reads have ended. Its alarm covers the time to ask again and the time when reads
// have been missing for long.
func TestPromisesAreAskedForAndGivenBack(t *testing.T) {
	const start = machine.Mono(time.Hour)
	three := quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}}
	p := newAsked(quorumlease.Config{Self: 1, Boot: 7, TTL: 200 * time.Millisecond}, start)
	request := func(seq uint64) any { return quorumlease.Request{Boot: 7, Seq: seq} }
	for _, step := range []struct {
		name   string
		after  time.Duration
		leader machine.NodeID
		wants  bool
		alone  bool
		wanted time.Duration
		want   any
		next   time.Duration // from start; negative: never
	}{
		{"nobody reads", 0, 2, false, false, 0, nil, -1},
		{"there is no leader", 0, 0, true, false, time.Second, nil, -1},
		{"it is alone", 0, 1, true, true, time.Second, nil, -1},
		{"somebody reads", 0, 2, true, false, time.Second, request(1), 50 * time.Millisecond},
		{"it has just asked", 49 * time.Millisecond, 2, true, false, time.Second, nil, 50 * time.Millisecond},
		{"it is to ask again", 50 * time.Millisecond, 2, true, false, time.Second, request(2), 100 * time.Millisecond},
		{"nobody has read for a while", 60 * time.Millisecond, 2, true, false, 70 * time.Millisecond, nil, 70 * time.Millisecond},
		{"it has lost its leader", 60 * time.Millisecond, 0, true, false, 70 * time.Millisecond, nil, 70 * time.Millisecond},
		{"nobody has read for long", 70 * time.Millisecond, 2, false, false, 70 * time.Millisecond, quorumlease.Return{Boot: 7, Seq: 2}, -1},
		{"nobody reads still", 80 * time.Millisecond, 2, false, false, 70 * time.Millisecond, nil, -1},
		{"somebody reads again", 80 * time.Millisecond, 2, true, false, time.Second, request(3), 130 * time.Millisecond},
	} {
		at := Standing{Now: start.Add(step.after), Leader: step.leader, Members: three, Wants: step.wants, Wanted: start.Add(step.wanted)}
		if step.alone {
			at.Members = quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1}}}
		}
		if got := p.Turn(at); !reflect.DeepEqual(got, PromiseEffects{ToVoters: step.want}) {
			t.Errorf("%s: it calls for %+v, want %+v for all voters", step.name, got, step.want)
		}
		want := start.Add(step.next)
		if step.next < 0 {
			want = machine.Never
		}
		if got := p.Next(at); got != want {
			t.Errorf("%s: its next turn is at %v, want %v", step.name, got.Sub(start), want.Sub(start))
		}
	}
}

// A promise that answers this life's request counts, and shows how long its grantor took. One for an
// earlier life does not count. A request is answered with a promise, and a returned lease is reported
// at once.
func TestWhatPromisesCallFor(t *testing.T) {
	const start = machine.Mono(time.Hour)
	const ttl = 200 * time.Millisecond
	three := quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1, 2, 3}}}
	for _, tt := range []struct {
		name  string
		body  any
		want  PromiseEffects
		until machine.Mono
	}{
		{"a promise", quorumlease.Promise{Boot: 7, Seq: 1, TTL: ttl}, PromiseEffects{Answered: true, Took: 30 * time.Millisecond}, start.Add(quorumlease.Believed(ttl))},
		{"a promise for an earlier life", quorumlease.Promise{Boot: 6, Seq: 1, TTL: ttl}, PromiseEffects{}, 0},
		{"a promise that nobody has asked for", quorumlease.Promise{Boot: 7, Seq: 2, TTL: ttl}, PromiseEffects{}, 0},
		{"a request", quorumlease.Request{Boot: 3, Seq: 5}, PromiseEffects{Reply: quorumlease.Promise{Boot: 3, Seq: 5, TTL: ttl, Stamp: quorumlease.Stamp{Term: 2, Index: 9}}}, 0},
		{"a lease that is given back", quorumlease.Return{Boot: 3, Seq: 5}, PromiseEffects{Report: true, ReportAt: start.Add(30 * time.Millisecond)}, 0},
		{"what it does not know", "", PromiseEffects{}, 0},
	} {
		p := newAsked(quorumlease.Config{Self: 1, Boot: 7, TTL: ttl}, start)
		p.Ask(start)
		at := Standing{Now: start.Add(30 * time.Millisecond), Leader: 2, Members: three, Log: quorumlease.Log{Term: 2, Last: 9, Received: 9, Commit: 9}}
		if got := p.Receive(at, 2, tt.body); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s calls for %+v, want %+v", tt.name, got, tt.want)
		}
		if got := p.Until(three); got != tt.until {
			t.Errorf("behind %s the lease lasts until %v, want %v", tt.name, got, tt.until)
		}
	}
}

// reaches are promises that note the logs of which they are told.
type reaches struct {
	*asked
	logs []quorumlease.Log
}

func (r *reaches) Reached(l quorumlease.Log) { r.logs = append(r.logs, l) }

// Promises are told in each turn how far the log is, whether the cluster plans or not: a holder's lease counts from
// when its log has reached what its grantors had.
func TestPromisesAreToldOfTheLog(t *testing.T) {
	for _, plans := range []bool{false, true} {
		r := keyReader(9)
		p := &reaches{asked: newAsked(quorumlease.Config{Self: 1}, r.now)}
		r.leader, r.term, r.last = 2, 5, 14
		r.reads.promises, r.reads.received = p, 12
		if plans {
			r.reads.plans.counter = placement.NewCounter(16)
			r.reads.cfg.Planner.Buckets = 16
		}
		r.reads.plan(r.moment, &r.effects)
		if want := []quorumlease.Log{{Term: 5, Last: 14, Received: 12, Commit: 9}}; !slices.Equal(p.logs, want) {
			t.Errorf("where plans are made %v: promises are told of the logs %+v, want %+v", plans, p.logs, want)
		}
	}
}

// formers are promises by which former divisions of the keys bind for a while.
type formers struct {
	*asked
	list []*placement.Configuration
}

func (f *formers) Former() []*placement.Configuration { return f.list }

// The former divisions that bind are looked up in each turn, and when the division changes.
func TestFormerDivisionsAreLookedUp(t *testing.T) {
	former := []*placement.Configuration{division(t)}
	for name, look := range map[string]func(r *Replica){
		"a turn":           func(r *Replica) { r.reads.turn(r.moment, &r.effects) },
		"another division": func(r *Replica) { r.reads.set(r.moment, readSetting{policy: quorumlease.All}) },
	} {
		for _, list := range [][]*placement.Configuration{former, nil} {
			r := keyReader(9)
			r.leader = 2
			r.reads.promises = &formers{newAsked(quorumlease.Config{Self: 1}, r.now), list}
			r.reads.keys.former = []*placement.Configuration{nil, nil}
			if look(r); !slices.Equal(r.reads.keys.former, list) {
				t.Errorf("behind %s entries wait for the holders by %v, want %v", name, r.reads.keys.former, list)
			}
		}
	}
}

// A request that is not granted gets no answer: one that is late, say.
func TestARefusedRequestGetsNoAnswer(t *testing.T) {
	p := newAsked(quorumlease.Config{Self: 1, TTL: time.Second}, 0)
	at := Standing{Now: machine.Mono(time.Hour), Leader: 2, Log: quorumlease.Log{Term: 5, Last: 9, Received: 9}}
	for _, step := range []struct {
		name string
		body any
		want bool
	}{
		{"a request", quorumlease.Request{Boot: 5, Seq: 3}, true},
		{"a later one", quorumlease.Request{Boot: 5, Seq: 9}, true},
		{"a return", quorumlease.Return{Boot: 5, Seq: 12}, false},
		{"one that was sent before the return", quorumlease.Request{Boot: 5, Seq: 11}, false},
		{"one of an earlier life", quorumlease.Request{Boot: 4, Seq: 20}, false},
		{"one that was sent after the return", quorumlease.Request{Boot: 5, Seq: 13}, true},
	} {
		if got := p.Receive(at, 3, step.body).Reply; (got != nil) != step.want {
			t.Errorf("%s is answered with %+v, want an answer: %v", step.name, got, step.want)
		}
	}
}
