package flease

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A peer serves nothing to another whose view differs, and tells one that is behind. A change begins, or
// goes on, by the other's news.
func TestNewsOfViews(t *testing.T) {
	view := func(epoch uint64, members ...machine.NodeID) View { return View{Epoch: epoch, Members: members} }
	cur, next, other := view(5, 1, 2, 3), view(6, 1, 2, 4), view(6, 1, 3, 4)
	ask := []Op{{Kind: Peek, Name: "a", Ref: 1}}
	for name, tt := range map[string]struct {
		changing bool // to next
		epoch    uint64
		digest   uint32
		news     *ViewNews
		ops      []Op
		served   bool
		told     *ViewNews // further news to 2
		alarm    string
		then     uint64           // the epoch of the next view
		who      []machine.NodeID // the members that have closed
		closed   bool
	}{
		"the same":                            {false, 5, cur.digest(), nil, ask, true, nil, "", 0, nil, false},
		"the same, and nothing asked":         {false, 5, cur.digest(), nil, nil, false, nil, "", 0, nil, false},
		"other members":                       {false, 5, 1, nil, ask, false, nil, "peer 2 has other members in view 5", 0, nil, false},
		"the next, with other members":        {true, 6, other.digest(), nil, ask, false, nil, "peer 2 has other members in view 6", 6, []machine.NodeID{1}, false},
		"the next":                            {true, 6, next.digest(), nil, ask, true, nil, "", 6, []machine.NodeID{1}, false},
		"the one before":                      {false, 4, 1, nil, ask, true, &ViewNews{View: cur, Active: true}, "", 0, nil, false},
		"the one before, and nothing asked":   {false, 4, 1, nil, nil, false, nil, "", 0, nil, false},
		"news of the one before":              {false, 4, 1, &ViewNews{View: view(4, 1, 2), Closed: true}, nil, false, &ViewNews{View: cur, Active: true}, "", 0, nil, false},
		"news of this one, long active":       {false, 4, 1, &ViewNews{View: cur, Closed: true}, nil, false, &ViewNews{View: cur, Active: true}, "", 0, nil, false},
		"that this one is active":             {false, 5, cur.digest(), &ViewNews{View: cur, Active: true}, ask, true, nil, "", 0, nil, false},
		"news of this one, of other members":  {false, 4, 1, &ViewNews{View: view(5, 1, 2), Closed: true}, nil, false, nil, "peer 2 has other members in view 5", 0, nil, false},
		"that it has closed for the next":     {false, 5, cur.digest(), &ViewNews{View: next, Closed: true}, ask, true, &ViewNews{View: next, Closed: true}, "", 6, []machine.NodeID{1, 2}, true},
		"that it has closed, too":             {true, 5, cur.digest(), &ViewNews{View: next, Closed: true}, nil, false, nil, "", 6, []machine.NodeID{1, 2}, true},
		"that it has closed for others":       {true, 5, cur.digest(), &ViewNews{View: other, Closed: true}, nil, false, nil, "peer 2 has other members in view 6", 6, []machine.NodeID{1}, false},
		"that it has closed for a later one":  {false, 5, cur.digest(), &ViewNews{View: view(7, 1, 2), Closed: true}, nil, false, nil, "", 0, nil, false},
		"that the next is active":             {true, 6, next.digest(), &ViewNews{View: next, Active: true}, nil, false, nil, "", 6, []machine.NodeID{1}, true},
		"that one is active that nobody knew": {false, 6, next.digest(), &ViewNews{View: next, Active: true}, nil, false, nil, "", 6, nil, true},
		"that a later one is active":          {true, 8, view(8, 1, 2, 9).digest(), &ViewNews{View: view(8, 1, 2, 9), Active: true}, nil, false, nil, "", 8, nil, true},
		"nonsense":                            {false, 5, cur.digest(), &ViewNews{View: view(6), Closed: true}, ask, true, nil, "", 0, nil, false},
	} {
		c := newCluster(t, 1, func(cfg *Config) { cfg.View = cur })
		p := c.peers[1]
		if tt.changing {
			c.ask(1, ChangeView{View: next})
		}
		ops := slices.Clone(tt.ops)
		for i := range ops {
			ops[i].Ballot = BallotOf(p.c, 1, 2)
		}
		p.Receive(c.now, machine.Envelope{From: 2, To: 1, Body: &Batch{Incarnation: 1, Epoch: tt.epoch, Digest: tt.digest, View: tt.news, Ops: ops}})
		rd := p.Ready()
		var told *ViewNews
		served := false
		for _, env := range rd.Sends {
			b := env.Body.(*Batch)
			if env.To == 2 {
				told, served = b.View, len(b.Ops) > 0
			}
			if b.Epoch != 5 || b.Digest != cur.digest() {
				t.Errorf("%s: the peer calls its view %d, %x", name, b.Epoch, b.Digest)
			}
		}
		if served != tt.served || !reflect.DeepEqual(told, tt.told) {
			t.Errorf("to one whose view is %s the peer says %+v and answers: %v; want %+v, %v", name, told, served, tt.told, tt.served)
		}
		var alarms []string
		for _, out := range rd.Outcomes {
			if a, ok := out.(Alarm); ok && a.Kind == Disagreement && a.Peer == 2 {
				alarms = append(alarms, a.Why)
			} else {
				t.Errorf("%s: the peer reports %+v", name, out)
			}
		}
		if said := strings.Join(alarms, ""); said != "" != (tt.alarm != "") || !strings.HasPrefix(said, tt.alarm) {
			t.Errorf("at one whose view is %s people hear %q, want %q", name, said, tt.alarm)
		}
		then, who, closed := uint64(0), []machine.NodeID(nil), false
		if n := p.next; n != nil {
			then, who, closed = n.lay.view.Epoch, n.who, n.closed
			if closed && n.open != (silence{mono: c.now.Mono.Add(p.quarantine), wall: p.c + millis(p.quarantine), on: true}) {
				t.Errorf("%s: the next view opens at %+v, want behind a quarantine", name, n.open)
			}
		}
		if then != tt.then || closed != tt.closed || !slices.Equal(who, tt.who) {
			t.Errorf("behind one whose view is %s the next view is %d, for which %v have closed (enough: %v); want %d, %v, %v", name, then, who, closed, tt.then, tt.who, tt.closed)
		}
	}
}

// A change is told to all members of both views, each poll. The peer votes in cells that stay, and in
// the others when the view is active. A closed cell stays closed whatever view comes next.
func TestAChangeOfTheView(t *testing.T) {
	const replicas = 2
	old := View{Epoch: 5, Members: []machine.NodeID{1, 2, 3}, Replicas: replicas}
	next := View{Epoch: 6, Members: []machine.NodeID{1, 2, 4}, Replicas: replicas}
	c := newCluster(t, 1, func(cfg *Config) { cfg.View = old })
	p := c.peers[1]
	var stays, changes, leaves string // names, by what becomes of their cells: 1 and 2; 1 and 4 or 1 and 2, before of 1 and 3; 2 and 4
	for i := 0; stays == "" || changes == "" || leaves == ""; i++ {
		name := fmt.Sprint(i)
		switch was, is := old.Cell(name), next.Cell(name); {
		case was[0] == 1 && slices.Equal(was, is):
			stays = name
		case was[0] == 1 && is[0] == 1:
			changes = name
		case was[0] == 1:
			leaves = name
		}
	}
	votes := func(when string, want map[string][]uint64) {
		t.Helper()
		for _, name := range []string{stays, changes, leaves} {
			for epoch := uint64(4); epoch <= 8; epoch++ {
				if got := p.votes(slotOf(name), epoch); got != slices.Contains(want[name], epoch) {
					t.Errorf("%s the peer votes for a request of view %d: %v, in a cell that was %v and becomes %v", when, epoch, got, old.Cell(name), next.Cell(name))
				}
			}
		}
	}
	news := func(rd machine.Ready[Report]) (to []machine.NodeID, said []ViewNews) {
		for _, env := range rd.Sends {
			if v := env.Body.(*Batch).View; v != nil {
				to, said = append(to, env.To), append(said, *v)
			}
		}
		return to, said
	}
	tells := func(when string, rd machine.Ready[Report], want *ViewNews, members ...machine.NodeID) {
		t.Helper()
		to, said := news(rd)
		if !slices.Equal(to, members) {
			t.Errorf("%s the peer tells %v, want %v", when, to, members)
		}
		for _, n := range said {
			if !reflect.DeepEqual(n, *want) {
				t.Errorf("%s the peer says %+v, want %+v", when, n, *want)
			}
		}
	}
	votes("before the change", map[string][]uint64{stays: {5}, changes: {5}, leaves: {5}})
	p.Step(c.now, ChangeView{View: next})
	rd := p.Ready()
	tells("at the beginning", rd, &ViewNews{View: next, Closed: true}, 2, 3, 4)
	if want := c.now.Mono.Add(p.cfg.poll()); rd.Alarm > want {
		t.Errorf("it wants to be woken %v behind its next word", rd.Alarm.Sub(want))
	}
	votes("during the change", map[string][]uint64{stays: {5, 6}})
	c.later(p.cfg.poll() - 1)
	p.Wake(c.now)
	tells("before a poll is over", p.Ready(), nil)
	c.later(1)
	p.Wake(c.now)
	tells("when a poll is over", p.Ready(), &ViewNews{View: next, Closed: true}, 2, 3, 4)
	hears := func(from machine.NodeID, n ViewNews) machine.Ready[Report] {
		p.Receive(c.now, machine.Envelope{From: from, To: 1, Body: &Batch{Incarnation: 1, Epoch: 5, Digest: old.digest(), View: &n}})
		return p.Ready()
	}
	hears(4, ViewNews{View: next, Closed: true})
	hears(2, ViewNews{View: next, Closed: true})
	if p.next.closed {
		t.Error("the cells of 1 and 3 and of 2 and 3 have no majority that has closed, and the view is to open")
	}
	hears(3, ViewNews{View: next, Closed: true})
	began := c.now.Mono
	if !p.next.closed {
		t.Fatal("all have closed, and the view is not to open")
	}
	c.later(time.Second)
	hears(4, ViewNews{View: next, Closed: true})
	for c.now.Mono.Sub(began) < p.quarantine-time.Millisecond {
		c.later(time.Millisecond)
		p.Wake(c.now)
		if p.Ready(); p.next == nil {
			t.Fatalf("the view is active %v behind the last that closed", c.now.Mono.Sub(began))
		}
	}
	c.later(p.quarantine - c.now.Mono.Sub(began))
	p.Wake(c.now)
	rd = p.Ready()
	if len(rd.Outcomes) != 1 || !reflect.DeepEqual(rd.Outcomes[0], Active{View: next}) {
		t.Errorf("when the quarantine is over the peer reports %+v, want that view 6 is active", rd.Outcomes)
	}
	tells("when it is active", rd, &ViewNews{View: next, Active: true}, 2, 3, 4)
	votes("behind the change", map[string][]uint64{stays: {5, 6}, changes: {6}})

	// The next change begins, and another peer is beyond it already, in a view whose cells are as
	// they were.
	p.Step(c.now, ChangeView{View: View{Epoch: 7, Members: []machine.NodeID{1, 5}, Replicas: replicas}})
	p.Ready()
	votes("in the next change", nil)
	hears(2, ViewNews{View: View{Epoch: 8, Members: next.Members, Replicas: replicas}, Active: true})
	votes("when a later view has the cells of the one that is left", nil)
	c.pass(p.quarantine)
	votes("in the later view", map[string][]uint64{stays: {8}, changes: {8}})
}

// A view that cannot come next changes nothing, and people hear why.
func TestViewsThatCannotCome(t *testing.T) {
	next := View{Epoch: 6, Members: []machine.NodeID{1, 2}}
	for name, tt := range map[string]struct {
		changing bool
		view     View
		kind     AlarmKind
		says     string // "" for no alarm
	}{
		"a bad one":                     {false, View{Epoch: 6}, Disagreement, "a view without members"},
		"the one that there is":         {false, View{Epoch: 5, Members: []machine.NodeID{1}}, 0, ""},
		"others under its epoch":        {false, View{Epoch: 5, Members: []machine.NodeID{1, 2}}, Disagreement, "view 5 comes with other members than before"},
		"an old one":                    {false, View{Epoch: 4, Members: []machine.NodeID{1, 2}}, 0, ""},
		"one that skips an epoch":       {false, View{Epoch: 7, Members: []machine.NodeID{1}}, Gap, "view 7 comes while view 5 is active"},
		"the next again":                {true, next, 0, ""},
		"others than the next":          {true, View{Epoch: 6, Members: []machine.NodeID{1, 3}}, Disagreement, "view 6 comes with other members than before"},
		"the one behind the next":       {true, View{Epoch: 7, Members: []machine.NodeID{1}}, Gap, "view 7 comes while view 5 is active"},
		"the one before, with the next": {true, View{Epoch: 5, Members: []machine.NodeID{1}}, 0, ""},
	} {
		c := newCluster(t, 1, func(cfg *Config) { cfg.View.Epoch = 5 })
		p := c.peers[1]
		if tt.changing {
			c.ask(1, ChangeView{View: next})
		}
		before := p.next
		_, out := c.ask(1, ChangeView{View: tt.view})
		switch {
		case tt.says == "" && len(out) > 0:
			t.Errorf("%s: people hear %+v", name, out)
		case tt.says != "":
			if a, ok := append(out, nil)[0].(Alarm); !ok || a.Kind != tt.kind || a.Peer != 0 || !strings.Contains(a.Why, tt.says) {
				t.Errorf("%s: people hear %+v, want %v, %q", name, out, tt.kind, tt.says)
			}
		}
		if p.next != before || p.lay.view.Epoch != 5 {
			t.Errorf("%s: it begins", name)
		}
	}
}
