package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

func header(of, index int) Header {
	return Header{Set: machine.ID{7}, Of: of, Index: index, Term: 10 * time.Second, Delay: 10 * time.Millisecond, Drift: 1000}
}

// memories returns n stores of one set, in memory, with faults to inject.
func memories(n int) (stores []Store, faults []*Faults) {
	for i := range n {
		f := &Faults{Store: NewMemory(header(n, i)).Open()}
		stores, faults = append(stores, f), append(faults, f)
	}
	return stores, faults
}

func newSet(t *testing.T, stores []Store) *Set {
	t.Helper()
	s, err := NewSet(stores)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStoresOfASetBelongTogether(t *testing.T) {
	with := func(change func(*Header)) Store {
		h := header(3, 1)
		change(&h)
		return NewMemory(h).Open()
	}
	first := NewMemory(header(3, 0)).Open()
	for name, c := range map[string]struct {
		stores []Store
		want   string // "" if it is right
	}{
		"a majority":       {[]Store{with(func(*Header) {}), first}, ""},
		"none":             {nil, "name one or more"},
		"a minority":       {[]Store{first}, "1 of the 3 stores"},
		"half of four":     {[]Store{NewMemory(header(4, 0)).Open(), NewMemory(header(4, 3)).Open()}, "2 of the 4 stores"},
		"most of four":     {[]Store{NewMemory(header(4, 0)).Open(), NewMemory(header(4, 3)).Open(), NewMemory(header(4, 1)).Open()}, ""},
		"twice":            {[]Store{first, first}, "given twice"},
		"a copy":           {[]Store{first, NewMemory(header(3, 0)).Open()}, "given twice, or copied"},
		"another set":      {[]Store{first, with(func(h *Header) { h.Set = machine.ID{8} })}, "number 2 of the stores given belong to different sets"},
		"another number":   {[]Store{first, with(func(h *Header) { h.Of = 5 })}, "for 3 and for 5 stores"},
		"another term":     {[]Store{first, with(func(h *Header) { h.Term = time.Hour })}, "different terms, 10s and 1h"},
		"another delay":    {[]Store{first, with(func(h *Header) { h.Delay = time.Hour })}, "different delays"},
		"another drift":    {[]Store{first, with(func(h *Header) { h.Drift = 5 })}, "1000 and by 5 ppm"},
		"a wrong index":    {[]Store{first, with(func(h *Header) { h.Index = 3 })}, "3 of 3"},
		"a negative index": {[]Store{with(func(h *Header) { h.Index = -1 })}, "-1 of 3"},
		"a set of none":    {[]Store{with(func(h *Header) { h.Of = 0 })}, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewSet(c.stores)
			if err == nil {
				s.Close()
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
			if err != nil && len(c.stores) > 0 && !errors.Is(err, ErrMismatch) && !errors.Is(err, ErrDamaged) {
				t.Errorf("error %v is no sentinel", err)
			}
		})
	}
}

// ends collects the results of accesses.
type ends struct {
	mu  sync.Mutex
	got []machine.Accessed
}

func (e *ends) step(a machine.Accessed) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, a)
}

func (e *ends) ids() (ids []uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.got {
		if a.Err == nil {
			ids = append(ids, a.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// batches is a store that remembers its operations by batch.
type batches struct {
	Store
	got [][]Op
}

func (b *batches) Do(ops []Op) []Reply {
	b.got = append(b.got, ops)
	return b.Store.Do(ops)
}

func TestWhatWaitsIsDoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{Store: NewMemory(header(1, 0)).Open()}
		f := &Faults{Store: b}
		s := newSet(t, []Store{f})
		f.Hang()
		e := &ends{}
		for i := range 5 {
			access, _ := s.Serve(string(rune('a'+i)), machine.ID{byte(i)}, e.step)
			access([]machine.Access{{ID: uint64(i), Op: quorumregister.Query{}}})
			synctest.Wait() // the first hangs, the others wait
		}
		f.Heal()
		synctest.Wait()
		if got := e.ids(); !slices.Equal(got, []uint64{0, 1, 2, 3, 4}) {
			t.Errorf("done: %v", got)
		}
		if len(b.got) != 2 || len(b.got[1]) != 4 || b.got[1][0].Name != "b" || b.got[1][0].Writer != (machine.ID{1}) {
			t.Errorf("batches %v, want the first alone and then all others", b.got)
		}
	})
}

func TestWhoLeavesDropsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{Store: NewMemory(header(1, 0)).Open()}
		f := &Faults{Store: b}
		s := newSet(t, []Store{f})
		query := func(id uint64) []machine.Access { return []machine.Access{{ID: id, Op: quorumregister.Query{}}} }
		f.Hang()
		e := &ends{}
		begins, leaveBegun := s.Serve("begun", machine.ID{1}, e.step)
		begins(query(1))
		synctest.Wait()
		access, leaveWaiting := s.Serve("waiting", machine.ID{2}, e.step)
		access(query(2))
		access, _ = s.Serve("staying", machine.ID{3}, e.step)
		access(query(3))
		leaveBegun()
		begins(query(4)) // too late
		leaveWaiting()
		f.Heal()
		synctest.Wait()
		if got := e.ids(); !slices.Equal(got, []uint64{3}) {
			t.Errorf("stepped %v, want the one that stayed", got)
		}
		var names []string
		for _, op := range slices.Concat(b.got...) {
			_, leaves := op.Op.(Leave)
			if leaves {
				names = append(names, "leave")
			}
			names = append(names, op.Name)
		}
		slices.Sort(names)
		if want := []string{"begun", "begun", "leave", "staying"}; !slices.Equal(names, want) {
			t.Errorf("the store was asked %v, want %v: it never heard of the writer that left while waiting", names, want)
		}
	})
}

func TestLimits(t *testing.T) {
	e := &ends{}
	s := newSet(t, []Store{NewMemory(header(3, 0)).Open(), NewMemory(header(3, 2)).Open()})
	long := strings.Repeat("x", MaxData+1)
	for _, c := range []struct {
		name string
		a    machine.Access
		want string
	}{
		{strings.Repeat("n", MaxName+1), machine.Access{Op: quorumregister.Query{}}, "name of 513 bytes"},
		{"x", machine.Access{Op: quorumregister.Put{Data: []byte(long)}}, "at most 2800"},
		{"x", machine.Access{Op: quorumregister.PutNote{Data: []byte(long[:MaxNote+1])}}, "at most 640"},
		{"x", machine.Access{At: 1, Op: quorumregister.Query{}}, "not opened"},
	} {
		access, leave := s.Serve(c.name, machine.ID{1}, e.step)
		access([]machine.Access{c.a})
		if last := e.got[len(e.got)-1]; last.Err == nil || !strings.Contains(last.Err.Error(), c.want) {
			t.Errorf("%v, want an error that says %q", last.Err, c.want)
		}
		leave()
	}
}

// TestAtTheLimits: a name, data and a note as long as they may be are taken.
func TestAtTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSet(t, []Store{NewMemory(header(1, 0)).Open()})
		for what, c := range map[string]struct {
			name string
			op   any
		}{
			"a name": {strings.Repeat("n", MaxName), quorumregister.Query{}},
			"data":   {"x", quorumregister.Put{Data: make([]byte, MaxData)}},
			"a note": {"x", quorumregister.PutNote{Data: make([]byte, MaxNote)}},
		} {
			e := &ends{}
			access, leave := s.Serve(c.name, machine.ID{1}, e.step)
			access([]machine.Access{{ID: 1, Op: c.op}})
			synctest.Wait()
			if len(e.got) != 1 || e.got[0].Err != nil {
				t.Errorf("%s as long as it may be: %+v", what, e.got)
			}
			leave()
		}
	})
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores, faults := memories(3)
		s := newSet(t, stores)
		for i, name := range []string{"b", "a", "b"} {
			stores[i].Do([]Op{{Name: name, Op: quorumregister.Put{Version: machine.Version{Seq: 1}}}})
		}
		stores[0].Do([]Op{{Name: "only a note", Op: quorumregister.PutNote{Seq: 1}}})
		faults[2].Hang()
		got, err := s.Names(t.Context())
		if err != nil || !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("names %v, %v", got, err)
		}
		faults[0].Fail(errors.New("unplugged"))
		faults[1].Fail(errors.New("on fire"))
		if _, err := s.Names(t.Context()); err == nil || !strings.Contains(err.Error(), "store 1: on fire") || !strings.Contains(err.Error(), "store 0: unplugged") {
			t.Errorf("error %v, want what failed", err)
		}
		faults[2].Heal()
	})
}

// TestNamesOfAnEvenSet: where half of the stores fail there is no majority, and nothing to wait for.
func TestNamesOfAnEvenSet(t *testing.T) {
	for _, n := range []int{2, 4} {
		synctest.Test(t, func(t *testing.T) {
			stores, faults := memories(n)
			s := newSet(t, stores)
			for _, f := range faults[:n/2] {
				f.Fail(errors.New("unplugged"))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if names, err := s.Names(ctx); !errors.Is(err, quorumregister.ErrMinority) {
				t.Errorf("half of %d stores fail: names %q, %v, want %v", n, names, err, quorumregister.ErrMinority)
			}
			faults[0].Heal()
			if _, err := s.Names(ctx); err != nil {
				t.Errorf("less than half of %d stores fail: %v", n, err)
			}
		})
	}
}

func TestCloseLeavesBehindWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores, faults := memories(3)
		s := newSet(t, stores)
		faults[1].Hang()
		e := &ends{}
		access, leave := s.Serve("x", machine.ID{1}, e.step)
		access([]machine.Access{{ID: 1, At: 0, Op: quorumregister.Query{}}, {ID: 2, At: 1, Op: quorumregister.Query{}}})
		synctest.Wait()
		access([]machine.Access{{ID: 3, At: 1, Op: quorumregister.Query{}}})
		began := time.Now()
		err := s.Close()
		if took := time.Since(began); !errors.Is(err, errHangs) || !strings.Contains(err.Error(), "store 1") || took > 2*closeWait {
			t.Errorf("closed in %v with %v", took, err)
		}
		if again := s.Close(); again != err {
			t.Errorf("closed again with %v", again)
		}
		if last := e.got[len(e.got)-1]; last.ID != 3 || !errors.Is(last.Err, errClosed) {
			t.Errorf("what waited ended with %+v", last)
		}
		access([]machine.Access{{ID: 4, At: 0, Op: quorumregister.Query{}}})
		if last := e.got[len(e.got)-1]; last.ID != 4 || !errors.Is(last.Err, errClosed) {
			t.Errorf("afterwards: %+v", last)
		}
		if _, err := s.Names(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("names: %v", err)
		}
		leave()
		faults[1].Heal()
	})
}

// closeHangs is a store whose Close hangs until it is healed.
type closeHangs struct {
	Store
	healed chan struct{}
}

func (c closeHangs) Close() error {
	<-c.healed
	return c.Store.Close()
}

// TestACloseThatHangs is left behind, like a Do that does.
func TestACloseThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := closeHangs{NewMemory(header(1, 0)).Open(), make(chan struct{})}
		s, err := NewSet([]Store{c})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.Close(); !errors.Is(err, errHangs) || time.Since(began) != closeWait {
			t.Errorf("closed after %v with %v, want %v after %v", time.Since(began), err, errHangs, closeWait)
		}
		close(c.healed)
	})
}

// TestASetWithoutAStore lists the names of the other stores, and closes them.
func TestASetWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stores, faults := memories(3)
		s := newSet(t, []Store{stores[2], stores[0]})
		stores[2].Do([]Op{{Name: "x", Op: quorumregister.Put{Version: machine.Version{Seq: 1}}}})
		if names, err := s.Names(t.Context()); err != nil || !slices.Equal(names, []string{"x"}) {
			t.Errorf("names %q, %v, want x", names, err)
		}
		faults[0].Fail(errors.New("unplugged"))
		if _, err := s.Names(t.Context()); !errors.Is(err, errMissing) || !errors.Is(err, quorumregister.ErrMinority) || !strings.Contains(err.Error(), "store 1: was not opened") {
			t.Errorf("names with one of three: %v, want %v because of %v", err, quorumregister.ErrMinority, errMissing)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// TestCloseLetsWhoLeavesLeave: the store hears of it, for it may free the writer's place.
func TestCloseLetsWhoLeavesLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{Store: NewMemory(header(1, 0)).Open()}
		s := newSet(t, []Store{b})
		access, leave := s.Serve("x", machine.ID{1}, func(machine.Accessed) {})
		access([]machine.Access{{ID: 1, Op: quorumregister.Query{}}})
		synctest.Wait()
		leave()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if ops := slices.Concat(b.got...); len(ops) != 2 || ops[1].Op != any(Leave{}) {
			t.Errorf("asked: %v", ops)
		}
	})
}

// TestACellLeaves: when a cell is closed the store hears that its writer leaves, and may free the
// place of its records.
func TestACellLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &batches{Store: NewMemory(header(1, 0)).Open()}
		x := newSet(t, []Store{b}).Register("x")
		if _, err := x.Write(t.Context(), []byte("one")); err != nil {
			t.Fatal(err)
		}
		x.Close()
		synctest.Wait()
		ops := slices.Concat(b.got...)
		if last := ops[len(ops)-1]; last.Op != any(Leave{}) || last.Name != "x" || last.Writer != ops[0].Writer {
			t.Errorf("a cell was closed that had written, and its writer has not left: the store was asked %v", ops)
		}
	})
}

// namesHang is a store whose Names hangs until it is told otherwise.
type namesHang struct {
	Store
	healed  chan struct{}
	hanging atomic.Int64
	asked   atomic.Int64
}

func (s *namesHang) Names() ([]string, error) {
	s.asked.Add(1)
	s.hanging.Add(1)
	defer s.hanging.Add(-1)
	<-s.healed
	return s.Store.Names()
}

// TestListingsDoNotPileUp: a store that hangs holds up one listing, however many give up waiting for it.
func TestListingsDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &namesHang{Store: NewMemory(header(1, 0)).Open(), healed: make(chan struct{})}
		s := newSet(t, []Store{h})
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if names, err := s.Names(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("names of a store that hangs: %v, %v", names, err)
			}
			cancel()
		}
		if got := h.hanging.Load(); got != 1 {
			t.Errorf("%d listings hang with the store, want one", got)
		}
		close(h.healed)
		synctest.Wait()
		if _, err := s.Names(t.Context()); err != nil || h.hanging.Load() != 0 {
			t.Errorf("when the store works again: %v, and %d listings still hang", err, h.hanging.Load())
		}
	})
}

// TestAListingThatIsDoneWaitsForNobody: the stores that a majority made unnecessary, and that hang, are
// not asked later for the sake of a caller that has its answer.
func TestAListingThatIsDoneWaitsForNobody(t *testing.T) {
	for what, fail := range map[string]error{"the others list": nil, "the others fail": errors.New("unplugged")} {
		synctest.Test(t, func(t *testing.T) {
			stores, faults := memories(3)
			h := &namesHang{Store: stores[2], healed: make(chan struct{})}
			s := newSet(t, []Store{stores[0], stores[1], h})
			synctest.Wait()
			before := inBubble()
			for range 5 {
				faults[0].Fail(fail)
				faults[1].Fail(fail)
				if _, err := s.Names(t.Context()); (err == nil) != (fail == nil) {
					t.Errorf("%s: %v", what, err)
				}
				synctest.Wait()
			}
			if waits := inBubble() - before; waits != 1 {
				t.Errorf("%s: five listings are done, and %d wait for the store that hangs, want one", what, waits)
			}
			close(h.healed)
			synctest.Wait()
			if asked, waits := h.asked.Load(), inBubble()-before; asked != 1 || waits != 0 {
				t.Errorf("%s: the store that hung was asked for its names %d times, and %d still wait; want once, and none", what, asked, waits)
			}
		})
	}
}

// TestWhatEachStoreIsTold: of several accesses at once each goes to its store, also behind one that is
// refused, and a writer leaves the stores that know it, and no others.
func TestWhatEachStoreIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stores []Store
		var told []*batches
		for i := range 5 {
			b := &batches{Store: NewMemory(header(5, i)).Open()}
			stores, told = append(stores, b), append(told, b)
		}
		s := newSet(t, []Store{stores[4], stores[0], stores[2], stores[3]}) // the second is missing
		e := &ends{}
		access, leave := s.Serve("x", machine.ID{9}, e.step)
		access([]machine.Access{
			{ID: 10, At: 0, Op: quorumregister.Put{Version: machine.Version{Seq: 1}, Data: []byte("zero")}},
			{ID: 11, At: 1, Op: quorumregister.Query{}},
			{ID: 12, At: 4, Op: quorumregister.Put{Version: machine.Version{Seq: 2}, Data: []byte("four")}},
			{ID: 13, At: 2, Op: quorumregister.PutNote{Data: make([]byte, MaxNote+1)}},
			{ID: 14, At: 0, Op: quorumregister.Query{}},
		})
		synctest.Wait()
		leave()
		synctest.Wait()
		wants := map[int]string{0: "Put Query Leave", 1: "", 2: "", 3: "", 4: "Put Leave"}
		for i, b := range told {
			var ops []string
			for _, op := range slices.Concat(b.got...) {
				_, kind, _ := strings.Cut(fmt.Sprintf("%T", op.Op), ".")
				ops = append(ops, kind)
				if op.Name != "x" || op.Writer != (machine.ID{9}) {
					t.Errorf("store %d is told of %q and writer %v, want x and the writer that asks", i, op.Name, op.Writer)
				}
			}
			if got := strings.Join(ops, " "); got != wants[i] {
				t.Errorf("store %d is told %q, want %q", i, got, wants[i])
			}
		}
		slices.SortFunc(e.got, func(a, b machine.Accessed) int { return cmp.Compare(a.ID, b.ID) })
		want := map[uint64]error{11: errMissing, 13: ErrTooLong}
		if len(e.got) != 5 {
			t.Errorf("of five accesses %d have ended: %+v", len(e.got), e.got)
		}
		for i, a := range e.got {
			if a.ID != uint64(10+i) || !errors.Is(a.Err, want[a.ID]) || (a.Err == nil) != (want[a.ID] == nil) {
				t.Errorf("access %d ends with %v, want %v", a.ID, a.Err, want[a.ID])
			}
		}
	})
}

func TestConfig(t *testing.T) {
	s := newSet(t, []Store{NewMemory(header(1, 0)).Open()})
	c := s.Config(machine.ID{1}, true)
	// A lease may adapt to a δ of a twelfth of Δ, and clocks may differ by a tenth; it is rounded.
	if least := s.Header().Term*3/2/10*11 - time.Microsecond; c.Quiet < least || c.Bases != 1 || !c.Atomic || c.Retry <= 0 {
		t.Errorf("%+v", c)
	}
	if c := s.Config(machine.ID{1}, false); c.Atomic {
		t.Errorf("a regular register: %+v", c)
	}
	for delay, want := range map[time.Duration]time.Duration{time.Millisecond: 10 * time.Millisecond, 50 * time.Millisecond: 50 * time.Millisecond} {
		h := header(1, 0)
		h.Delay = delay
		if c := newSet(t, []Store{NewMemory(h).Open()}).Config(machine.ID{1}, true); c.Retry != want {
			t.Errorf("with a δ of %v what failed is tried again after %v, want %v", delay, c.Retry, want)
		}
	}
}

// inBubble is the number of goroutines in the caller's bubble. Those of earlier tests may still be ending.
func inBubble() int {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	mine := regexp.MustCompile(`synctest bubble \d+`).Find(stacks) // the caller comes first
	return len(regexp.MustCompile(string(mine)+`\b`).FindAll(stacks, -1))
}

// The registers of a set go by the machine's clock, unless another is given.
func TestTheClockOfASet(t *testing.T) {
	stores, _ := memories(1)
	set := newSet(t, stores)
	for range 2 {
		before := clock.Now()
		for clock.Now() == before {
			runtime.Gosched()
		}
		if got, after := set.now(), clock.Now(); got <= before || got > after {
			t.Errorf("the set's clock shows %d between %d and %d", got, before, after)
		}
	}
}
