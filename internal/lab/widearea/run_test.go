package widearea

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/replicasim"
)

var small = Size{Keys: 1000, Clients: 2, Requests: 60, Discard: 20}

func TestRun(t *testing.T) {
	for _, policy := range replicasim.Policies {
		r := Run{Seed: 1, Policy: policy, Workload: Figure6, Size: small}
		told := 0
		r.Progress = func(n int) { told = n }
		o, err := r.Play()
		if err != nil {
			t.Fatal(err)
		}
		if o.Stale != 0 || o.Failed != 0 {
			t.Errorf("%s: %d operations are stale and %d failed, want none", policy, o.Stale, o.Failed)
		}
		if told != small.operations() {
			t.Errorf("%s: progress ended with %d, want %d", policy, told, small.operations())
		}
		for _, s := range o.Sites {
			if got, want := s.Reads.Count+s.Writes.Count, small.Clients*(small.Requests-small.Discard); got != want {
				t.Errorf("%s, %s: %d operations count, want %d", policy, s.Site, got, want)
			}
		}
		r.Progress = nil
		if again, _ := r.Play(); !reflect.DeepEqual(o, again) {
			t.Errorf("%s: the same seed gave\n%+v and then\n%+v", policy, o, again)
		}
	}
}

// Without leases every read asks the leader, and no write is faster than light.
func TestNothingIsFasterThanTheLinks(t *testing.T) {
	o, err := Run{Seed: 1, Policy: "off", Workload: Figure6, Size: small}.Play()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range o.Sites {
		if least := s.Reads.CDF[0][0]; least < ms(RoundTrip(i, Leader)+Local) {
			t.Errorf("%s: a read took %v ms, less than to the leader and back", s.Site, least)
		}
		if least := s.Writes.CDF[0][0]; least < ms(Floor(i)+Local) || least > ms(Floor(i)+Local)+10 {
			t.Errorf("%s: the shortest write took %v ms, want a little more than %v", s.Site, least, Floor(i)+Local)
		}
		if s.Reads.Under10 != 0 {
			t.Errorf("%s: %v of the reads are local without a lease", s.Site, s.Reads.Under10)
		}
	}
}

// In key order writes take three one-way delays, and a little more.
func TestThreeDelays(t *testing.T) {
	o, err := Run{Seed: 1, Policy: "leader/key", Workload: Figure6, Size: small}.Play()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range o.Sites {
		if least := s.Writes.CDF[0][0]; least < ms(FloorByKey(i)+Local) || least > ms(FloorByKey(i)+Local)+5 {
			t.Errorf("%s: the shortest write took %v ms, want a little more than %v", s.Site, least, FloorByKey(i)+Local)
		}
	}
}

func TestLeaderLease(t *testing.T) {
	o, err := Run{Seed: 1, Policy: "leader", Workload: Figure6, Size: small}.Play()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range o.Sites {
		if i == Leader && s.Reads.Under10 < 0.9 {
			t.Errorf("%v of the reads are local at the leader, want nearly all", s.Reads.Under10)
		}
		if i != Leader && s.Reads.Under10 != 0 {
			t.Errorf("%s: %v of the reads are local, but only the leader has a lease", s.Site, s.Reads.Under10)
		}
	}
}

func TestFloor(t *testing.T) {
	for i, want := range [][2]float64{{205, 130}, {85, 85}, {105, 90}, {170, 90}, {235, 163.5}} {
		if strict, byKey := Floor(i), FloorByKey(i); ms(strict) != want[0] || ms(byKey) != want[1] {
			t.Errorf("%s: got %v and %v, want %v ms", Sites[i], strict, byKey, want)
		}
	}
	for a, row := range RoundTrips {
		for b, rtt := range row {
			if rtt != RoundTrips[b][a] || (rtt == 0) != (a == b) {
				t.Errorf("%s to %s takes %v ms, and back %v", Sites[a], Sites[b], rtt, RoundTrips[b][a])
			}
		}
	}
}

func TestSummarize(t *testing.T) {
	var samples []time.Duration
	for i := range 100 {
		samples = append(samples, time.Duration(100-i)*time.Millisecond)
	}
	l := summarize(samples)
	if l.Count != 100 || l.Mean != 50.5 || l.P50 != 50 || l.P90 != 90 || l.P99 != 99 || l.Max != 100 || l.Under10 != 0.09 {
		t.Errorf("of 1 to 100 ms: %+v", l)
	}
	if first, last := l.CDF[0], l.CDF[len(l.CDF)-1]; first != [2]float64{1, 0} || last != [2]float64{100, 1} {
		t.Errorf("the distribution goes from %v to %v", first, last)
	}
	if got := l.within(20 * time.Millisecond); got != 0.2 {
		t.Errorf("%v took 20 ms at most, want 0.2", got)
	}
	if none := summarize(nil); none.Count != 0 || none.within(time.Hour) != 0 {
		t.Errorf("of nothing: %+v", none)
	}
}

func TestWitness(t *testing.T) {
	w := witness{newest: make([]int64, 3)}
	read := func(key int, written int64) { w.read([]int{key}, w.begin(key), []int64{written}) }
	wrote := func(rev int64, keys ...int) { w.wrote(keys, w.begin(keys...), rev) }
	early := w.begin(0)
	wrote(7, 0)
	w.read([]int{0}, early, []int64{0}) // it began before the write had ended
	read(1, 0)                          // of another key
	read(0, 7)                          // sees it
	wrote(9, 0)                         // follows it
	wrote(11, 1, 2)
	w.read([]int{0, 2}, w.begin(0, 2), []int64{9, 11})
	if w.stale != 0 {
		t.Fatalf("%d operations are stale, but none missed anything", w.stale)
	}
	read(0, 7)                                                 // misses 9
	wrote(8, 0)                                                // is before it
	w.read([]int{0, 1, 2}, w.begin(0, 1, 2), []int64{9, 0, 0}) // misses 11 twice
	wrote(10, 0, 2)                                            // is before 11, on one key
	if w.stale != 4 {
		t.Errorf("%d operations are stale, want 4", w.stale)
	}
}

// Keys that go together are a group of neighbours; others are of sites apart.
func TestSeveralKeys(t *testing.T) {
	source, together, apart := rand.NewPCG(1, 2), Together.Loads(1, 1000)[2], Apart.Loads(1, 1000)[2]
	for range 1000 {
		if keys, _ := together.Next(source); keys[0]%3 != 0 || keys[1] != keys[0]+1 || keys[2] != keys[0]+2 || keys[2] >= 1000 {
			t.Fatalf("keys that go together: %v", keys)
		}
		if keys, _ := apart.Next(source); len(keys) != 3 || keys[0] == keys[1] || keys[0] == keys[2] || keys[1] == keys[2] {
			t.Fatalf("keys apart: %v", keys)
		}
	}
}

// Operations on keys that are leased apart wait for all their holders, and for the
// furthest.
func TestSeveralKeysApart(t *testing.T) {
	long(t)
	size := Size{Keys: 90, Clients: 4, Requests: 300, Discard: 150}
	mean := func(load Workload) (read, write float64) {
		o, err := Run{Seed: 1, Policy: "quorum/key", Workload: load, Size: size}.Play()
		if err != nil {
			t.Fatal(err)
		}
		if o.Stale != 0 || o.Failed != 0 {
			t.Errorf("%s: %d operations are stale and %d failed, want none", load.Name, o.Stale, o.Failed)
		}
		return o.Average(MeanRead), o.Average(MeanWrite)
	}
	read, write := mean(Together)
	apart, apartWrite := mean(Apart)
	if apart < 1.2*read || apartWrite < write+10 {
		t.Errorf("a read takes %.1f ms together and %.1f apart; a write %.1f and %.1f", read, apart, write, apartWrite)
	}
}
