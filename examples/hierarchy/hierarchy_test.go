package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
)

const (
	span  = 300 * time.Millisecond
	delay = 5 * time.Millisecond
	drift = 1000
)

func newStorage() *register.Memory {
	return register.NewMemory(register.Header{Set: machine.ID{1}, Of: 1, Term: span, Delay: delay, Drift: drift})
}

func join(t *testing.T, m *register.Memory) (*storage.Leaser, *register.Faults) {
	t.Helper()
	faults := &register.Faults{Store: m.Open()}
	set, err := register.NewSet([]register.Store{faults})
	if err != nil {
		t.Fatal(err)
	}
	l := storage.New(set, storage.Options{})
	t.Cleanup(func() { l.Close() })
	t.Cleanup(faults.Heal)
	return l, faults
}

// owner is a process that owns whenever it can. Its clients take every sub-lease that they
// can get.
type owner struct {
	table  *Table
	faults *register.Faults

	mu      sync.Mutex
	granted []held
}

// start starts one whose plain lease has a name, and ends it with the test.
func start(t *testing.T, m *register.Memory, election string) *owner {
	t.Helper()
	l, faults := join(t, m)
	o := &owner{table: NewTable(), faults: faults}
	outer := &Outer{
		Epochs:   Epochs{Store: l, Name: "outer"},
		Election: tenure.Election{Leaser: l, Claim: tenure.Claim{Name: election}},
		Me:       NewOwner(""), Span: span, Drift: drift, Table: o.table,
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := outer.Run(ctx); ctx.Err() == nil {
			t.Errorf("an owner ended with %v", err)
		}
	})
	running.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			time.Sleep(time.Millisecond / 4)
			h, err := o.table.Grant(fmt.Sprint(i%7), outer.Me.ID, span)
			if err != nil {
				continue
			}
			o.mu.Lock()
			o.granted = append(o.granted, h)
			o.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		faults.Heal()
		cancel()
		running.Wait()
	})
	return o
}

// ownership summarizes the sub-leases that an epoch granted.
type ownership struct {
	owner        *owner
	since, until machine.Mono
	grants       int
}

// judge returns the epochs. No sub-lease of one lasts into another.
func judge(t *testing.T, owners ...*owner) map[uint64]*ownership {
	t.Helper()
	epochs := map[uint64]*ownership{}
	for _, o := range owners {
		o.mu.Lock()
		granted := slices.Clone(o.granted)
		o.mu.Unlock()
		for _, h := range granted {
			r := epochs[Epoch(h.token)]
			if r == nil {
				r = &ownership{owner: o, since: h.since}
				epochs[Epoch(h.token)] = r
			}
			if r.owner != o {
				t.Fatalf("epoch %d has two owners", Epoch(h.token))
			}
			r.since, r.until, r.grants = min(r.since, h.since), max(r.until, h.until), r.grants+1
		}
	}
	last := machine.Mono(0)
	for _, epoch := range slices.Sorted(maps.Keys(epochs)) {
		r := epochs[epoch]
		if r.since < last {
			t.Fatalf("epoch %d grants %v before what was granted earlier is over", epoch, last.Sub(r.since))
		}
		last = r.until
	}
	return epochs
}

// await judges until the epochs are as wanted.
func await(t *testing.T, owners []*owner, what string, want func(map[uint64]*ownership) bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(delay) {
		epochs := judge(t, owners...)
		if want(epochs) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not after a minute; there were %d epochs", what, len(epochs))
		}
	}
}

// newest returns the owner of the latest epoch in which a sub-lease was granted.
func newest(epochs map[uint64]*ownership) *owner {
	if len(epochs) == 0 {
		return nil
	}
	return epochs[slices.Max(slices.Collect(maps.Keys(epochs)))].owner
}

// TestDeposed: an owner that is cut off goes on granting for as long as it may, and that is
// over before the next one grants.
func TestDeposed(t *testing.T) {
	t.Parallel()
	m := newStorage()
	a, b := start(t, m, "owner"), start(t, m, "owner")
	owners := []*owner{a, b}
	await(t, owners, "the first owner", func(r map[uint64]*ownership) bool { return len(r) > 0 })
	for range 2 {
		first := newest(judge(t, owners...))
		first.faults.Hang()
		await(t, owners, "the next owner", func(r map[uint64]*ownership) bool { return newest(r) != first })
		if _, err := first.table.Grant("another name", "somebody", span); !errors.Is(err, ErrNotOwner) {
			t.Errorf("a deposed owner grants: %v", err)
		}
		first.faults.Heal()
	}
}

// TestEverybodyLeads: the plain lease is violated all the time, as two elections where
// there should be one. The epochs know nothing of it.
func TestEverybodyLeads(t *testing.T) {
	t.Parallel()
	m := newStorage()
	owners := []*owner{start(t, m, "an election"), start(t, m, "another")}
	await(t, owners, "two epochs of each owner", func(r map[uint64]*ownership) bool {
		epochs := map[*owner]int{}
		for _, x := range r {
			epochs[x.owner]++
		}
		return epochs[owners[0]] >= 2 && epochs[owners[1]] >= 2
	})
}

// TestCheap: a grant costs no access to the storage.
func TestCheap(t *testing.T) {
	t.Parallel()
	l, faults := join(t, newStorage())
	var accesses atomic.Int64
	faults.Plan = func(register.Op) register.Fault {
		accesses.Add(1)
		return register.None
	}
	table := NewTable()
	outer := &Outer{
		Epochs:   Epochs{Store: l, Name: "outer"},
		Election: tenure.Election{Leaser: l, Claim: tenure.Claim{Name: "owner"}},
		Me:       NewOwner(""), Span: span, Drift: drift, Table: table,
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- outer.Run(ctx) }()
	const grants = 20_000
	for i := 0; i < grants; {
		name := fmt.Sprint(i % 1000)
		h, err := table.Grant(name, "somebody", span)
		if err != nil {
			time.Sleep(delay)
			continue
		}
		table.Release(name, h.token)
		i++
	}
	cancel()
	<-ended
	if n := accesses.Load(); n > grants/10 {
		t.Errorf("%d accesses for %d grants", n, grants)
	}
}

func TestEpochs(t *testing.T) {
	t.Parallel()
	l, _ := join(t, newStorage())
	e := Epochs{Store: l, Name: "outer"}
	if epoch, _, err := e.Newest(t.Context()); epoch != 0 || err != nil {
		t.Errorf("at first the newest is %d, %v", epoch, err)
	}
	for epoch := range uint64(12) {
		epoch++
		me := NewOwner(fmt.Sprint("unix:", epoch))
		if got, err := e.Propose(t.Context(), epoch, me); got != me || err != nil {
			t.Errorf("epoch %d is decided for %v, %v, want %v", epoch, got, err, me)
		}
		for _, e := range []Epochs{e, {Store: l, Name: "outer"}, {Store: l, Name: "outer", known: epoch / 2}} {
			if got, owner, err := e.Newest(t.Context()); got != epoch || owner != me || err != nil {
				t.Errorf("the newest is %d of %v, %v, want %d of %v", got, owner, err, epoch, me)
			}
		}
	}
	if got, err := e.Propose(t.Context(), 3, NewOwner("late")); got.Address != "unix:3" || err != nil {
		t.Errorf("epoch 3 belongs to %v, %v", got, err)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := NewTable()
	if _, err := table.Grant("x", "a", time.Minute); !errors.Is(err, ErrNotOwner) {
		t.Errorf("shut: %v", err)
	}
	soon := clock.Now().Add(time.Minute)
	table.Open(3, soon)
	x, err := table.Grant("x", "a", time.Hour)
	if err != nil || x.until != soon || Epoch(x.token) != 3 {
		t.Errorf("granted %+v, %v, want until the outer lease ends", x, err)
	}
	if _, err := table.Grant("x", "b", time.Hour); !errors.Is(err, ErrHeld) {
		t.Errorf("to another: %v", err)
	}
	table.Open(3, soon.Add(time.Minute))
	if longer, err := table.Grant("x", "a", time.Hour); err != nil || longer.token != x.token || longer.until != soon.Add(time.Minute) {
		t.Errorf("prolonged to %+v, %v", longer, err)
	}
	if shorter, err := table.Grant("x", "a", time.Second); err != nil || shorter.until != soon.Add(time.Minute) {
		t.Errorf("a promise is cut to %+v, %v", shorter, err)
	}
	table.Release("x", x.token+1)
	if _, err := table.Grant("x", "b", time.Hour); !errors.Is(err, ErrHeld) {
		t.Errorf("released by another token: %v", err)
	}
	table.Release("x", x.token)
	y, err := table.Grant("x", "b", time.Nanosecond)
	if err != nil || y.token <= x.token {
		t.Errorf("after the release: %+v, %v", y, err)
	}
	for clock.Now() < y.until {
	}
	if z, err := table.Grant("x", "c", time.Hour); err != nil {
		t.Errorf("after its end: %+v, %v", z, err)
	}
	table.Shut()
	if _, err := table.Grant("x", "c", time.Hour); !errors.Is(err, ErrNotOwner) {
		t.Errorf("shut: %v", err)
	}
	table.Open(5, soon)
	if y, err := table.Grant("x", "b", time.Hour); err != nil || Epoch(y.token) != 5 {
		t.Errorf("in a new epoch: %+v, %v", y, err)
	}
}

// TestClocks has all clocks as far off as is allowed, in the worst directions.
func TestClocks(t *testing.T) {
	t.Parallel()
	for _, rho := range []float64{0, 50, 1000, 100_000} {
		slow, fast := 1-rho/1e6, 1+rho/1e6 // rates of clocks
		trueTime := func(d time.Duration, rate float64) time.Duration { return time.Duration(float64(d) / rate) }
		if wait, old := trueTime(Wait(span, int(rho)), fast), trueTime(span, slow); wait < old {
			t.Errorf("ρ = %v: a successor waits for %v, while a look is worth %v", rho, wait, old)
		}
		if client, owner := trueTime(Margin(span, int(rho)), slow), trueTime(span, fast); client > owner {
			t.Errorf("ρ = %v: a client has its lock for %v, its owner holds it for %v", rho, client, owner)
		}
	}
}
