package storage

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

const (
	stateTerm  = 12 * time.Second
	stateDelay = time.Second
)

// alone is a Leaser without stores, for tests that need none.
func alone(of int) (*Leaser, *clock.Fake) {
	fake := &clock.Fake{}
	fake.Advance(time.Hour)
	return &Leaser{
		clock: fake, clocks: holder.Clocks{Mono: fake}, header: register.Header{Of: of, Term: stateTerm, Delay: stateDelay},
		witnesses: newWitnesses("", machine.ID{1}), troubles: newTroubles(of, time.Minute),
	}, fake
}

func aMember(id byte, since machine.Mono) disklease.Member {
	return disklease.Member{ID: machine.ID{id}, Holder: string('a' + rune(id)), Slots: int(id) + 1, Token: uint64(id) * 10, Since: since}
}

// TestWhatAStateShows: a state shows each possible holder, in the order of the register, with its
// own fields and the latest end of its lease. The end has a margin for accesses that were under way
// at the look.
func TestWhatAStateShows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, fake := alone(1)
		now := fake.Now()
		ago := func(d time.Duration) machine.Mono { return now.Add(-d) }
		margin := 2 * stateTerm / disklease.MinTerms
		released, dead := aMember(8, now), aMember(9, now)
		released.Released, dead.Dead = true, true
		got := l.state("x", disklease.State{
			Members: []disklease.Member{aMember(1, now), released, aMember(2, ago(stateTerm/2)), dead, aMember(3, ago(stateTerm)), aMember(4, ago(2*stateTerm))},
			Waiting: 7,
		})
		holding := func(id byte, left time.Duration) tenure.Holding {
			return tenure.Holding{Holder: string('a' + rune(id)), Slots: int(id) + 1, Token: uint64(id) * 10, Until: time.Now().Add(left)}
		}
		want := tenure.State{Name: "x", Waiting: 7, Holders: []tenure.Holding{
			holding(1, stateTerm), holding(2, stateTerm/2+margin), holding(3, margin), holding(4, 0),
		}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("shown is\n%+v, want\n%+v", got, want)
		}
	})
}

// TestARefusal: it names the first holder, and remembers the members that are in the way. Members
// that released and dead members are not. Trouble is told as such.
func TestARefusal(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, fake := alone(3)
		disk := errors.New("the disk is on fire")
		released, dead := aMember(8, fake.Now()), aMember(9, fake.Now())
		released.Released, dead.Dead = true, true
		state := disklease.State{Members: []disklease.Member{dead, aMember(3, fake.Now()), released, aMember(2, fake.Now())}}
		for what, tt := range map[string]struct {
			refused disklease.Refused
			is      []error
			held    tenure.HeldError
		}{
			"others hold":      {disklease.Refused{State: state}, nil, tenure.HeldError{Name: "x", Holder: "d", Until: time.Now().Add(stateTerm)}},
			"nobody is seen":   {disklease.Refused{}, nil, tenure.HeldError{Name: "x", Holder: "another claim, which was quicker"}},
			"it was slow":      {disklease.Refused{State: state, Err: disklease.ErrSlow}, []error{disklease.ErrSlow}, tenure.HeldError{Name: "x", Holder: "me", Until: time.Now().Add(l.Takeover())}},
			"the stores fail":  {disklease.Refused{State: state, Err: disk}, []error{tenure.ErrUnavailable, disk}, tenure.HeldError{}},
			"no waiting helps": {disklease.Refused{State: state, Err: disklease.ErrRecord}, []error{disklease.ErrRecord}, tenure.HeldError{}},
		} {
			x := &claim{Lease: holder.Make(&l.clocks, "x", "me", nil), slots: 1, leaser: l}
			tt.refused.Witness = []byte(what)
			err := x.refusal(tt.refused)
			for _, is := range tt.is {
				if !errors.Is(err, is) {
					t.Errorf("%s: got %v, want it to be %v", what, err, is)
				}
			}
			var held tenure.HeldError
			if errors.As(err, &held); held != tt.held {
				t.Errorf("%s: got %v, which says %+v, want %+v", what, err, held, tt.held)
			}
			if unavailable := errors.Is(err, tenure.ErrUnavailable); unavailable != (what == "the stores fail") {
				t.Errorf("%s: the stores are unavailable: %v: %v", what, unavailable, err)
			}
			if got := l.witnesses.of("x"); string(got) != what {
				t.Errorf("%s: remembered is %q", what, got)
			}
			var met []machine.ID
			for _, m := range x.met {
				met = append(met, m.ID)
			}
			if want := []machine.ID{{3}, {2}}; what == "others hold" && !reflect.DeepEqual(met, want) {
				t.Errorf("%s: in the way are %v, want %v", what, met, want)
			}
		}
	})
}

// TestAcquiredTooLate: a claim that was given up is not held, though the stores let it in at that moment.
func TestAcquiredTooLate(t *testing.T) {
	for _, away := range []bool{false, true} {
		l, fake := alone(1)
		x := &claim{Lease: holder.Make(&l.clocks, "x", "me", nil), slots: 1, leaser: l, held: make(chan struct{})}
		verdict := x.Verdict()
		if away {
			x.End(errors.New("given up"))
		}
		x.acquired(disklease.Acquired{Token: 5, Deadline: clock.After(fake, time.Minute)})
		held := false
		select {
		case <-x.held:
			held = true
		default:
		}
		if held == away || x.Begun() == away || (len(verdict) > 0) == away || (x.Token() == 5) == away {
			t.Errorf("given up %v, and then let in: held %v, with token %d", away, held, x.Token())
		}
		if x.Begun() && x.Left() != time.Minute {
			t.Errorf("a tenure that lasts for a minute has %v left", x.Left())
		}
	}
}

// TestHopelessTrouble: no waiting cures a bad record. Another store cures the trouble of a store,
// if there is another.
func TestHopelessTrouble(t *testing.T) {
	for _, tt := range []struct {
		err         error
		one, others bool
	}{
		{disklease.ErrRecord, true, true},
		{register.ErrTooLong, true, true},
		{quorumregister.ErrExhausted, true, true},
		{register.ErrForeign, true, false},
		{register.ErrNewer, true, false},
		{register.ErrMismatch, true, false},
		{disklease.ErrSlow, false, false},
		{tenure.ErrUnavailable, false, false},
	} {
		one, _ := alone(1)
		three, _ := alone(3)
		if two, _ := alone(2); two.hopeless(tt.err) != tt.others {
			t.Errorf("in two stores %q is hopeless: %v, want %v", tt.err, !tt.others, tt.others)
		}
		if got := one.hopeless(tt.err); got != tt.one {
			t.Errorf("in one store %q is hopeless: %v, want %v", tt.err, got, tt.one)
		}
		if got := three.hopeless(tt.err); got != tt.others {
			t.Errorf("in three stores %q is hopeless: %v, want %v", tt.err, got, tt.others)
		}
	}
}

// TestEachNameHasAFile: the observation of one name is never taken for that of another.
func TestEachNameHasAFile(t *testing.T) {
	w := newWitnesses(t.TempDir(), machine.ID{1})
	if n := len(filepath.Base(w.path("x"))); n != 32 {
		t.Errorf("the file of a name is called by %d digits, want 32, so that no two names have one", n)
	}
}

// TestAMeasuredDelayIsPassedOn: the δ that follows from an access is passed to the machine with that
// access. A later one may be the write that it would be too late for.
func TestAMeasuredDelayIsPassedOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		clk := clock.NewSimulated(machine.Mono(time.Hour))
		memory := register.NewMemory(register.Header{Set: machine.ID{1}, Of: 1, Term: stateTerm, Delay: stateDelay / 10, Drift: 1000})
		set, err := register.NewSetBy(clk.Now, []register.Store{memory.Open()})
		if err != nil {
			t.Fatal(err)
		}
		l := New(set, Options{Clock: clk})
		defer l.Close()
		x, err := l.pursue(tenure.Claim{Name: "x", Holder: "me", Slots: 1})
		if err != nil {
			t.Fatal(err)
		}
		x.outcomes([]disklease.Outcome{storesTold{Event: quorumregister.Took{Time: stateDelay / 10 * 3}}})
		if got := (engine{l, nil}).Patience(); got != 5*time.Second {
			t.Errorf("with a δ of %v a try waits for %v, want 5 s", l.Delay(), got)
		}
		if want := stateDelay / 10 * 2; l.Delay() != want || x.bound != want || !x.answered {
			t.Errorf("after a slow access δ is %v, and the claim's machine knows of %v; want %v", l.Delay(), x.bound, want)
		}
		x.depart()
	})
}

// TestHowLongAStoreIsStale: for the quiet time from its latest step back, and no other store is.
func TestHowLongAStoreIsStale(t *testing.T) {
	const quiet = time.Minute
	tr := newTroubles(3, quiet)
	first := machine.Mono(0).Add(time.Hour)
	again := first.Add(quiet / 2)
	tr.note(first, quorumregister.Stale{Base: 1})
	tr.note(again, quorumregister.Stale{Base: 1})
	for at, want := range map[machine.Mono]bool{first: true, again.Add(quiet - 1): true, again.Add(quiet): false} {
		for store := range 3 {
			if got := tr.stale(at, store); got != (want && store == 1) {
				t.Errorf("store 1 went back, and again %v later; store %d is stale %v after that: %v", quiet/2, store, at.Sub(again), got)
			}
		}
	}
}

// TestSlownessIsNoTrouble: that a claim's own write was slow is told to a caller that gives up only if no
// holder is in the way. Trouble with the stores is told in any case, until an access succeeds.
func TestSlownessIsNoTrouble(t *testing.T) {
	l, _ := alone(1)
	x := &claim{Lease: holder.Make(&l.clocks, "x", "me", nil), leaser: l}
	x.troubled(disklease.ErrSlow)
	if x.trouble != nil || !errors.Is(x.slow, disklease.ErrSlow) {
		t.Errorf("a slow write is the trouble %v, and slow is %v", x.trouble, x.slow)
	}
	x.troubled(register.ErrInjected)
	if !errors.Is(x.trouble, register.ErrInjected) || !errors.Is(x.slow, disklease.ErrSlow) {
		t.Errorf("a failed access is the trouble %v, and slow is %v", x.trouble, x.slow)
	}
}

// TestATryWaitsForSlowStores: a try has time for sixteen accesses as slow as the present ones, which
// may be far slower than the header says.
func TestATryWaitsForSlowStores(t *testing.T) {
	memory := register.NewMemory(register.Header{Set: machine.ID{1}, Of: 1, Term: 12 * stateTerm, Delay: stateDelay, Drift: 1000})
	set, err := register.NewSet([]register.Store{memory.Open()})
	if err != nil {
		t.Fatal(err)
	}
	l := New(set, Options{})
	defer l.Close()
	for _, want := range []time.Duration{16 * stateDelay, 32 * stateDelay} {
		if got := (engine{l, nil}).Patience(); got != want {
			t.Errorf("with a δ of %v a try waits for %v, want %v", l.Delay(), got, want)
		}
		set.Delays().Add(stateDelay + 1)
	}
}
