package flease

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A planned shutdown ends all claims, says nothing more to anybody, and leaves all that is not
// forgotten yet. Later callers are told.
func TestWhatAShutdownLeaves(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.do(1, Acquire{ID: 1, Name: "held"})
	c.do(2, Acquire{ID: 1, Name: "others"})
	c.do(1, Acquire{ID: 2, Name: "others"})
	c.out = map[machine.NodeID][]Report{}
	c.cut = func(machine.Envelope) bool { return true }
	c.do(1, Observe{ID: 3, Name: "held"})
	c.do(1, Acquire{ID: 4, Name: "tried"})
	promised := p.cells[p.names["tried"]].promised
	old := &p.cells[p.cellOf("old")]
	old.promised, old.written = BallotOf(p.floor, 1<<13-1, 2), BallotOf(p.floor, 5, 2)
	kept := &p.cells[p.cellOf("kept")]
	kept.promised, kept.written, kept.value = BallotOf(p.floor+1, 0, 2), BallotOf(p.floor, 5, 2), Value{{Token: 5, Until: p.c + 5, Slots: 1, Owner: 2}}
	p.Step(c.now, Release{ID: 4}) // and it says so when the shutdown comes
	p.Step(c.now, Shutdown{})
	rd := p.Ready()
	if len(rd.Sends) > 0 || rd.Alarm != machine.Never {
		t.Errorf("when it is shut down the peer says %+v, and wants to be woken at %v", rd.Sends, rd.Alarm)
	}
	var r *Record
	ends := map[uint64]any{}
	for i, out := range rd.Outcomes {
		switch out := out.(type) {
		case Lost:
			ends[out.ID] = out.Why
		case Refused:
			ends[out.ID] = out.Err
		case Observed:
			ends[out.ID] = out.Err
		case Released:
			ends[out.ID] = out.Confirmed
		case Snapshot:
			if r = out.Record; i != len(rd.Outcomes)-1 {
				t.Error("the value that it leaves is not its last word")
			}
		}
	}
	is := func(id uint64, want error) bool { err, _ := ends[id].(error); return errors.Is(err, want) }
	if ends[1] != "the peer is shut down" || !is(2, ErrNoMajority) || !is(3, ErrNoMajority) || ends[4] != true && ends[4] != false || len(ends) != 4 {
		t.Errorf("the claims end with %v", ends)
	}
	if r == nil {
		t.Fatalf("it leaves nothing: %+v", rd.Outcomes)
	}
	if r.Floor != p.floor || r.Highest != p.hlc.last || r.Highest <= promised-1 || r.Silent {
		t.Errorf("it leaves the floor %v, the ballot %v, silent: %v; want %v, %v, and that it was not", r.Floor, r.Highest, r.Silent, p.floor, p.hlc.last)
	}
	names := map[string]CellRecord{}
	for _, cell := range r.Cells {
		names[cell.Name] = cell
	}
	for _, name := range []string{"held", "others", "tried", "kept"} {
		of := p.cells[p.names[name]]
		if want := (CellRecord{Name: name, Promised: of.promised, Written: of.written, Value: of.value}); !reflect.DeepEqual(names[name], want) {
			t.Errorf("of %q it leaves %+v, want %+v", name, names[name], want)
		}
	}
	if _, there := names["old"]; there || len(r.Cells) != 4 {
		t.Errorf("it leaves %v, with what is forgotten", r.Cells)
	}
	for _, in := range []any{
		Acquire{ID: 9, Name: "a"}, Observe{ID: 8, Name: "b"}, Release{ID: 1}, labstage.Wake{},
		machine.Envelope{From: 2, To: 1, Body: &Batch{Incarnation: 1, Epoch: 1, Digest: p.lay.digest, Ops: []Op{{Kind: Peek, Name: "held", Ballot: BallotOf(p.c, 1, 2)}}}},
	} {
		c.later(time.Second)
		labstage.Feed(p, c.now, in)
		rd := p.Ready()
		var want []Report
		switch in := in.(type) {
		case Acquire:
			want = []Report{Refused{ID: in.ID, State: State{Name: in.Name}, Err: errShutdown}}
		case Observe:
			want = []Report{Observed{ID: in.ID, State: State{Name: in.Name}, Err: errShutdown}}
		}
		if len(rd.Sends) > 0 || rd.Alarm != machine.Never || !reflect.DeepEqual(rd.Outcomes, want) {
			t.Errorf("to %T a peer that is shut down says %+v and reports %+v, want nothing and %+v", in, rd.Sends, rd.Outcomes, want)
		}
	}
}

// The next life goes on with all that the one before has left, is silent for ε and a millisecond, and
// accepts nothing that may have been forgotten.
func TestWhatIsRestored(t *testing.T) {
	now := machine.Now{Mono: 1e12, Wall: machine.Wall(1767225600 * int64(time.Second))}
	at := TimeOf(now.Wall)
	lease := Value{{Token: 5, Until: at + 5000, Incarnation: 1, Slots: 1, Owner: 2}}
	first := &Record{Floor: at - 50, Highest: BallotOf(at-3, 7, 2), Cells: []CellRecord{
		{Name: "a", Promised: BallotOf(at-9, 0, 2), Written: BallotOf(at-9, 0, 2), Value: lease}, {Name: "b", Promised: BallotOf(at-8, 0, 3)},
	}}
	second := &Record{Floor: at - 9000, Highest: BallotOf(at-4, 0, 2), Cells: []CellRecord{{Name: "a", Promised: BallotOf(at-7, 0, 3), Written: BallotOf(at-9, 0, 2), Value: lease}}}
	for name, tt := range map[string]struct {
		left   []*Record
		silent time.Duration
		floor  Time
		drawn  Ballot
	}{
		"nothing":                                     {nil, 10*time.Second + 300*time.Millisecond, at + 100, 0},
		"one record":                                  {[]*Record{first}, 101 * time.Millisecond, at - 50, first.Highest},
		"two, of which the first knows more":          {[]*Record{first, second}, 101 * time.Millisecond, at - 50, first.Highest},
		"two, of which the second does":               {[]*Record{second, first}, 101 * time.Millisecond, at - 50, first.Highest},
		"one of a silent peer":                        {[]*Record{{Floor: at - 50, Highest: BallotOf(at, 0, 3), Silent: true}}, 10*time.Second + 300*time.Millisecond, at + 100, BallotOf(at, 0, 3)},
		"two, of which the first is of a silent peer": {[]*Record{{Silent: true}, first}, 10*time.Second + 300*time.Millisecond, at + 100, first.Highest},
		"two, of which the second is":                 {[]*Record{first, {Silent: true}}, 10*time.Second + 300*time.Millisecond, at + 100, first.Highest},
		"no records of a peer that keeps them":        {[]*Record{}, 101 * time.Millisecond, 0, 0},
		"one of a clock that was an hour ahead":       {[]*Record{{Floor: at - 50, Highest: BallotOf(at+3600_000, 0, 3)}}, time.Hour - 100*time.Millisecond, at - 50, BallotOf(at+3600_000, 0, 3)},
		"one that accepts nothing for an hour":        {[]*Record{{Floor: at + 3600_000}}, time.Hour, at + 3600_000, 0},
	} {
		cfg := testConfig(1, 3)
		cfg.Restore = tt.left
		p, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.Wake(now)
		rd := p.Ready()
		want := []Report{Quarantined{Deadline: now.Mono.Add(tt.silent), Until: now.Wall + machine.Wall(tt.silent)}}
		if !reflect.DeepEqual(rd.Outcomes, want) {
			t.Errorf("%s: the next life reports %+v, want %+v", name, rd.Outcomes, want)
		}
		if p.floor != tt.floor || p.hlc.last != tt.drawn {
			t.Errorf("%s: it accepts nothing up to %v and has heard of %v; want %v, %v", name, p.floor-at, p.hlc.last, tt.floor-at, tt.drawn)
		}
		newest := map[string]CellRecord{}
		for _, r := range tt.left {
			for _, of := range r.Cells {
				newest[of.Name] = of
			}
		}
		for _, of := range newest {
			if cell := p.cells[p.names[of.Name]]; cell.promised != of.Promised || cell.written != of.Written || !reflect.DeepEqual(cell.value, of.Value) {
				t.Errorf("%s: of %q it knows %+v, want %+v", name, of.Name, cell, of)
			}
		}
		served := func(d time.Duration) bool {
			then := machine.Now{Mono: now.Mono.Add(d), Wall: now.Wall + machine.Wall(d)}
			p.Wake(then)
			return slices.ContainsFunc(p.Ready().Outcomes, func(out Report) bool { return out == Serving{} })
		}
		if served(tt.silent-1) || !served(tt.silent) || served(tt.silent+1) {
			t.Errorf("%s: it does not serve just when its silence of %v is over", name, tt.silent)
		}
	}
}

// A fault of the clocks ends all tenures, tries and looks. Claims that wait go on behind the
// quarantine. Nothing that was drawn up before it is sent.
func TestWhatAFaultEnds(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.do(2, Acquire{ID: 1, Name: "others"})
	c.do(1, Acquire{ID: 1, Name: "held", TTL: 5 * time.Second, LockDelay: 3 * time.Second})
	c.do(1, Acquire{ID: 2, Name: "released"})
	c.do(1, Acquire{ID: 3, Name: "others"})
	c.out = map[machine.NodeID][]Report{}
	c.cut = func(machine.Envelope) bool { return true }
	c.do(1, Acquire{ID: 4, Name: "asked"})
	c.do(1, Acquire{ID: 5, Name: "tried", Try: true})
	c.do(1, Observe{ID: 6, Name: "seen"})
	c.later(time.Millisecond)
	p.Step(c.now, Release{ID: 2}) // it is not sent yet
	p.Step(c.now, Acquire{ID: 7, Name: "queued"})
	p.Step(c.now, ClockFault{Why: "a test"})
	rd := p.Ready()
	if len(rd.Sends) > 0 {
		t.Errorf("a peer that must be silent says %+v", rd.Sends)
	}
	w := 10*time.Second + 300*time.Millisecond
	want := []Report{
		Alarm{Kind: Jump, Why: "a test"}, Lost{ID: 1, Why: "a test"}, Released{ID: 2},
		Refused{ID: 5, State: State{Name: "tried"}, Err: ErrQuarantine}, Observed{ID: 6, State: State{Name: "seen"}, Err: ErrQuarantine},
		Quarantined{Deadline: c.now.Mono.Add(w), Until: TimeOf(c.now.Wall + machine.Wall(w)).Wall()},
	}
	if !reflect.DeepEqual(rd.Outcomes, want) {
		t.Errorf("a fault of the clocks leads to\n%+v, want\n%+v", rd.Outcomes, want)
	}
	if p.floor != p.c+p.eps {
		t.Errorf("behind a fault the peer accepts ballots from %v on, want from ε ahead of its clock", p.floor-p.c)
	}
	if s := p.Stats(); s.Attempts != 0 || s.Claims != 3 || p.busy != 0 || p.looks != 0 || p.renewals != 0 || p.returns != 0 {
		t.Errorf("behind a fault there is left %+v", s)
	}
	c.cut = nil
	c.do(2, Release{ID: 1})
	if c.pass(w + time.Second); !has[Serving](c, 1) {
		t.Error("it does not serve again")
	}
	for _, id := range []uint64{3, 4, 7} {
		if !slices.ContainsFunc(c.out[1], func(out Report) bool { a, ok := out.(Acquired); return ok && a.ID == id }) {
			t.Errorf("the waiter of claim %d gets nothing behind the quarantine: %+v", id, c.out[1])
		}
	}
}

// An alarm is told once in t_max for each kind and each peer that is meant; a jump each time.
func TestHowOftenAnAlarmIsTold(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	tmax := p.cfg.TMax
	for _, step := range []struct {
		passes time.Duration
		alarm  Alarm
		want   bool
	}{
		{0, Alarm{Kind: Skew, Peer: 2, Why: "a"}, true},
		{0, Alarm{Kind: Skew, Peer: 2, Why: "b"}, false},
		{0, Alarm{Kind: Skew, Peer: 3, Why: "c"}, true},
		{0, Alarm{Kind: Disagreement, Peer: 2, Why: "d"}, true},
		{0, Alarm{Kind: Jump, Why: "e"}, true},
		{0, Alarm{Kind: Jump, Why: "f"}, true},
		{tmax - 1, Alarm{Kind: Skew, Peer: 2, Why: "g"}, false},
		{1, Alarm{Kind: Skew, Peer: 2, Why: "h"}, true},
		{1, Alarm{Kind: Skew, Peer: 2, Why: "i"}, false},
		{tmax - 2, Alarm{Kind: Skew, Peer: 2, Why: "j"}, false},
		{1, Alarm{Kind: Skew, Peer: 2, Why: "k"}, true},
	} {
		c.later(step.passes)
		c.ask(1, labstage.Wake{})
		p.alert(step.alarm)
		out := p.Ready().Outcomes
		if step.want != (len(out) == 1 && out[0] == step.alarm) || !step.want && len(out) > 0 {
			t.Errorf("alarm %q is told: %+v, want %v", step.alarm.Why, out, step.want)
		}
	}
	// The first is told though the machine has just started.
	young, err := New(testConfig(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	young.Wake(machine.Now{Mono: 1, Wall: c.now.Wall})
	young.Ready()
	young.alert(Alarm{Kind: Skew, Peer: 2})
	if out := young.Ready().Outcomes; len(out) != 1 {
		t.Errorf("just behind the machine's start the first alarm is told: %+v", out)
	}
}

// A claim that is given up in a silence is not given back, though its WRITE may have been
// decided. The peer says nothing, and the claim ends when its lease would be over at all
// clocks.
func TestGivenUpInSilence(t *testing.T) {
	c := newCluster(t, 3, nil)
	p := c.peers[1]
	c.ask(1, Acquire{ID: 7, Name: "a"})
	k := p.hlc.last
	c.hear(1, 2, 1, Op{Kind: AckRead, Ref: c.underWay(7), Ballot: k})
	c.ask(1, ClockFault{Why: "a test"})
	said, out := c.ask(1, Release{ID: 7})
	for p.silent() {
		if over := p.c >= k.Time()+p.tmax+p.eps; said != nil || !over && len(out) > 0 {
			t.Fatalf("in its silence the peer says %+v and reports %+v", said, out)
		}
		c.out[1] = append(c.out[1], out...)
		c.later(10 * time.Millisecond)
		said, out = c.ask(1, labstage.Wake{})
	}
	if got := last[Released](c, 1); got != (Released{ID: 7}) || p.Stats().Claims != 0 {
		t.Errorf("a claim that was given up ends with %+v, and %d claims are left", got, p.Stats().Claims)
	}
}
