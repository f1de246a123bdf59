package abcast

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestSessions compares the ring of sessions with a list, and what it forgets.
func TestSessions(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		clients := 1 + r.IntN(6)
		o := newOrder(State{Clients: clients})
		var list []Session
		horizon := uint64(0)
		ids := make([]machine.ID, 8)
		seqs := make([]uint64, len(ids))
		for range 300 {
			k := r.IntN(len(ids))
			if seqs[k] == 0 || o.due(ids[k]) == 0 {
				ids[k], seqs[k] = NewClient(o.position, r.Uint64()), 0
			}
			seqs[k]++
			if got := o.next(appendMessage(nil, Message{Client: ids[k], Seq: seqs[k]})); len(got) != 1 {
				t.Fatalf("seed %d: number %d is due and was passed over", seed, seqs[k])
			}
			list = slices.DeleteFunc(list, func(s Session) bool { return s.Client == ids[k] })
			list = append(list, Session{ids[k], seqs[k], o.position})
			if len(list) > clients {
				horizon = list[0].Position
				list = list[1:]
			}
			if got := o.list(); !slices.Equal(got, list) || o.horizon != horizon {
				t.Fatalf("seed %d: got %v and horizon %d, want %v and %d", seed, got, o.horizon, list, horizon)
			}
			if r.IntN(20) == 0 {
				s := o.head()
				s.Sessions = o.list()
				o = newOrder(s)
			}
		}
	}
}

// A Trim that drops less than the state under it takes is not worth a new log; at last one is.
func TestWorthwhile(t *testing.T) {
	s := State{Clients: 2 * sessionsFew}
	for i := range 2 * sessionsFew {
		s.Sessions = append(s.Sessions, Session{NewClient(0, uint64(i)), 1, 1})
	}
	m := &Machine{order: newOrder(s), behind: newOrder(s)}
	first := uint64(0)
	for p := uint64(1); p < 1000; p++ {
		m.order.next(appendMessage(nil, Message{Client: NewClient(0, p), Seq: 2, Payload: make([]byte, 1000)}))
		m.keep(make([]byte, 1000))
		switch worthwhile := m.Worthwhile(Trim{Position: p}); {
		case worthwhile && first == 0:
			first = p
		case !worthwhile && first > 0:
			t.Errorf("a Trim up to %d is worthwhile, and one up to %d is not", first, p)
		}
	}
	if want := uint64(2 * sessionsFew * sessionBytes / 1000); first != want {
		t.Errorf("worthwhile from position %d on, want %d", first, want)
	}
	many := &Machine{order: newOrder(s), behind: newOrder(s)}
	for range instancesMany {
		if many.Worthwhile(Trim{Position: 1}) {
			t.Fatalf("worthwhile for %d instances that order nothing", len(many.kept))
		}
		many.order.next(nil)
		many.keep(nil)
	}
	if !many.Worthwhile(Trim{Position: 1}) {
		t.Errorf("%d instances are not many", instancesMany)
	}
	few := &Machine{order: newOrder(State{Clients: 1}), behind: newOrder(State{Clients: 1})}
	if !few.Worthwhile(Trim{Position: 1}) {
		t.Error("a small log is not written")
	}
}

// What a Trim drops is counted from the state that the decisions follow, also if that is another member's.
func TestWorthwhileBehindAState(t *testing.T) {
	cfg := three(2)
	cfg.Clients = 2 * sessionsFew
	a := start(t, cfg)
	for cn := uint64(1); cn <= 100; cn++ {
		a.m.order.next(nil)
		a.m.keep(make([]byte, 1000))
	}
	b := Base{Order: State{Instance: 200, Position: 5000, Group: a.m.Group(), Clients: cfg.Clients}, Position: 5000}
	for i := range uint64(2 * sessionsFew) {
		b.Order.Sessions = append(b.Order.Sessions, Session{NewClient(0, i), 1, i + 1})
	}
	a.hear(1, Transfer{b})
	a.step(Restored{5000})
	if a.m.Position() != 5000 {
		t.Fatalf("it is at position %d, want 5000", a.m.Position())
	}
	a.m.order.next(appendMessage(nil, Message{Client: NewClient(0, 1), Seq: 2}))
	a.m.keep(make([]byte, 1000))
	if trim := (Trim{Position: 5001}); a.m.Worthwhile(trim) {
		t.Errorf("a Trim that drops 1000 bytes is worth a new log of %d sessions, for what was dropped before the state came", 2*sessionsFew)
	}
}

// A client's ID says at which position it was made, and tells clients of one position apart.
func TestIDsSayWhenTheyWereMade(t *testing.T) {
	a, b := NewClient(7, 1), NewClient(7, 2)
	if born(a) != 7 || born(b) != 7 || a == b {
		t.Errorf("%v was made at position %d and %v at %d, want 7 and two of them", a, born(a), b, born(b))
	}
}
