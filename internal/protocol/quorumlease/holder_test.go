package quorumlease

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// A promise counts from when its request was sent, for what it carries less a
// hundredth, once the log is where the grantor's was.
func TestPromiseCounts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		p     Promise
		log   Log
		until time.Duration // 0: it does not count
	}{
		{"at once", Promise{Boot: 1, Seq: 1, TTL: ttl}, Log{}, 198 * time.Millisecond},
		{"as long as it says (Q-6)", Promise{Boot: 1, Seq: 1, TTL: ttl / 2}, Log{}, 99 * time.Millisecond},
		{"from its own request (R10)", Promise{Boot: 1, Seq: 2, TTL: ttl}, Log{}, 248 * time.Millisecond},
		{"of another life (R15)", Promise{Boot: 2, Seq: 1, TTL: ttl}, Log{}, 0},
		{"unasked for", Promise{Boot: 1, Seq: 3, TTL: ttl}, Log{}, 0},
		{"of no length", Promise{Boot: 1, Seq: 1}, Log{}, 0},
		{"behind its stamp (R5)", Promise{Boot: 1, Seq: 1, TTL: ttl, Stamp: Stamp{2, 9}}, Log{Term: 2, Last: 9, Received: 8, Commit: 8}, 0},
		{"vouched for", Promise{Boot: 1, Seq: 1, TTL: ttl, Stamp: Stamp{2, 9}}, Log{Term: 2, Last: 9, Received: 9, Commit: 8}, 198 * time.Millisecond},
		{"vouched for by a later leader", Promise{Boot: 1, Seq: 1, TTL: ttl, Stamp: Stamp{2, 9}}, Log{Term: 3, Last: 9, Received: 9}, 198 * time.Millisecond},
		{"vouched for by an earlier leader", Promise{Boot: 1, Seq: 1, TTL: ttl, Stamp: Stamp{2, 9}}, Log{Term: 1, Last: 9, Received: 9}, 0},
		{"committed", Promise{Boot: 1, Seq: 1, TTL: ttl, Stamp: Stamp{2, 9}}, Log{Term: 2, Commit: 9}, 198 * time.Millisecond},
		{"committed in an earlier term", Promise{Boot: 1, Seq: 1, TTL: ttl, Stamp: Stamp{2, 9}}, Log{Term: 1, Commit: 9}, 0},
	} {
		h := NewHolder(config(1))
		h.Ask(at(0))
		h.Ask(at(50 * time.Millisecond))
		h.Promised(2, tc.p, tc.log)
		want := machine.Mono(0)
		if tc.until > 0 {
			want = at(tc.until)
		}
		if got := h.Until(voting(1, 2, 3)); got != want {
			t.Errorf("%s: until %v, want %v", tc.name, got, want)
		}
	}
}

// A holder asks again when a quarter of what it is promised has passed: of what it was promised
// last, where that is less than what it asks for.
func TestWhenAHolderAsksAgain(t *testing.T) {
	h := NewHolder(config(1))
	h.Ask(at(0))
	if got, want := h.Next(), at(ttl/4); got != want {
		t.Errorf("it asks again at %v, want %v", got, want)
	}
	h.Promised(2, Promise{Boot: 1, Seq: 1, TTL: ttl / 2}, Log{})
	h.Ask(at(ttl))
	if got, want := h.Next(), at(ttl+ttl/8); got != want {
		t.Errorf("with a promise of half the length it asks again at %v, want %v", got, want)
	}
}

// The stamp is met once in an unbroken chain, and again in another.
func TestChain(t *testing.T) {
	h := NewHolder(config(1))
	voters := []machine.NodeID{1, 2, 3}
	steps := []struct {
		name   string
		stamp  uint64
		log    uint64
		counts bool
	}{
		{"first", 9, 8, false},
		{"renewal", 9, 8, false},
		{"renewal, met", 9, 9, true},
		{"renewal of what was met, after a restart of the leader", 9, 0, true},
		{"another chain", 12, 11, false},
	}
	for i, st := range steps {
		now := at(time.Duration(i) * 50 * time.Millisecond)
		r := h.Ask(now)
		h.Promised(2, Promise{Boot: 1, Seq: r.Seq, TTL: ttl, Stamp: Stamp{2, st.stamp}}, Log{Term: 2, Received: st.log})
		if got := h.Until(voting(voters...)) > now; got != st.counts {
			t.Errorf("%s: counts %v, want %v", st.name, got, st.counts)
		}
	}
	h.Reached(Log{Term: 2, Commit: 12})
	if h.Until(voting(voters...)) == 0 {
		t.Errorf("the log has come to the stamp, and the promise does not count")
	}
}

func TestUntilAMajorityIsBound(t *testing.T) {
	ids := func(list ...machine.NodeID) []machine.NodeID { return list }
	for _, tc := range []struct {
		name     string
		voters   []machine.NodeID
		grantors []machine.NodeID // each 10 ms after the one before
		want     int              // which of them it is that ends the lease; -1: none, -2: it never ends
	}{
		{"alone", ids(1), nil, -2},
		{"one of two", ids(1, 2), ids(2), 0},
		{"none of three", ids(1, 2, 3), nil, -1},
		{"one of three", ids(1, 2, 3), ids(2), 0},
		{"two of three: the later", ids(1, 2, 3), ids(2, 3), 1},
		{"one of five", ids(1, 2, 3, 4, 5), ids(4), -1},
		{"three of five: the second", ids(1, 2, 3, 4, 5), ids(4, 2, 3), 1},
		{"a learner, by one of three", ids(2, 3, 4), ids(2), -1},
		{"a learner, by two of three", ids(2, 3, 4), ids(2, 4), 0},
		{"by a learner and itself", ids(1, 2, 3), ids(9, 1), -1},
	} {
		h := NewHolder(config(1))
		for i, g := range tc.grantors {
			r := h.Ask(at(time.Duration(i) * 10 * time.Millisecond))
			h.Promised(g, Promise{Boot: 1, Seq: r.Seq, TTL: ttl}, Log{})
		}
		want := machine.Mono(0)
		switch {
		case tc.want == -2:
			want = machine.Never
		case tc.want >= 0:
			want = at(time.Duration(tc.want)*10*time.Millisecond + 198*time.Millisecond)
		}
		if got := h.Until(voting(tc.voters...)); got != want {
			t.Errorf("%s: until %v, want %v", tc.name, got, want)
		}
	}
}

func TestGiveUp(t *testing.T) {
	h := NewHolder(config(1))
	voters := []machine.NodeID{1, 2, 3}
	first, second := h.Ask(at(0)), h.Ask(at(1))
	h.Promised(2, Promise{Boot: 1, Seq: first.Seq, TTL: ttl}, Log{})
	if got := h.GiveUp(); got != (Return{Boot: 1, Seq: second.Seq}) || h.Until(voting(voters...)) != 0 {
		t.Errorf("got %+v and a lease until %v", got, h.Until(voting(voters...)))
	}
	h.Promised(2, Promise{Boot: 1, Seq: second.Seq, TTL: ttl}, Log{})
	if h.Until(voting(voters...)) != 0 {
		t.Errorf("a promise counts that was given back before it came")
	}
	third := h.Ask(at(2))
	h.Promised(2, Promise{Boot: 1, Seq: third.Seq, TTL: ttl}, Log{})
	if h.Until(voting(voters...)) == 0 {
		t.Errorf("a promise that was asked for later does not count")
	}
}

// voting is a membership with these voters, in which 1 learns if it is none of them.
func voting(ids ...machine.NodeID) Memberships {
	m := Membership{Index: 1, Voters: ids}
	if !m.Has(1) {
		m.Learners = []machine.NodeID{1}
	}
	return Memberships{m}
}

// A holder that gave its promises up asks at once when it wants some again.
func TestWhoGaveUpAsksAtOnce(t *testing.T) {
	h := NewHolder(config(1))
	h.Ask(at(0))
	if back := h.GiveUp(); back != (Return{Boot: 1, Seq: 1}) || h.Next() != 0 {
		t.Errorf("it gives back %+v, and asks again at %v, want what it asked for, and at once", back, h.Next())
	}
	if again := h.Ask(at(1)); again.Seq != 2 {
		t.Errorf("it asks again by number %d, want 2", again.Seq)
	}
}
