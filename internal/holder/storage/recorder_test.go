package storage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// halted is a store on whose way a process can be stopped, as by SIGSTOP, once: in front of an access to
// the records, or behind it.
type halted struct {
	register.Store
	stop atomic.Pointer[func(op register.Op, behind bool) (stopped bool)]
}

func (h *halted) Do(ops []register.Op) []register.Reply {
	at := func(behind bool) {
		for _, op := range ops {
			stop := h.stop.Load()
			if stop != nil && strings.HasSuffix(op.Name, "//") && (*stop)(op, behind) {
				h.stop.Store(nil)
			}
		}
	}
	at(false)
	replies := h.Store.Do(ops)
	at(true)
	return replies
}

// puts is the fault of all that is put to the records of a store.
type puts struct{ atomic.Int32 }

func (p *puts) plan(op register.Op) register.Fault {
	if isPut(op) && strings.HasSuffix(op.Name, "//") {
		return register.Fault(p.Load())
	}
	return register.None
}

// slowly is plan for a store that is slower than the others. A write ends as soon as a majority has failed,
// and then drops what another store has not begun: with this plan the others have done their part by then.
func (p *puts) slowly(op register.Op) register.Fault {
	fault := p.plan(op)
	if fault != register.None {
		time.Sleep(delay)
	}
	return fault
}

func (p *puts) are(f register.Fault) { p.Store(int32(f)) }

func isPut(op register.Op) bool { _, put := op.Op.(quorumregister.Put); return put }

func setRecord(t *testing.T, l *storage.Leaser, lease tenure.Lease, record string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*term)
	defer cancel()
	if err := l.SetRecord(ctx, lease, []byte(record)); err != nil {
		t.Errorf("set the record %q: %v", record, err)
	}
}

func wantRecord(t *testing.T, l *storage.Leaser, want, when string) {
	t.Helper()
	if got, err := l.Record(t.Context(), "x"); err != nil || string(got) != want {
		t.Errorf("%s: the record is %q, %v, want %q", when, got, err, want)
	}
}

// A process is stopped while it sets a record, another holds the lease meanwhile, and then the first
// goes on: it takes nothing back, wherever it was stopped.
func TestAStoppedHolderSetsNoRecord(t *testing.T) {
	for _, tt := range []struct {
		what   string
		mine   int // records that are set before
		others int // records of the next holder
		behind bool
		stop   func(op register.Op) bool
	}{
		{"in front of the read", 0, 1, false, func(op register.Op) bool { return !isPut(op) }},
		{"behind the read", 0, 1, true, func(op register.Op) bool { return !isPut(op) }},
		{"behind the read, and the other sets none", 0, 0, true, func(op register.Op) bool { return !isPut(op) }},
		{"in front of the first write", 0, 1, false, isPut},
		{"in front of the second write", 1, 1, false, isPut},
		{"in front of the third write", 2, 1, false, isPut},
		{"in front of the first write, and the other sets two", 0, 2, false, isPut},
	} {
		t.Run(tt.what, func(t *testing.T) {
			for range 10 { // a bubble runs goroutines in any order
				simulate(t, func(t *testing.T) {
					all := newMemories(1, term, delay)
					mine := oneClock()
					way := &halted{Store: all[0].Open()}
					set, err := register.NewSetBy(mine.Now, []register.Store{way})
					if err != nil {
						t.Fatal(err)
					}
					stopped := storage.New(set, storage.Options{Clock: mine})
					t.Cleanup(func() { stopped.Close() })
					other, _ := all.open(t, storage.Options{})
					lease := acquire(t, stopped, "x")
					for n := range tt.mine {
						setRecord(t, stopped, lease, fmt.Sprint("mine ", n))
					}
					halt := func(op register.Op, behind bool) bool {
						if behind != tt.behind || !tt.stop(op) {
							return false
						}
						mine.Freeze() // nothing of the process runs
						next := acquire(t, other, "x")
						for n := range tt.others {
							setRecord(t, other, next, fmt.Sprint("the other's ", n+1))
						}
						mine.Jump(3 * term)
						mine.Thaw()
						return true
					}
					way.stop.Store(&halt)
					if err := stopped.SetRecord(t.Context(), lease, []byte("late")); !errors.Is(err, tenure.ErrLost) {
						t.Errorf("SetRecord of a holder that was stopped returns %v, want %q", err, tenure.ErrLost)
					}
					time.Sleep(term) // what is on its way arrives
					want := ""
					if tt.others > 0 {
						want = fmt.Sprint("the other's ", tt.others)
					}
					wantRecord(t, other, want, "after the stopped holder has gone on")
				})
			}
		})
	}
}

// A record that was given up, and arrives later, does not take the place of a later one of the same
// tenure.
func TestARecordThatIsLateInItsTenure(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		var all puts
		faults[0].Plan = all.plan
		all.are(register.Stuck)
		lease := acquire(t, l, "x")
		ctx, cancel := context.WithTimeout(t.Context(), term/4)
		defer cancel()
		if err := l.SetRecord(ctx, lease, []byte("1")); !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("a record that arrives nowhere: SetRecord returns %v, want %q", err, tenure.ErrUnavailable)
		}
		all.are(register.None)
		wantRecord(t, l, "", "before it has arrived")
		setRecord(t, l, lease, "2")
		faults[0].Land()
		wantRecord(t, l, "2", "after the first has arrived")
	})
}

// A record that was given up never has the version of another.
func TestAVersionOfItsOwn(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(3, term, delay)
		l, faults := all.open(t, storage.Options{})
		var first, others puts
		faults[0].Plan, faults[1].Plan, faults[2].Plan = first.plan, others.slowly, others.slowly
		first.are(register.Stuck)
		others.are(register.LostBefore)
		lease := acquire(t, l, "x")
		ctx, cancel := context.WithTimeout(t.Context(), term/100)
		defer cancel()
		if err := l.SetRecord(ctx, lease, []byte("1")); !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("a record that arrives nowhere: SetRecord returns %v, want %q", err, tenure.ErrUnavailable)
		}
		first.are(register.LostBefore)
		others.are(register.None)
		setRecord(t, l, lease, "2")
		faults[0].Land()
		for range 5 {
			for _, hangs := range []int{1, 2} {
				other, faults := all.open(t, storage.Options{})
				faults[hangs].Hang()
				wantRecord(t, other, "2", fmt.Sprintf("the first arrives at store 0, without store %d", hangs))
			}
		}
	})
}

// A record that one of three stores has is not shown before most have it.
func TestARecordThatWasShownStays(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(3, term, delay)
		l, faults := all.open(t, storage.Options{})
		var others puts
		others.are(register.LostBefore)
		faults[1].Plan, faults[2].Plan = others.slowly, others.slowly
		lease := acquire(t, l, "x")
		ctx, cancel := context.WithTimeout(t.Context(), term/4)
		defer cancel()
		if err := l.SetRecord(ctx, lease, []byte("1")); !errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("a record that one of three stores took: SetRecord returns %v, want %q", err, tenure.ErrUnavailable)
		}
		for _, hangs := range []int{2, 0} {
			other, faults := all.open(t, storage.Options{})
			faults[hangs].Hang()
			wantRecord(t, other, "1", fmt.Sprintf("without store %d", hangs))
		}
	})
}

// Records that were replaced may be forgotten; the one that counts may not.
func TestObsoleteRecords(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		l, _ := all.open(t, storage.Options{})
		lease := acquire(t, l, "x")
		setRecord(t, l, lease, "1")
		look := func() machine.Value {
			s := all[0].Open().Do([]register.Op{{Name: "x//", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
			return machine.Value{Version: s.Version, Data: s.Data}
		}
		first := look()
		setRecord(t, l, lease, "2")
		second := look()
		if storage.Obsolete(second, second.Version.Writer) {
			t.Error("the record that counts is obsolete")
		}
		if !storage.Obsolete(second, first.Version.Writer) {
			t.Error("a record that was replaced is not obsolete")
		}
		for format := range 256 {
			if format == int(second.Data[0]) {
				continue
			}
			other := machine.Value{Version: second.Version, Data: append([]byte{byte(format)}, second.Data[1:]...)}
			if storage.Obsolete(other, first.Version.Writer) {
				t.Errorf("of a register whose content has the unknown format %#x something is obsolete", format)
			}
		}
	})
}

// Damage is not read as a record, nor as none.
func TestDamagedRecords(t *testing.T) {
	simulate(t, func(t *testing.T) {
		for _, data := range []string{"", "mine"} {
			all := newMemories(1, term, delay)
			l, _ := all.open(t, storage.Options{})
			all[0].Open().Do([]register.Op{{Name: "x//", Op: quorumregister.Put{Version: machine.Version{Seq: 1}, Data: []byte(data)}}})
			if got, err := l.Record(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), `read the record of "x"`) {
				t.Errorf("a register with %q is read as the record %q, %v, want an error", data, got, err)
			}
		}
	})
}

// Calls that wait for one another end with their callers.
func TestRecordsOneAfterTheOther(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		var mu sync.Mutex
		tries := map[machine.ID]bool{}
		var all puts
		all.are(register.LostBefore)
		faults[0].Plan = func(op register.Op) register.Fault {
			fault := all.plan(op)
			if fault != register.None {
				mu.Lock()
				defer mu.Unlock()
				tries[op.Writer] = true
			}
			return fault
		}
		lease := acquire(t, l, "x")
		ends := make(chan error, 1)
		patient, cancel := context.WithCancel(t.Context())
		go func() { ends <- l.SetRecord(patient, lease, []byte("1")) }()
		time.Sleep(delay)
		ctx, stop := context.WithTimeout(t.Context(), term/4)
		defer stop()
		began := time.Now()
		if err := l.SetRecord(ctx, lease, []byte("2")); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != term/4 {
			t.Errorf("behind a call that waits SetRecord returns %v after %v, want %v after %v", err, time.Since(began), context.DeadlineExceeded, term/4)
		}
		mu.Lock()
		if most := int(term / 4 / (term / 50)); len(tries) > most+2 {
			t.Errorf("two calls try to set a record %d times, want %d times, for one waits for the other", len(tries), most)
		}
		mu.Unlock()
		cancel()
		if err := <-ends; !errors.Is(err, context.Canceled) {
			t.Errorf("SetRecord whose caller gives up returns %v, want %v", err, context.Canceled)
		}
		all.are(register.None)
		setRecord(t, l, lease, "3")
		wantRecord(t, l, "3", "after both")
		all.are(register.LostBefore)
		go func() { ends <- l.SetRecord(t.Context(), lease, []byte("4")) }()
		time.Sleep(delay)
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ends; err != tenure.ErrClosed {
			t.Errorf("Close meanwhile: SetRecord returns %v, want %q", err, tenure.ErrClosed)
		}
	})
}

// A record and an agreement of one name have nothing to do with each other.
func TestRecordsAndAgreements(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		l, _ := all.open(t, storage.Options{})
		lease := acquire(t, l, "x")
		setRecord(t, l, lease, "mine")
		if v, ok, err := l.Decided(t.Context(), "x"); ok || err != nil {
			t.Errorf("beside a record the agreement is %q, %v, %v, want none", v, ok, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, err := l.Agree(t.Context(), "x", []byte("ours")); err != nil || string(v) != "ours" {
			t.Errorf("beside a record the agreement is %q, %v, want ours", v, err)
		}
		wantRecord(t, l, "mine", "beside an agreement")
	})
}

// A holder whose tenure was broken, and that has not learned of it, does not take back the record of the
// next. It learns of the break there.
func TestABrokenTenureSetsNoRecord(t *testing.T) {
	for _, stores := range []int{1, 3} {
		simulate(t, func(t *testing.T) {
			all := newMemories(stores, term, delay)
			old, _ := all.open(t, storage.Options{})
			l, _ := all.open(t, storage.Options{})
			broken := acquire(t, old, "x")
			setRecord(t, old, broken, "1")
			if err := l.Break(t.Context(), "x", holders(t, l, "x")); err != nil {
				t.Fatal(err)
			}
			next := acquire(t, l, "x")
			setRecord(t, l, next, "2")
			if err := broken.Check(); err != nil {
				t.Fatalf("the broken tenure has learned of that by itself: %v", err)
			}
			if err := old.SetRecord(t.Context(), broken, []byte("3")); !errors.Is(err, tenure.ErrLost) || broken.Check() == nil {
				t.Errorf("%d stores: the broken tenure sets a record: %v, and it is held: %v; want %q", stores, err, broken.Check() == nil, tenure.ErrLost)
			}
			wantRecord(t, old, "2", "after the broken tenure has set one")
		})
	}
}

// Holders that share set records one after the other, whichever has the greater token.
func TestSharersSetRecords(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, _ := newMemories(1, term, delay).open(t, storage.Options{})
		var both []tenure.Lease
		for range 2 {
			x, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x", Slots: 2})
			if err != nil {
				t.Fatal(err)
			}
			both = append(both, x)
		}
		setRecord(t, l, both[1], "1")
		setRecord(t, l, both[0], "2")
		wantRecord(t, l, "2", "after both have set one")
	})
}
