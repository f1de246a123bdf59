package register

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

func put(seq uint64) Op {
	return Op{Name: "x", Op: quorumregister.Put{Version: machine.Version{Seq: seq}}}
}

var query = Op{Name: "x", Op: quorumregister.Query{}}

// seqOf is the Seq that a store shows, behind its faults.
func seqOf(s Store) uint64 {
	return s.Do([]Op{query})[0].Value.(quorumregister.State).Version.Seq
}

func TestEachFault(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault Fault
		fails bool
		shows uint64 // afterwards
		lands uint64 // after Land
	}{
		{"none", None, false, 1, 1},
		{"late", Late, false, 1, 1},
		{"lost before", LostBefore, true, 0, 0},
		{"lost after", LostAfter, true, 1, 1},
		{"stuck", Stuck, true, 0, 1},
		{"torn", Torn, true, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := NewMemory(header(1, 0)).Open()
				f := &Faults{Store: m, Plan: func(Op) Fault { return c.fault }, Delay: time.Hour}
				began := time.Now()
				if err := f.Do([]Op{put(1)})[0].Err; (err != nil) != c.fails || c.fails && !errors.Is(err, ErrInjected) {
					t.Errorf("error %v", err)
				}
				if late := time.Since(began) == time.Hour; late != (c.fault == Late) {
					t.Errorf("it took %v", time.Since(began))
				}
				if got := seqOf(m); got != c.shows {
					t.Errorf("shows %d, want %d", got, c.shows)
				}
				f.Land()
				if got := seqOf(m); got != c.lands {
					t.Errorf("shows %d after Land, want %d", got, c.lands)
				}
				if err := f.Do([]Op{query})[0].Err; (err != nil) != c.fails {
					t.Errorf("a query with the same fault ends with %v", err)
				}
			})
		})
	}
}

func TestWhatIsStuckLandsWithALateOne(t *testing.T) {
	m := NewMemory(header(1, 0)).Open()
	faults := []Fault{Stuck, None, Late}
	f := &Faults{Store: m, Plan: func(Op) Fault { next := faults[0]; faults = faults[1:]; return next }}
	f.Do([]Op{put(3)})
	f.Do([]Op{query})
	if got := seqOf(m); got != 0 {
		t.Errorf("shows %d before", got)
	}
	f.Do([]Op{put(2)})
	if got := seqOf(m); got != 3 {
		t.Errorf("shows %d, want the stuck 3, which is greater", got)
	}
}

func TestDamage(t *testing.T) {
	m := NewMemory(header(1, 0)).Open()
	fault := Torn
	f := &Faults{Store: m, Plan: func(Op) Fault { return fault }}
	f.Do([]Op{put(1)})
	fault = None
	for i := range 4 {
		if err := f.Do([]Op{query})[0].Err; errors.Is(err, ErrDamaged) != (i < 3) {
			t.Errorf("query %d: %v", i, err)
		}
	}
	fault = Torn
	f.Do([]Op{put(2)})
	fault = None
	f.Do([]Op{put(2)})
	if err := f.Do([]Op{query})[0].Err; err != nil {
		t.Errorf("after a put: %v", err)
	}
	fault = Torn
	var torn []Op
	f.Tear = func(op Op) { torn = append(torn, op) }
	f.Do([]Op{put(3), query})
	fault = None
	if r := f.Do([]Op{query})[0]; len(torn) != 1 || r.Err != nil {
		t.Errorf("torn %v, then %v: the medium decides", torn, r.Err)
	}
}

func TestHangFailHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Faults{Store: NewMemory(header(1, 0)).Open()}
		f.Hang()
		var got Reply
		var names []string
		go func() { got = f.Do([]Op{put(1)})[0]; names, _ = f.Names() }()
		synctest.Wait()
		f.Hang() // again, which is no other hanging
		if seqOf(f.Store) != 0 {
			t.Error("done while it hangs")
		}
		f.Heal()
		synctest.Wait()
		if got.Err != nil || seqOf(f.Store) != 1 || !slices.Equal(names, []string{"x"}) {
			t.Errorf("healed: %v, shows %d, names %v", got.Err, seqOf(f.Store), names)
		}
		down := errors.New("down")
		f.Fail(down)
		if _, err := f.Names(); f.Do([]Op{put(2)})[0].Err != down || err != down || seqOf(f.Store) != 1 {
			t.Error("it works though it is down")
		}
		f.Heal()
		if err := f.Do([]Op{query})[0].Err; err != nil {
			t.Error(err)
		}
	})
}

func TestASeedIsAPlan(t *testing.T) {
	mix := Mix{Late: .1, LostBefore: .1, LostAfter: .1, Stuck: .1, Torn: .1}
	draw := func(seed uint64) (faults []Fault) {
		plan := mix.Seeded(seed)
		for range 10000 {
			faults = append(faults, plan(query))
		}
		return faults
	}
	a := draw(1)
	if !slices.Equal(a, draw(1)) || slices.Equal(a, draw(2)) {
		t.Error("a seed does not mean one plan")
	}
	count := map[Fault]int{}
	for _, f := range a {
		count[f]++
	}
	for f := Late; f <= Torn; f++ {
		if count[f] < 900 || count[f] > 1100 {
			t.Errorf("fault %d: %d of 10,000, want about 1,000", f, count[f])
		}
	}
	if n := count[None]; n < 4800 || n > 5200 {
		t.Errorf("no fault: %d of 10,000", n)
	}
}

// Stuck accesses take turns with each operation that is late.
func TestAQueueMovesOnOneByOne(t *testing.T) {
	m := NewMemory(header(1, 0)).Open()
	fault := Stuck
	f := &Faults{Store: m, Plan: func(Op) Fault { return fault }}
	f.Do([]Op{put(3), put(4), put(5)})
	fault = Late
	for _, want := range []uint64{3, 4} {
		f.Do([]Op{query})
		if got := seqOf(m); got != want {
			t.Errorf("shows %d, want the stuck %d", got, want)
		}
	}
	f.Land()
	if got := seqOf(m); got != 5 {
		t.Errorf("shows %d after Land, want 5", got)
	}
}

// Damage is healed by a Put that the store takes, and by no other.
func TestAFailedPutHealsNothing(t *testing.T) {
	inner := &Faults{Store: NewMemory(header(1, 0)).Open()}
	fault := Torn
	f := &Faults{Store: inner, Plan: func(Op) Fault { return fault }}
	f.Do([]Op{put(1)})
	fault = None
	inner.Fail(errors.New("down"))
	f.Do([]Op{put(2)})
	inner.Heal()
	if err := f.Do([]Op{query})[0].Err; !errors.Is(err, ErrDamaged) {
		t.Errorf("after a Put that failed: %v, want %v", err, ErrDamaged)
	}
	f.Do([]Op{put(2)})
	if err := f.Do([]Op{query})[0].Err; err != nil {
		t.Errorf("after a Put that did not: %v", err)
	}
}

// Operations are done together: they wait for one that is late, and each has its own reply.
func TestRepliesOfManyFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := []Fault{LostBefore, Late, LostAfter, None}
		f := &Faults{Store: NewMemory(header(1, 0)).Open(), Delay: time.Hour, Plan: func(Op) Fault {
			next := faults[0]
			faults = faults[1:]
			return next
		}}
		began := time.Now()
		replies := f.Do([]Op{put(9), put(1), query, query})
		if took := time.Since(began); took != time.Hour {
			t.Errorf("one of them is late, and they take %v", took)
		}
		for i, fails := range []bool{true, false, true, false} {
			if r := replies[i]; (r.Err != nil) != fails || fails && (!errors.Is(r.Err, ErrInjected) || r.Value != nil) {
				t.Errorf("reply %d: %v, %v; want an error: %v", i, r.Value, r.Err, fails)
			}
		}
		if state, ok := replies[3].Value.(quorumregister.State); !ok || state.Version.Seq != 1 {
			t.Errorf("the last one shows %+v, want what the second has put", replies[3].Value)
		}
	})
}

// A store that hangs says nothing, not even that it is down.
func TestWhatHangsIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Faults{Store: NewMemory(header(1, 0)).Open()}
		f.Hang()
		f.Fail(errors.New("down"))
		said := make(chan error, 2)
		go func() { said <- f.Do([]Op{query})[0].Err }()
		go func() { _, err := f.Names(); said <- err }()
		synctest.Wait()
		if len(said) > 0 {
			t.Errorf("%d of two calls have returned while the store hangs", len(said))
		}
		f.Heal()
		for range 2 {
			if err := <-said; err != nil {
				t.Errorf("healed: %v", err)
			}
		}
	})
}

type closing struct {
	Store
	err error
}

func (c closing) Close() error { return c.err }

func TestCloseReachesTheStore(t *testing.T) {
	want := errors.New("closed")
	if err := (&Faults{Store: closing{err: want}}).Close(); err != want {
		t.Errorf("the store says %v when it is closed, and its Faults %v", want, err)
	}
}

// Each chance of a Mix is that of its fault.
func TestAMixOfUnequalFaults(t *testing.T) {
	for fault, mix := range map[Fault]Mix{Late: {Late: 1}, LostBefore: {LostBefore: 1}, LostAfter: {LostAfter: 1}, Stuck: {Stuck: 1}, Torn: {Torn: 1}, None: {}} {
		plan := mix.Seeded(1)
		for range 10 {
			if got := plan(query); got != fault {
				t.Errorf("%+v draws %d, want %d", mix, got, fault)
			}
		}
	}
}
