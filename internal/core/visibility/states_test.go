package visibility

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// at is a state, by its index.
type at uint64

func (a at) Index() uint64 { return uint64(a) }

// result is that of a write, and read of a read by the log, at an index.
func result(index uint64) replica.Result {
	return replica.Result{ID: index, Index: index, Response: &pb.PutResponse{}}
}

func read(index uint64) replica.Result { return replica.Result{ID: index, Index: index} }

// answer answers results, and lists their indexes, with the states of reads.
func answer(s *States[at], results ...replica.Result) (told []string) {
	s.Answer(results, func(r replica.Result, read at) {
		if r.Response == nil {
			told = append(told, fmt.Sprintf("%d from %d", r.Index, read))
		} else {
			told = append(told, fmt.Sprint(r.Index))
		}
	})
	return told
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestReleasedInAnyOrder(t *testing.T) {
	var s States[at]
	s.Begin(0, 1, 1)
	results := []replica.Result{result(2), result(3), read(4), result(5)}
	for i := at(2); i <= 5; i++ {
		s.Add(i, true)
	}
	s.Capture(results)
	s.Reveal()
	want(t, "shown of what is held", s.Shown(), 1)
	want(t, "answered of what is held", answer(&s, results...), "[]")
	s.Release(replica.Released{Through: 1, Apart: []uint64{3, 4}})
	s.Reveal()
	want(t, "shown, with 2 held", s.Shown(), 1)
	want(t, "answered, with 2 held", answer(&s), "[3 4 from 4]")
	s.Release(replica.Released{Through: 4})
	s.Reveal()
	want(t, "shown, with 5 held", s.Shown(), 4)
	want(t, "answered, with 5 held", answer(&s), "[2]")
	s.Add(6, false)
	s.Reveal()
	want(t, "shown of all", s.Ahead(), "[6]")
	want(t, "answered of all", answer(&s, result(6)), "[5 6]")
	s.Release(replica.Released{Through: 6, Apart: []uint64{9}})
	s.Add(7, true)
	s.Add(9, true)
	s.Reveal()
	want(t, "answered at once", answer(&s, result(7), result(9)), "[9]")
}

// The state that was shown stays until the snapshot's state is visible; first of all, nothing.
func TestBeginAmongHeld(t *testing.T) {
	var s States[at]
	s.Begin(0, 5, 3)
	s.Reveal()
	want(t, "at the start", s.Ahead(), "[0 5]")
	s.Begin(0, 8, 3)
	s.Reveal()
	want(t, "with another snapshot", s.Ahead(), "[0 8]")
	s.Release(replica.Released{Through: 8})
	s.Reveal()
	want(t, "when all is released", s.Ahead(), "[8]")
	s.Begin(0, 12, 10)
	s.Reveal()
	want(t, "with a third", s.Ahead(), "[8 12]")
	s.Begin(0, 12, 12)
	s.Reveal()
	want(t, "with one that is released", s.Ahead(), "[12]")
}

func TestFor(t *testing.T) {
	ahead := []at{4, 6, 9}
	for _, tt := range []struct {
		ready replica.KeysReady
		want  at // 0: none
	}{
		{replica.KeysReady{Index: 3, UpTo: 3}, 4}, // all may see 4 by now
		{replica.KeysReady{Index: 3, UpTo: 3, Exact: true}, 0},
		{replica.KeysReady{Index: 5, UpTo: 8}, 6},
		{replica.KeysReady{Index: 9, UpTo: 20}, 9},
		{replica.KeysReady{Index: 7, UpTo: 8}, 0}, // its state is gone
		{replica.KeysReady{Index: 6, UpTo: 6, Exact: true}, 6},
	} {
		if got, ok := For(ahead, tt.ready); ok != (tt.want != 0) || got != tt.want {
			t.Errorf("%+v: %d, %v, want %d", tt.ready, got, ok, tt.want)
		}
	}
}

// A reader that has taken the states ahead reads them while they go on.
func TestAheadIsNotWrittenAgain(t *testing.T) {
	var s States[at]
	s.Begin(0, 1, 1)
	for i := at(2); i < 100; i++ {
		s.Add(i, true)
		s.Reveal()
		had := s.Ahead()
		copied := slices.Clone(had)
		s.Release(replica.Released{Through: uint64(i) / 2})
		s.Reveal()
		s.Add(i, true) // as it may not be, but to see where it goes
		s.Reveal()
		if !slices.Equal(had, copied) {
			t.Fatalf("%v became %v", copied, had)
		}
	}
}

// A state that is visible stays visible, whatever a snapshot knows of it.
func TestAnOlderSnapshotHidesNothing(t *testing.T) {
	var s States[at]
	s.Begin(0, 1, 1)
	s.Release(replica.Released{Through: 10})
	s.Begin(0, 12, 5)
	want(t, "through", s.Through(), 10)
	s.Release(replica.Released{Through: 7})
	want(t, "through, after a late word", s.Through(), 10)
	s.Begin(0, 14, 14)
	s.Reveal()
	want(t, "shown of a snapshot that is released", s.Ahead(), "[14]")
}

// A result that is kept is told with the release of its own entry, and in the order of the log.
func TestAnsweredAtOnce(t *testing.T) {
	var s States[at]
	s.Begin(0, 1, 1)
	results := []replica.Result{result(2), result(3), result(3), result(4)}
	want(t, "answered of what is held", answer(&s, results...), "[]")
	for _, tt := range []struct {
		out  replica.Released
		told string
	}{
		{replica.Released{Through: 2}, "[2]"},
		{replica.Released{Through: 2}, "[]"},
		{replica.Released{Through: 2, Apart: []uint64{3}}, "[3 3]"},
		{replica.Released{Through: 4}, "[4]"},
	} {
		s.Release(tt.out)
		want(t, fmt.Sprintf("answered of %+v", tt.out), answer(&s), tt.told)
	}
}

// Once all is released and answered, no state and no index is held but the one that is shown.
func TestNothingIsKept(t *testing.T) {
	var s States[at]
	s.Begin(0, 1, 1)
	for i := at(2); i <= 5; i++ {
		s.Add(i, true)
	}
	failed := read(4)
	failed.Err = fmt.Errorf("refused")
	results := []replica.Result{result(2), read(3), failed, read(5)}
	s.Capture(results)
	want(t, "states kept for reads", len(s.reads), 2)
	answer(&s, results...)
	s.Release(replica.Released{Through: 1, Apart: []uint64{3, 5}})
	answer(&s)
	s.Release(replica.Released{Through: 5})
	s.Reveal()
	answer(&s)
	for what, n := range map[string]int{
		"reads": len(s.reads), "results": len(s.kept), "indexes released apart": len(s.apart), "indexes to look for": len(s.fresh), "states ahead": len(s.ahead) - 1,
	} {
		want(t, what+" that are kept in the end", n, 0)
	}
	// An answer at once leaves nothing to look for, either.
	s.Release(replica.Released{Through: 5, Apart: []uint64{9}})
	answer(&s)
	want(t, "indexes to look for, where nothing is kept", len(s.fresh), 0)
}

// A result that comes with those of a visible entry is held by its own entry.
func TestHeldResultsBehindReleasedOnes(t *testing.T) {
	var s States[at]
	s.Begin(0, 1, 1)
	s.Add(2, false)
	s.Add(3, true)
	want(t, "answered, with 3 held", answer(&s, result(2), result(3)), "[2]")
	s.Release(replica.Released{Through: 3})
	want(t, "answered when it is released", answer(&s), "[3]")
}

// A read has the state of its entry, whatever it is called.
func TestReadsAreKnownByTheirIDs(t *testing.T) {
	var s States[at]
	s.Begin(0, 1, 1)
	s.Add(2, true)
	s.Add(3, true)
	reads := []replica.Result{{ID: 3, Index: 2}, {ID: 70, Index: 3}}
	s.Capture(reads)
	s.Release(replica.Released{Through: 3})
	s.Reveal()
	want(t, "answered", answer(&s, reads...), "[2 from 2 3 from 3]")
}

// In strict order there is not a state for each entry. A read has the state at its place, or
// the next later one, and none from before it.
func TestReadsBetweenStates(t *testing.T) {
	var s States[at]
	s.Begin(0, 1, 1)
	s.Add(4, true)
	s.Add(7, true)
	reads := []replica.Result{read(2), read(4), read(5), read(7)}
	s.Capture(reads)
	s.Release(replica.Released{Through: 7})
	s.Reveal()
	want(t, "answered", answer(&s, reads...), "[2 from 4 4 from 4 5 from 7 7 from 7]")
}

// All that was released apart since the last answers is told, however many words it came in.
func TestReleasedApartInTwoWords(t *testing.T) {
	var s States[at]
	s.Begin(0, 1, 1)
	want(t, "answered of what is held", answer(&s, result(2), result(3), result(4)), "[]")
	s.Release(replica.Released{Through: 1, Apart: []uint64{3}})
	s.Release(replica.Released{Through: 1, Apart: []uint64{4}})
	want(t, "answered of two words", answer(&s), "[3 4]")
}

// A state that comes after the word of a later release hides nothing.
func TestAStateBehindARelease(t *testing.T) {
	var s States[at]
	s.Begin(0, 1, 1)
	s.Release(replica.Released{Through: 9})
	s.Add(5, false)
	want(t, "through", s.Through(), 9)
	s.Add(9, true)
	s.Reveal()
	want(t, "shown", s.Ahead(), "[9]")
}

// A snapshot's state is shown at once only if all of it is released.
func TestWhenASnapshotIsShown(t *testing.T) {
	for released, shown := range map[uint64]string{6: "[2 8]", 7: "[2 8]", 8: "[8]", 9: "[8]"} {
		var s States[at]
		s.Begin(0, 2, 2)
		s.Begin(0, 8, released)
		s.Reveal()
		want(t, fmt.Sprint("of a state of 8 with ", released, " released"), s.Ahead(), shown)
	}
}
