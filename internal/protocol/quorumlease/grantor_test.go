package quorumlease

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

const ttl = 200 * time.Millisecond

func config(self machine.NodeID) Config { return Config{Self: self, Boot: 1, TTL: ttl} }

func at(d time.Duration) machine.Mono { return machine.Mono(time.Hour + d) }

func TestPromises(t *testing.T) {
	g := NewGrantor(config(1), at(0))
	steps := []struct {
		name    string
		now     time.Duration
		req     Request
		log     Log
		refused bool
		stamp   Stamp
		lapse   time.Duration // of the holder's promise, after this
	}{
		{"a first one is stamped", 0, Request{Boot: 7, Seq: 1}, Log{Term: 2, Last: 10}, false, Stamp{2, 10}, 210 * time.Millisecond},
		{"a renewal repeats the stamp (Q-1)", 100 * time.Millisecond, Request{Boot: 7, Seq: 2}, Log{Term: 2, Last: 20}, false, Stamp{2, 10}, 310 * time.Millisecond},
		{"an earlier request comes late", 150 * time.Millisecond, Request{Boot: 7, Seq: 1}, Log{Term: 2, Last: 20}, true, Stamp{}, 310 * time.Millisecond},
		{"what has lapsed is fresh", 310 * time.Millisecond, Request{Boot: 7, Seq: 3}, Log{Term: 3, Last: 30}, false, Stamp{3, 30}, 520 * time.Millisecond},
		{"another life is fresh (R15)", 400 * time.Millisecond, Request{Boot: 8, Seq: 1}, Log{Term: 3, Last: 40}, false, Stamp{3, 40}, 610 * time.Millisecond},
		{"an earlier life is too late (R15)", 400 * time.Millisecond, Request{Boot: 7, Seq: 9}, Log{Term: 3, Last: 40}, true, Stamp{}, 610 * time.Millisecond},
	}
	for _, st := range steps {
		p, ok := g.Grant(at(st.now), 3, st.req, st.log)
		want := Promise{Boot: st.req.Boot, Seq: st.req.Seq, TTL: ttl, Stamp: st.stamp}
		if ok == st.refused || ok && p != want {
			t.Errorf("%s: got %+v, %v, want %+v", st.name, p, ok, want)
		}
		last := at(st.lapse)
		if due := g.Due(last - 1); due != last {
			t.Errorf("%s: it lapses at %v, want %v", st.name, due, last)
		}
		if holders, _ := g.Holders(last); len(holders) > 0 {
			t.Errorf("%s: got %v when it has lapsed", st.name, holders)
		}
	}
}

func TestGivenBack(t *testing.T) {
	for _, tc := range []struct {
		name  string
		asked []uint64
		back  Return
		later []uint64 // requests that come after it
		bound bool
	}{
		{"all of them", []uint64{1, 2}, Return{7, 2}, nil, false},
		{"before a later request", []uint64{1, 2, 3}, Return{7, 2}, nil, true},
		{"of another life", []uint64{1}, Return{6, 9}, nil, true},
		{"a request that it overtook", []uint64{1}, Return{7, 2}, []uint64{2}, false},
		{"and a new request", []uint64{1}, Return{7, 2}, []uint64{2, 3}, true},
	} {
		g := NewGrantor(config(1), at(0))
		for _, seq := range tc.asked {
			g.Grant(at(0), 3, Request{Boot: 7, Seq: seq}, Log{})
		}
		g.Returned(3, tc.back)
		for _, seq := range tc.later {
			g.Grant(at(0), 3, Request{Boot: 7, Seq: seq}, Log{})
		}
		holders, _ := g.Holders(at(0))
		if got := slices.Contains(holders, Lifetime{3, 7}); got != tc.bound {
			t.Errorf("%s: bound %v, want %v", tc.name, got, tc.bound)
		}
	}
}

func TestGrantorThatForgot(t *testing.T) {
	cfg := config(1)
	cfg.EarlierTTL = time.Second // longer than what it promises now
	everyone := func(g *Grantor, d time.Duration) bool { _, all := g.Holders(at(d)); return all }

	g := NewGrantor(cfg, at(0))
	if !everyone(g, 1010*time.Millisecond-1) || everyone(g, 1010*time.Millisecond) {
		t.Errorf("after a restart it is bound to everyone until %v, want 1.01 s", g.Due(at(0)).Sub(at(0)))
	}
	first := NewGrantor(config(1), at(0))
	if everyone(first, 0) {
		t.Errorf("in its first life it is bound to everyone")
	}
}

func TestStampOfALogThatWasCut(t *testing.T) {
	g := NewGrantor(config(1), at(0))
	g.Grant(at(0), 3, Request{Boot: 7, Seq: 1}, Log{Term: 2, Last: 20})
	g.Shortened(12)
	g.Shortened(15)
	if p, _ := g.Grant(at(0), 3, Request{Boot: 7, Seq: 2}, Log{Term: 3, Last: 16}); p.Stamp != (Stamp{2, 12}) {
		t.Errorf("got %+v, want index 12: nobody can have more of it", p.Stamp)
	}
}

// A clock in doubt has promises last twice as long as they should, counted from when they
// were made last, and a renewal makes none shorter. Promises that were over are made anew
// once, and so are those of earlier lives, for as long as these may have lasted.
func TestDoubtCountsFromTheLastPromise(t *testing.T) {
	const ms = time.Millisecond
	g := NewGrantor(config(1), at(0))
	until := func(name string, want time.Duration) {
		t.Helper()
		if got := g.Due(at(want) - 1); got != at(want) {
			t.Errorf("%s: a promise ends at %v, want %v", name, got.Sub(at(0)), want)
		}
		if holders, _ := g.Holders(at(want)); len(holders) > 0 {
			t.Errorf("%s: %v are held on to at %v", name, holders, want)
		}
	}
	g.Grant(at(0), 3, Request{Boot: 7, Seq: 1}, Log{})
	g.Grant(at(100*ms), 3, Request{Boot: 7, Seq: 2}, Log{})
	until("renewed at 100ms", 310*ms)
	g.Doubt(at(90*ms), at(150*ms))
	until("in doubt at 150ms", 520*ms)
	g.Grant(at(200*ms), 3, Request{Boot: 7, Seq: 3}, Log{})
	until("renewed while it lasts longer", 520*ms)
	g.Doubt(at(90*ms), at(600*ms))
	until("made anew", 810*ms)
	g.Doubt(at(90*ms), at(900*ms))
	if holders, _ := g.Holders(at(900 * ms)); len(holders) > 0 {
		t.Errorf("a promise is made anew twice: %v", holders)
	}

	cfg := config(1)
	cfg.EarlierTTL = time.Second
	g = NewGrantor(cfg, at(0))
	g.Doubt(at(500*ms), at(1200*ms))
	for now, want := range map[time.Duration]bool{2210*ms - 1: true, 2210 * ms: false} {
		if _, all := g.Holders(at(now)); all != want {
			t.Errorf("promises of earlier lives that lasted for 1 s, made anew at 1.2 s, bind at %v: %v", now, all)
		}
	}
	g.Doubt(at(500*ms), at(2300*ms))
	if _, all := g.Holders(at(2300 * ms)); all {
		t.Error("promises of earlier lives are made anew twice")
	}
}
