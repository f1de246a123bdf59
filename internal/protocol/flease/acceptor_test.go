package flease

import (
	"reflect"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// ask steps an input at a peer, and returns its operations for each other peer, and its outcomes.
func (c *cluster) ask(id machine.NodeID, input any) (said map[machine.NodeID][]Op, outcomes []Report) {
	p := c.peers[id]
	labstage.Feed(p, c.now, input)
	rd := p.Ready()
	c.alarm[id] = rd.Alarm
	for _, env := range rd.Sends {
		if ops := env.Body.(*Batch).Ops; len(ops) > 0 {
			if said == nil {
				said = map[machine.NodeID][]Op{}
			}
			said[env.To] = ops
		}
	}
	return said, rd.Outcomes
}

// hear steps operations that one peer sends another, as ask does.
func (c *cluster) hear(id, from machine.NodeID, epoch uint64, ops ...Op) (said map[machine.NodeID][]Op, outcomes []Report) {
	return c.ask(id, machine.Envelope{From: from, To: id, Body: &Batch{Incarnation: 1, Epoch: epoch, Digest: c.peers[id].lay.digest, Ops: ops}})
}

// later lets time pass by both clocks, for a peer that does not notice yet.
func (c *cluster) later(d time.Duration) {
	c.now.Mono, c.now.Wall = c.now.Mono.Add(d), c.now.Wall+machine.Wall(d)
}

// An acceptor answers each request, and remembers, as Algorithm 1 says. It refuses ballots from ahead,
// and promises nothing to a claim that a lease keeps out.
func TestAnswersOfAnAcceptor(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	now, eps, tmax := p.c, p.eps, p.tmax
	of2, of3 := func(after Time) Ballot { return BallotOf(now+after, 0, 2) }, func(after Time) Ballot { return BallotOf(now+after, 0, 3) }
	promised, written := of3(-10), of3(-20)
	lease := Value{{Token: written, Until: now + 5000, Holder: "h", Incarnation: 1, Slots: 1, Owner: 3}}
	back := Value{lease[0]}
	back[0].Released = true
	mine := func(until Time) Value {
		return Value{{Token: of2(0), Until: until, Incarnation: 1, Slots: 1, Owner: 2}}
	}
	was := cell{promised: promised, written: written, value: lease}
	fresh := cell{}
	for name, tt := range map[string]struct {
		of     cell
		ask    Op
		answer *Op  // but for its Ref; nil for none
		then   cell // the knowledge afterwards
		alarm  *Alarm
	}{
		"read": {was, Op{Kind: Read, Ballot: of2(0)},
			&Op{Kind: AckRead, Ballot: of2(0), Written: written, Value: lease}, cell{promised: of2(0), written: written, value: lease}, nil},
		"read of what is new": {fresh, Op{Kind: Read, Ballot: of2(0)},
			&Op{Kind: AckRead, Ballot: of2(0)}, cell{promised: of2(0)}, nil},
		"read by whom a lease keeps out": {was, Op{Kind: Read, Ballot: of2(0), Slots: 1},
			&Op{Kind: Peeked, Ballot: of2(0), Written: written, Value: lease}, was, nil},
		"read by one of two, beside an exclusive lease": {was, Op{Kind: Read, Ballot: of2(0), Slots: 2},
			&Op{Kind: Peeked, Ballot: of2(0), Written: written, Value: lease}, was, nil},
		"read by whom a released lease keeps out no more": {cell{promised: promised, written: written, value: back}, Op{Kind: Read, Ballot: of2(0), Slots: 1},
			&Op{Kind: AckRead, Ballot: of2(0), Written: written, Value: back}, cell{promised: of2(0), written: written, value: back}, nil},
		"read again": {cell{promised: of2(0), written: written, value: lease}, Op{Kind: Read, Ballot: of2(0)},
			&Op{Kind: AckRead, Ballot: of2(0), Written: written, Value: lease}, cell{promised: of2(0), written: written, value: lease}, nil},
		"read behind its write": {cell{promised: of2(0), written: of2(0), value: lease}, Op{Kind: Read, Ballot: of2(0)},
			&Op{Kind: NackRead, Ballot: of2(0), Written: of2(0)}, cell{promised: of2(0), written: of2(0), value: lease}, nil},
		"read behind another's": {was, Op{Kind: Read, Ballot: of2(-15)},
			&Op{Kind: NackRead, Ballot: of2(-15), Written: promised}, was, nil},
		"read from the fastest clock": {was, Op{Kind: Read, Ballot: of2(eps)},
			&Op{Kind: AckRead, Ballot: of2(eps), Written: written, Value: lease}, cell{promised: of2(eps), written: written, value: lease}, nil},
		"read from ahead": {was, Op{Kind: Read, Ballot: of2(eps + 1)},
			&Op{Kind: Skewed, Ballot: of2(eps + 1), Written: ballotAt(now)}, was, &Alarm{Kind: Skew, Peer: 2, By: time.Millisecond}},
		"write from ahead": {was, Op{Kind: Write, Ballot: of2(eps + 3), Value: mine(now)},
			&Op{Kind: Skewed, Ballot: of2(eps + 3), Written: ballotAt(now)}, was, &Alarm{Kind: Skew, Peer: 2, By: 3 * time.Millisecond}},
		"read of what may be forgotten":      {fresh, Op{Kind: Read, Ballot: BallotOf(p.floor, 9, 2)}, nil, fresh, nil},
		"write of what may be forgotten":     {fresh, Op{Kind: Write, Ballot: BallotOf(p.floor, 9, 2), Value: mine(now)}, nil, fresh, nil},
		"read of what can not be forgotten":  {fresh, Op{Kind: Read, Ballot: BallotOf(p.floor+1, 0, 2)}, &Op{Kind: AckRead, Ballot: BallotOf(p.floor+1, 0, 2)}, cell{promised: BallotOf(p.floor+1, 0, 2)}, nil},
		"write of what can not be forgotten": {fresh, Op{Kind: Write, Ballot: BallotOf(p.floor+1, 0, 2)}, &Op{Kind: AckWrite, Ballot: BallotOf(p.floor+1, 0, 2)}, cell{promised: BallotOf(p.floor+1, 0, 2), written: BallotOf(p.floor+1, 0, 2)}, nil},
		"write": {was, Op{Kind: Write, Ballot: of2(0), Value: mine(now + 1000)},
			&Op{Kind: AckWrite, Ballot: of2(0)}, cell{promised: of2(0), written: of2(0), value: mine(now + 1000)}, nil},
		"write of what is promised": {cell{promised: of2(0), written: written, value: lease}, Op{Kind: Write, Ballot: of2(0), Value: mine(now + 1000)},
			&Op{Kind: AckWrite, Ballot: of2(0)}, cell{promised: of2(0), written: of2(0), value: mine(now + 1000)}, nil},
		"write behind a promise": {was, Op{Kind: Write, Ballot: of2(-15), Value: mine(now + 1000)},
			&Op{Kind: NackWrite, Ballot: of2(-15), Written: promised}, was, nil},
		"write of the longest lease": {was, Op{Kind: Write, Ballot: of2(-5), Value: mine(now - 5 + tmax)},
			&Op{Kind: AckWrite, Ballot: of2(-5)}, cell{promised: of2(-5), written: of2(-5), value: mine(now - 5 + tmax)}, nil},
		"write of a longer one": {was, Op{Kind: Write, Ballot: of2(-5), Value: mine(now - 4 + tmax)}, nil, was, nil},
		"write of a lease that is released": {cell{promised: of2(0), written: of2(-5), value: mine(now + 1000)}, Op{Kind: Write, Ballot: of2(-5), Value: back},
			&Op{Kind: AckWrite, Ballot: of2(-5)}, cell{promised: of2(0), written: of2(-5), value: back}, nil},
		"write that a release has overtaken": {cell{promised: of2(0), written: of2(-5), value: back}, Op{Kind: Write, Ballot: of2(-5), Value: mine(now + 1000)},
			&Op{Kind: AckWrite, Ballot: of2(-5)}, cell{promised: of2(0), written: of2(-5), value: back}, nil},
		"look":                {was, Op{Kind: Peek, Ballot: of2(-15)}, &Op{Kind: Peeked, Ballot: of2(-15), Written: written, Value: lease}, was, nil},
		"look at what is new": {fresh, Op{Kind: Peek, Ballot: of2(0)}, &Op{Kind: Peeked, Ballot: of2(0)}, fresh, nil},
		"look from ahead":     {was, Op{Kind: Peek, Ballot: of2(eps + 1)}, &Op{Kind: Peeked, Ballot: of2(eps + 1), Written: written, Value: lease}, was, nil},
	} {
		tt.ask.Name, tt.ask.Ref = name, 77
		if !reflect.DeepEqual(tt.of, fresh) {
			at := &p.cells[p.cellOf(name)]
			at.promised, at.written, at.value = tt.of.promised, tt.of.written, tt.of.value
		}
		p.hlc.last, p.alarmed = 0, map[alarmKey]machine.Mono{}
		said, outcomes := c.hear(1, 2, 1, tt.ask)
		var want map[machine.NodeID][]Op
		if tt.answer != nil {
			tt.answer.Ref = tt.ask.Ref
			want = map[machine.NodeID][]Op{2: {*tt.answer}}
		}
		if !reflect.DeepEqual(said, want) {
			t.Errorf("to a %s the acceptor answers %+v, want %+v", name, said, want)
		}
		var alarms []Report
		if tt.alarm != nil {
			alarms = []Report{*tt.alarm}
		}
		if !reflect.DeepEqual(outcomes, alarms) {
			t.Errorf("at a %s people hear %+v, want %+v", name, outcomes, alarms)
		}
		got := cell{}
		if i, known := p.names[name]; known {
			got = cell{promised: p.cells[i].promised, written: p.cells[i].written, value: p.cells[i].value}
		}
		if !reflect.DeepEqual(got, tt.then) {
			t.Errorf("behind a %s the acceptor knows %+v, want %+v", name, got, tt.then)
		}
		// After a message that is served we draw a greater ballot next. A look, or a
		// message that is refused as being ahead, does not move ours.
		served := tt.answer != nil && tt.answer.Kind != Skewed && tt.ask.Kind != Peek
		if heard := p.hlc.last == tt.ask.Ballot; heard != served && name != "write of a longer one" {
			t.Errorf("a %s has moved our own ballots to %v: %v, want %v", name, p.hlc.last, heard, served)
		}
	}
	p.hlc.last = 0
	for name, tt := range map[string]struct {
		from  machine.NodeID
		epoch uint64
		ask   Op
		want  *Op
	}{
		"of the next view":                {2, 2, Op{Kind: Read, Name: "x", Ballot: of2(0)}, &Op{Kind: WrongView, Ref: 77, Ballot: of2(0)}},
		"of the view before":              {2, 0, Op{Kind: Write, Name: "x", Ballot: of2(0)}, &Op{Kind: WrongView, Ref: 77, Ballot: of2(0)}},
		"that looks, of the next view":    {2, 2, Op{Kind: Peek, Name: "x", Ballot: of2(0)}, &Op{Kind: WrongView, Ref: 77, Ballot: of2(0)}},
		"under another's ballot":          {2, 1, Op{Kind: Read, Name: "x", Ballot: of3(0)}, nil},
		"that looks under another's":      {2, 1, Op{Kind: Peek, Name: "x", Ballot: of3(0)}, nil},
		"without a name":                  {2, 1, Op{Kind: Read, Ballot: of2(0)}, nil},
		"of a peer that there can be not": {MaxMember + 1, 1, Op{Kind: Read, Name: "x", Ballot: BallotOf(now, 0, MaxMember+1)}, nil},
	} {
		tt.ask.Ref = 77
		said, _ := c.hear(1, tt.from, tt.epoch, tt.ask)
		var want map[machine.NodeID][]Op
		if tt.want != nil {
			want = map[machine.NodeID][]Op{tt.from: {*tt.want}}
		}
		if !reflect.DeepEqual(said, want) {
			t.Errorf("to a request %s the acceptor answers %+v, want %+v", name, said, want)
		}
		if _, known := p.names["x"]; known || p.hlc.last != 0 {
			t.Errorf("of a request %s something is remembered", name)
		}
	}
	p.beginQuarantine()
	p.Ready()
	if said, _ := c.hear(1, 2, 1, Op{Kind: Read, Name: "y", Ballot: of2(1)}, Op{Kind: Peek, Name: "y", Ballot: of2(1)}); said != nil {
		t.Errorf("an acceptor that is to be silent answers %+v", said)
	}
}
