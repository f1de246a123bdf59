package placement

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// stage is a planner over the wide area with a counter at each site.
type stage struct {
	testing.TB
	*Planner
	counters []*Counter
	now      machine.Mono
}

func newStage(t testing.TB, s Settings) *stage {
	p := widePlanner(s)
	return &stage{TB: t, Planner: p, counters: newCounters(p.settings.Buckets)}
}

// plan lets so many seconds pass.
func (s *stage) plan(after float64) (conf *Configuration, changed bool) {
	s.Helper()
	if err := report(s.Planner, s.counters); err != nil {
		s.Fatal(err)
	}
	s.now += seconds(after)
	conf, changed = s.Plan(s.now)
	for _, c := range s.counters {
		c.Follow(conf)
	}
	return conf, changed
}

func (s *stage) read(site, n int, key string) {
	times(n, func() { s.counters[site].Read([]byte(key)) })
}

func (s *stage) write(site, n int, keys ...string) {
	var list [][]byte
	for _, k := range keys {
		list = append(list, []byte(k))
	}
	times(n, func() { s.counters[site].Write(wide[site].ID, list...) })
}

func (s *stage) wantHeld(key string, want Set) {
	s.Helper()
	if got := s.Present().Holders([]byte(key)); got != want {
		s.Errorf("%s is held by %05b, want %05b", key, got, want)
	}
}

// TestNewLeader: it begins with what is in force, holds everything itself, and undoes
// nothing for want of evidence before it has had the time to see some.
func TestNewLeader(t *testing.T) {
	for _, policy := range []Policy{Quorum, Cost} {
		old := must(t)(Parse("key:k=CA,JP,IRL; default=CA", wide))
		p, err := NewPlanner(Settings{Policy: policy, Members: wide, Leader: 4, HalfLife: time.Minute}, old)
		if err != nil {
			t.Fatal(err)
		}
		want := SetOf(ca, jp, irl, va)
		for at := seconds(0); at < seconds(239); at += seconds(10) {
			conf, _ := p.Plan(at)
			if got := conf.Holders([]byte("k")); got != want {
				t.Fatalf("%v: after %v k is held by %05b, want %05b", policy, time.Duration(at), got, want)
			}
			if every, _ := conf.Everything(); !every.Has(va) {
				t.Fatalf("the leader does not hold everything: %s", conf.Format(wide))
			}
		}
	}
}

// TestNewLeaderOfWhatNobodyUses: keys and ranges with holders of their own lose them when the new leader has had the
// time to see that nobody uses them, and a default loses holders that are down at once.
func TestNewLeaderOfWhatNobodyUses(t *testing.T) {
	for _, policy := range []Policy{Quorum, Cost} {
		for _, cell := range []string{"key:k", "range:k..l", "prefix:k"} {
			old := must(t)(Parse(cell+"=CA,JP,IRL; default=CA", wide))
			p, err := NewPlanner(Settings{Policy: policy, Members: wide, Leader: 4, HalfLife: time.Minute}, old)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []float64{0, 239, 241} {
				conf, _ := p.Plan(seconds(at))
				if left := len(conf.Cells()); left != map[bool]int{true: 1}[at < 240] {
					t.Errorf("%v: %s, which nobody uses: after %v s %d cells are left", policy, cell, at, left)
				}
			}
		}
	}
	p, err := NewPlanner(Settings{Policy: Cost, Members: wide, Leader: 4}, must(t)(Parse("default=CA,JP,VA", wide)))
	if err != nil {
		t.Fatal(err)
	}
	p.Down(1, true)
	if conf, _ := p.Plan(seconds(10)); conf.Default().Has(jp) || !conf.Default().Has(va) {
		t.Errorf("the default is held by %05b, want the leader, and not the member that is down", conf.Default())
	}
}

// TestNewLeaderOfAQuorum: the leader joins the holders of a key, and somebody goes as
// soon as it is known who reads.
func TestNewLeaderOfAQuorum(t *testing.T) {
	old := must(t)(Parse("key:k=CA,JP,IRL; default=CA", wide))
	p, err := NewPlanner(Settings{Policy: Quorum, Members: wide, Leader: 4}, old)
	if err != nil {
		t.Fatal(err)
	}
	c := NewCounter(MaxBuckets)
	times(50, func() { c.Read([]byte("k")) })
	if err := p.Observe(1, c.Take()); err != nil {
		t.Fatal(err)
	}
	conf, _ := p.Plan(seconds(10))
	if got := conf.Holders([]byte("k")); !got.Has(jp) || !got.Has(va) || got.Len() != 3 {
		t.Errorf("k is held by %05b, want JP, VA and one more", got)
	}
}

// TestUnknownOrigins: what they write is nobody's.
func TestUnknownOrigins(t *testing.T) {
	p := widePlanner(Settings{Policy: Cost, Buckets: 4})
	c := NewCounter(4)
	times(9, func() { c.Write(77, []byte("a"), []byte("b")) })
	if err := p.Observe(1, c.Take()); err != nil {
		t.Fatal(err)
	}
	if sum := total(p.buckets) + total(p.keys["a"]) + total(p.pairs[pair{"a", "b"}]); sum != 0 {
		t.Errorf("%g writes of somebody unknown were counted", sum)
	}
}

// TestSpansThatCannotBeCells are passed over, whoever made them up.
func TestSpansThatCannotBeCells(t *testing.T) {
	p := widePlanner(Settings{Policy: Quorum, Buckets: 4})
	long := bytes.Repeat([]byte("k"), maxKey+1)
	counts := Counts{Buckets: 4}
	for _, s := range []spanCount{{Key: long}, {Key: []byte("b"), End: []byte("a")}, {}, {Key: []byte("b"), End: long}} {
		s.Reads = 1000
		counts.Spans = append(counts.Spans, s)
	}
	if err := p.Observe(1, counts); err != nil {
		t.Fatal(err)
	}
	if conf, _ := p.Plan(seconds(10)); len(conf.Cells()) > 0 {
		t.Errorf("cells are %v, want none", conf.Cells())
	}
}

// TestEqualLoads: which of them are kept does not depend on chance.
func TestEqualLoads(t *testing.T) {
	loads := map[string][]float32{}
	for i := range 100 {
		known(loads, fmt.Sprintf("%02d", i), 1)[0] = 1
	}
	known(loads, "99", 1)[0] = 2
	keep(loads, 3, strings.Compare)
	if got := fmt.Sprint(byLoad(loads, strings.Compare)); got != "[99 00 01]" {
		t.Errorf("kept %s, want the greatest load and the first two of the others", got)
	}
}

func TestDown(t *testing.T) {
	for _, policy := range []Policy{Quorum, Cost} {
		s := newStage(t, Settings{Policy: policy})
		s.read(jp, 1000, "k")
		s.plan(10)
		if !s.Present().Holders([]byte("k")).Has(jp) {
			t.Fatalf("%v: the reader does not hold", policy)
		}
		s.Down(1, true)
		s.Down(2, true) // the leader is never down
		if s.distances.down.Has(ca) {
			t.Errorf("%v: the leader is down: writes would not wait for it, and every present set would be lame", policy)
		}
		conf, _ := s.plan(10)
		if _, some := conf.Everything(); some.Has(jp) || !some.Has(ca) {
			t.Errorf("%v: %05b hold something, want all but the one that is down", policy, some)
		}
		s.Down(1, false)
		s.plan(10)
		if !s.Present().Holders([]byte("k")).Has(jp) {
			t.Errorf("%v: a member that is back does not hold again", policy)
		}
	}
}

// TestDistancesWaver: a tenth more or less is not news, and somebody unknown is nobody.
func TestDistancesWaver(t *testing.T) {
	p := widePlanner(Settings{Policy: Cost})
	for _, test := range []struct{ told, want float64 }{{125, 120}, {110, 120}, {140, 140}, {127, 140}, {60, 60}} {
		p.RTT(1, 2, duration(test.told))
		if got := p.distances.rtt[jp][ca]; got != test.want || p.distances.rtt[ca][jp] != got {
			t.Errorf("told %g ms the distance is %g, want %g", test.told, got, test.want)
		}
	}
	p.RTT(1, 99, time.Second)
	p.RTT(1, 2, -time.Second)
	if got := p.distances.longest(); got != 270 {
		t.Errorf("the longest distance is %g ms, want 270", got)
	}
}

// TestPlannerIsBounded floods it with keys, ranges and pairs that never come again.
func TestPlannerIsBounded(t *testing.T) {
	p := widePlanner(Settings{Policy: Cost, Buckets: 16})
	most := 0
	for i := range 60 {
		counts := Counts{Buckets: 16, Origins: []machine.NodeID{1, 77}, Writes: make([][]bucketCount, 2)}
		for j := range 500 {
			key := fmt.Appendf(nil, "%d/%d", i, j)
			counts.Spans = append(counts.Spans,
				spanCount{key, nil, Load{Reads: 5, Writes: []uint64{1, 1}}},
				spanCount{key, append(key, 'z'), Load{Reads: 5, Writes: []uint64{1, 1}}})
			counts.Pairs = append(counts.Pairs, PairCount{key, append(key, 'z'), []uint64{4, 4}})
		}
		if err := p.Observe(1, counts); err != nil {
			t.Fatal(err)
		}
		most = max(most, len(p.keys), len(p.ranges), len(p.pairs))
		if i%10 == 9 {
			if conf, _ := p.Plan(seconds(float64(i))); len(conf.Cells()) > 256 {
				t.Errorf("%d cells", len(conf.Cells()))
			}
			if len(p.keys) > knownKeys+256 || len(p.ranges) > knownRanges+maxRanges || len(p.pairs) > knownPairs {
				t.Errorf("after a plan it knows %d keys, %d ranges and %d pairs", len(p.keys), len(p.ranges), len(p.pairs))
			}
		}
	}
	if most > 2*knownKeys {
		t.Errorf("in between it knew %d", most)
	}
	p.Plan(seconds(7200)) // 24 half-lives
	p.Plan(seconds(7201)) // and there are no cells any more
	if n := len(p.keys) + len(p.ranges) + len(p.pairs); n > 0 {
		t.Errorf("after two hours of silence it knows %d keys, ranges and pairs, want none", n)
	}
}

// TestSameInputsSameBytes: no plan depends on the order of a map.
func TestSameInputsSameBytes(t *testing.T) {
	w := newWorkload(2000, 0.99, 0.7)
	var want [][]byte
	for run := range 3 {
		s, src := newStage(t, Settings{Policy: Cost, Buckets: 256}), rand.NewPCG(1, 2)
		rnd := rand.New(src)
		for i := range 10 {
			w.run(s.counters, 2000, src)
			for range 200 {
				a := w.keys[rnd.IntN(5)]
				s.counters[rnd.IntN(sites)].Write(3, a, w.keys[rnd.IntN(5)])
				s.counters[rnd.IntN(sites)].ReadRange(a, []byte("user9"))
			}
			conf, _ := s.plan(10)
			if data := conf.Encode(); run == 0 {
				want = append(want, data)
			} else if !bytes.Equal(data, want[i]) {
				t.Fatalf("plan %d of run %d gave other bytes", i, run)
			}
		}
		if len(s.Present().Cells()) == 0 || len(s.pairs) == 0 || len(s.ranges) == 0 {
			t.Errorf("%d cells, %d pairs, %d ranges: this tries too little", len(s.Present().Cells()), len(s.pairs), len(s.ranges))
		}
	}
}

func TestPlannerRefuses(t *testing.T) {
	good := Settings{Policy: Cost, Members: wide, Leader: 2}
	for want, change := range map[string]func(*Settings){
		"policy 0 is neither":           func(s *Settings) { s.Policy = 0 },
		"the leader 9 is not among":     func(s *Settings) { s.Leader = 9 },
		"0 members":                     func(s *Settings) { s.Members = nil },
		"1 comes after 1":               func(s *Settings) { s.Members = []Member{{ID: 1}, {ID: 1}} },
		"3 buckets":                     func(s *Settings) { s.Buckets = 3 },
		"5000 cells":                    func(s *Settings) { s.Cells = 5000 },
		"half-life, price, prior":       func(s *Settings) { s.HalfLife = -1 },
		"prior and doubt are not negat": func(s *Settings) { s.Doubt = -1 },
	} {
		s := good
		change(&s)
		if _, err := NewPlanner(s, nil); !errors.Is(err, errSettings) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an ErrSettings that says %q", err, want)
		}
	}
	p, err := NewPlanner(good, nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, observe := range map[string]error{
		"they come from 9":  p.Observe(9, NewCounter(MaxBuckets).Take()),
		"they are in 8 buc": p.Observe(1, NewCounter(8).Take()),
	} {
		if !errors.Is(observe, errCounts) || !strings.Contains(observe.Error(), want) {
			t.Errorf("got %v, want an ErrCounts that says %q", observe, want)
		}
	}
}

// TestManyMembers: of more than eight, those who do most are chosen from.
func TestManyMembers(t *testing.T) {
	var members []Member
	for id := range 20 {
		members = append(members, Member{ID: machine.NodeID(id + 1), Learner: id >= 9})
	}
	p, err := NewPlanner(Settings{Policy: Cost, Members: members, Leader: 1, Buckets: 64}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for id := machine.NodeID(1); id <= 20; id++ {
		c := NewCounter(64)
		times(int(id)*10, func() { c.Read([]byte("k")) })
		if err := p.Observe(id, c.Take()); err != nil {
			t.Fatal(err)
		}
	}
	conf, _ := p.Plan(seconds(10))
	if got, want := conf.Holders([]byte("k")), SetOf(0, 13, 14, 15, 16, 17, 18, 19); got != want {
		t.Errorf("held by %020b, want the leader and the seven that read most, %020b", got, want)
	}
}

func BenchmarkPlan(b *testing.B) {
	w := newWorkload(100_000, 0.99, 0.9)
	s, src := newStage(b, Settings{Policy: Cost}), rand.NewPCG(1, 2)
	for range 5 {
		w.run(s.counters, 30_000, src)
		s.plan(10)
	}
	for b.Loop() {
		s.plan(10)
	}
}

// Members are given up and come back each by itself, and the leader is never given up.
func TestEachIsGivenUpByItself(t *testing.T) {
	p, err := NewPlanner(Settings{Policy: Quorum, Members: []Member{{ID: 10}, {ID: 20}, {ID: 30}, {ID: 40}}, Leader: 10, Buckets: 16}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		id   machine.NodeID
		down bool
		want Set
	}{
		{20, true, SetOf(1)}, {40, true, SetOf(1, 3)}, {40, true, SetOf(1, 3)}, {10, true, SetOf(1, 3)}, {99, true, SetOf(1, 3)},
		{20, false, SetOf(3)}, {30, false, SetOf(3)}, {40, false, 0},
	} {
		if p.Down(step.id, step.down); p.distances.down != step.want {
			t.Errorf("member %d is down: %v, and so are %b, want %b", step.id, step.down, p.distances.down, step.want)
		}
	}
}

// How long a planner has watched is counted from its first plan, whatever its clock says.
func TestAPlannerCountsFromItsFirstPlan(t *testing.T) {
	p, err := NewPlanner(Settings{Policy: Quorum, Members: []Member{{ID: 10}}, Leader: 10, Buckets: 16}, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := machine.Mono(0).Add(100 * time.Hour)
	for _, now := range []machine.Mono{first, first.Add(time.Hour)} {
		if p.Plan(now); p.began != first || p.decayed != now {
			t.Errorf("at %v it has begun at %v, and counted all less until %v", now, p.began, p.decayed)
		}
	}
}
