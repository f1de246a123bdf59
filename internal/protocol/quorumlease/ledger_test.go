package quorumlease

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

func TestRelease(t *testing.T) {
	h2 := []Lifetime{{2, 5}}
	type said struct {
		from machine.NodeID
		Report
	}
	rep := func(from machine.NodeID, durable uint64, holders ...Lifetime) said {
		return said{from, Report{Boot: 5, Term: 3, Durable: durable, Received: durable, Holders: holders}}
	}
	for _, tc := range []struct {
		name    string
		reports []said
		commit  uint64
		want    uint64
	}{
		{"nobody holds", []said{rep(1, 9), rep(3, 9)}, 9, 9},
		{"a minority", []said{rep(1, 9)}, 9, 0},
		{"not committed (R1)", []said{rep(1, 9), rep(3, 9)}, 7, 7},
		{"a holder that is silent", []said{rep(1, 9, h2...), rep(3, 9, h2...)}, 9, 0},
		{"one grantor is not bound", []said{rep(1, 9), rep(3, 9, h2...)}, 9, 0},
		{"the holder is in the majority itself", []said{rep(1, 9), rep(2, 9)}, 9, 9},
		{"a holder that is behind", []said{rep(1, 9, h2...), rep(2, 4), rep(3, 9, h2...)}, 9, 4},
		{"a receipt", []said{rep(1, 9, h2...), rep(3, 9, h2...), {2, Report{Boot: 5, Term: 3, Durable: 4, Received: 9}}}, 9, 9},
		{"a receipt of an earlier life (Q-4)", []said{rep(1, 9, Lifetime{2, 6}), rep(3, 9, Lifetime{2, 6}), {2, Report{Boot: 5, Term: 3, Durable: 4, Received: 9}}}, 9, 4},
		{"a life that is over (R15)", []said{rep(1, 9, h2...), rep(3, 9, h2...), {2, Report{Boot: 6, Term: 3}}}, 9, 9},
		{"another term (R4)", []said{rep(1, 9), {3, Report{Boot: 5, Term: 2, Durable: 9}}}, 9, 0},
		{"bound to everyone, a learner behind (R14)", []said{rep(1, 9), {3, Report{Boot: 5, Term: 3, Durable: 9, Everyone: true}}, rep(2, 9, Lifetime{4, 5}), rep(4, 6)}, 9, 6},
		{"an earlier report comes late (Q-5)", []said{rep(1, 9), rep(3, 9, h2...), rep(3, 7)}, 9, 0},
		{"a promise ran out", []said{rep(1, 9), rep(3, 9, h2...), rep(3, 9)}, 9, 9},
	} {
		var l Ledger
		l.Begin(3, Memberships{{Voters: []machine.NodeID{1, 2, 3}, Learners: []machine.NodeID{4}}})
		for _, r := range tc.reports {
			l.Report(r.from, r.Report)
		}
		if got := l.Release(tc.commit); got != tc.want {
			t.Errorf("%s: released %d, want %d", tc.name, got, tc.want)
		}
		before := l.Release(0)
		l.Begin(4, voting(1, 2, 3))
		if got := l.Release(100); got != before {
			t.Errorf("%s: the next leadership begins with %d released, want %d", tc.name, got, before)
		}
	}
}

// Lacking names the members that keep an entry from being released, by what voters are bound to: those that hold it, do
// not have it, and of no life that is over.
func TestLacking(t *testing.T) {
	type said struct {
		from machine.NodeID
		Report
	}
	rep := func(from machine.NodeID, durable, received uint64, everyone bool, holders ...Lifetime) said {
		return said{from, Report{Boot: 5, Term: 3, Durable: durable, Received: received, Everyone: everyone, Holders: holders}}
	}
	h2, h4 := Lifetime{2, 5}, Lifetime{4, 5}
	for _, tc := range []struct {
		name    string
		reports []said
		without machine.NodeID // does not hold what is asked for
		want    []machine.NodeID
	}{
		{"nobody has reported", nil, 0, nil},
		{"nobody is bound", []said{rep(1, 9, 9, false), rep(2, 3, 3, false)}, 0, nil},
		{"a holder that has it", []said{rep(1, 9, 9, false, h2), rep(2, 7, 7, false)}, 0, nil},
		{"a holder that lacks it", []said{rep(1, 9, 9, false, h2), rep(2, 6, 6, false)}, 0, []machine.NodeID{2}},
		{"a holder that has received it", []said{rep(1, 9, 9, false, h2), rep(2, 3, 7, false)}, 0, nil},
		{"a holder that was never heard", []said{rep(1, 9, 9, false, h4)}, 0, []machine.NodeID{4}},
		{"two holders, each by a voter, of which one lacks it", []said{rep(1, 9, 9, false, h2), rep(3, 9, 9, false, h4, h2), rep(2, 8, 8, false), rep(4, 1, 1, false)}, 0, []machine.NodeID{4}},
		{"two voters are bound to one", []said{rep(1, 9, 9, false, h2), rep(3, 9, 9, false, h2), rep(2, 1, 1, false)}, 0, []machine.NodeID{2}},
		{"a life that is over", []said{rep(1, 9, 9, false, h2), {2, Report{Boot: 6, Term: 3}}}, 0, nil},
		{"bound to everyone", []said{rep(1, 9, 9, true), rep(2, 7, 7, false), rep(3, 6, 9, false)}, 0, []machine.NodeID{3, 4}},
		{"one that does not hold it", []said{rep(1, 9, 9, true), rep(2, 7, 7, false), rep(3, 6, 9, false)}, 4, []machine.NodeID{3}},
		{"a holder that does not hold it", []said{rep(1, 9, 9, false, h2), rep(2, 6, 6, false)}, 2, nil},
	} {
		var l Ledger
		l.Begin(3, Memberships{{Voters: []machine.NodeID{1, 2, 3}, Learners: []machine.NodeID{4}}})
		for _, r := range tc.reports {
			l.Report(r.from, r.Report)
		}
		if got := l.Lacking(7, func(m machine.NodeID) bool { return m != tc.without }); !slices.Equal(got, tc.want) {
			t.Errorf("%s: lacking are %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Reports are true for ever, so in whatever order they come, as often as they come,
// never is more released than by some choice of one report for each voter.
func TestOrderOfReportsReleasesNoMore(t *testing.T) {
	voters := []machine.NodeID{1, 2, 3}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		type said struct {
			from machine.NodeID
			Report
		}
		var all []said
		for _, v := range voters {
			r := Report{Boot: 1, Term: 1}
			for range 6 {
				if rng.IntN(4) == 0 {
					r.Boot, r.Received = r.Boot+1, r.Durable
				}
				r.Durable += rng.Uint64N(4)
				r.Received = max(r.Received, r.Durable) + rng.Uint64N(2)
				r.Holders, r.Everyone = nil, rng.IntN(6) == 0
				for _, h := range voters {
					if h != v && rng.IntN(2) == 0 {
						r.Holders = append(r.Holders, Lifetime{h, 1 + rng.Uint64N(3)})
					}
				}
				all = append(all, said{v, r})
			}
		}
		// has is what a life of a member has, by all that was ever said.
		has := func(who Lifetime) (index uint64) {
			for _, s := range all {
				if s.from == who.Member {
					index = max(index, s.Durable)
					if s.Boot == who.Boot {
						index = max(index, s.Received)
					} else if s.Boot > who.Boot {
						return 1 << 60
					}
				}
			}
			return index
		}
		var limits []uint64
		for _, v := range voters {
			best := uint64(0)
			for _, s := range all {
				if s.from != v {
					continue
				}
				limit := s.Durable
				for _, h := range s.Holders {
					limit = min(limit, has(h))
				}
				for _, m := range voters {
					if s.Everyone {
						limit = min(limit, has(Lifetime{m, 99}))
					}
				}
				best = max(best, limit)
			}
			limits = append(limits, best)
		}
		slices.Sort(limits)

		var l Ledger
		l.Begin(1, voting(voters...))
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for range 3 {
			for _, s := range all {
				l.Report(s.from, s.Report)
				if got := l.Release(1 << 50); got > limits[1] {
					t.Fatalf("seed %d: released %d, want %d at most", seed, got, limits[1])
				}
			}
		}
	}
}

func TestStalls(t *testing.T) {
	var l Ledger
	l.Begin(1, voting(1, 2, 3))
	s := NewStalls(config(1))
	bound := func(to ...Lifetime) {
		l.Report(1, Report{Boot: 1, Term: 1, Durable: 20, Holders: to})
	}
	bound(Lifetime{2, 1})
	for _, st := range []struct {
		name   string
		ms     int
		commit uint64
		has    uint64 // of the holder, by then
		bound  bool
		want   bool
	}{
		{"it is behind", 0, 5, 3, true, false},
		{"patience", 100, 5, 3, true, false},
		{"and its end", 101, 5, 3, true, true},
		{"its promises ran out", 300, 6, 3, false, true},
		{"it is as far as that was", 340, 7, 6, false, true},
		{"it is as far as anybody", 350, 7, 7, false, false},
	} {
		l.Report(2, Report{Boot: 1, Term: 1, Durable: st.has, Received: st.has})
		if !st.bound {
			bound()
		}
		got := s.Look(at(time.Duration(st.ms)*time.Millisecond), st.commit, &l)
		if slices.Contains(got, 2) != st.want {
			t.Errorf("%s: stalled %v, want %v", st.name, got, st.want)
		}
	}
}

// Of a holder's unknown life only the log that all of its lives have counts, and grantors
// are told apart by the life that they are bound to.
func TestHoldingsAreOfLives(t *testing.T) {
	var l Ledger
	l.Begin(3, voting(1, 2, 3))
	l.Report(3, Report{Boot: 4, Term: 3, Durable: 7, Received: 9})
	l.Report(1, Report{Boot: 1, Term: 3, Durable: 9, Received: 9, Holders: []Lifetime{{3, 4}}})
	l.Report(2, Report{Boot: 1, Term: 3, Durable: 9, Received: 9, Holders: []Lifetime{{3, 4}, {3, 5}}})
	got := l.Holdings()
	want := []Holding{{Lifetime{3, 4}, 9, []machine.NodeID{1, 2}}, {Lifetime{3, 5}, 7, []machine.NodeID{2}}}
	if !slices.EqualFunc(got, want, func(a, b Holding) bool {
		return a.Lifetime == b.Lifetime && a.Has == b.Has && slices.Equal(a.Grantors, b.Grantors)
	}) {
		t.Errorf("holdings %+v, want %+v", got, want)
	}
}
