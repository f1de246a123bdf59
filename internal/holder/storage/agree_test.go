package storage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Agreement waits for nobody's clock: short leases will do.
const shortTerm = 400 * time.Millisecond

// agreed has everybody propose for each of so many names, and judges agreement, validity,
// and that the decision stays.
func agreed(t *testing.T, names int, all []*storage.Leaser) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n := range names {
		name := fmt.Sprintf("agreement/%d", n)
		got := make([]string, len(all))
		var calls sync.WaitGroup
		for i, l := range all {
			calls.Go(func() {
				value, err := l.Agree(ctx, name, fmt.Appendf(nil, "proposal %d of %s", i, name))
				if err != nil {
					t.Errorf("%s, caller %d: %v", name, i, err)
				}
				got[i] = string(value)
			})
		}
		calls.Wait()
		if !strings.HasPrefix(got[0], "proposal ") || !strings.HasSuffix(got[0], name) {
			t.Errorf("%s: %q was decided, which nobody proposed", name, got[0])
		}
		for i, l := range all {
			if got[i] != got[0] {
				t.Errorf("%s: %d has %q, 0 has %q", name, i, got[i], got[0])
			}
			value, ok, err := l.Decided(ctx, name)
			for errors.Is(err, tenure.ErrUnavailable) && ctx.Err() == nil {
				value, ok, err = l.Decided(ctx, name)
			}
			if err != nil || !ok || string(value) != got[0] {
				t.Errorf("%s: %d reads %q, %v, %v, want %q", name, i, value, ok, err, got[0])
			}
		}
	}
}

func TestAgree(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, shortTerm, 5*time.Millisecond)
		a, _ := all.open(t, storage.Options{})
		b, _ := all.open(t, storage.Options{})
		if v, ok, err := a.Decided(t.Context(), "x"); ok || err != nil {
			t.Errorf("before anybody proposed: %q, %v, %v", v, ok, err)
		}
		for _, l := range []*storage.Leaser{a, b, a} {
			v, err := l.Agree(t.Context(), "x", fmt.Appendf(nil, "the first is %p", a))
			if want := fmt.Sprintf("the first is %p", a); err != nil || string(v) != want {
				t.Errorf("%q, %v, want %q", v, err, want)
			}
		}
		if v, err := a.Agree(t.Context(), "nothing", nil); err != nil || len(v) > 0 {
			t.Errorf("an empty proposal: %q, %v", v, err)
		}
		if v, ok, err := b.Decided(t.Context(), "nothing"); !ok || err != nil || len(v) > 0 {
			t.Errorf("an empty decision: %q, %v, %v", v, ok, err)
		}
		// An agreement has not taken away the lease of its name, nor is it listed as one.
		lease := acquire(t, a, "x")
		if names, err := a.List(t.Context(), ""); err != nil || len(names) != 1 || names[0] != "x" {
			t.Errorf("leases are listed as %q, %v, want x", names, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestAgreeWithFaults: operations fail, are late, get stuck and land later, at every
// store, and one of three stores fails for everybody.
func TestAgreeWithFaults(t *testing.T) {
	mix := register.Mix{Late: 0.02, LostBefore: 0.05, LostAfter: 0.05, Stuck: 0.05}
	for _, stores := range []int{1, 3} {
		t.Run(fmt.Sprint(stores), func(t *testing.T) {
			simulate(t, func(t *testing.T) {
				memories := newMemories(stores, shortTerm, 5*time.Millisecond)
				var all []*storage.Leaser
				for i := range 4 {
					l, faults := memories.open(t, storage.Options{})
					for j, f := range faults {
						f.Delay, f.Plan = 20*time.Millisecond, mix.Seeded(uint64(10*i+j))
					}
					if stores > 1 {
						faults[2].Hang()
					}
					all = append(all, l)
				}
				agreed(t, 5, all)
			})
		})
	}
}

// apart is a store in which nobody sees another's lease, as if all leases were violated
// all the time: everybody leads.
type apart struct {
	leases register.Store
	register.Store
}

func (a apart) Do(ops []register.Op) []register.Reply {
	replies := make([]register.Reply, len(ops))
	for i, op := range ops {
		to := a.leases
		if strings.HasSuffix(op.Name, "/") {
			to = a.Store
		}
		replies[i] = to.Do(ops[i : i+1])[0]
	}
	return replies
}

func (a apart) Header() register.Header  { return a.Store.Header() }
func (a apart) Names() ([]string, error) { return a.Store.Names() }
func (a apart) Close() error             { return a.Store.Close() }

// TestAgreeThoughAllLead: agreement does not depend on leases, nor, by luck and random
// pauses, does termination.
func TestAgreeThoughAllLead(t *testing.T) {
	simulate(t, func(t *testing.T) {
		shared := newMemories(1, shortTerm, 5*time.Millisecond)[0]
		var all []*storage.Leaser
		for range 4 {
			own := newMemories(1, shortTerm, 5*time.Millisecond)[0]
			set, err := register.NewSetBy(oneClock().Now, []register.Store{apart{own.Open(), shared.Open()}})
			if err != nil {
				t.Fatal(err)
			}
			l := storage.New(set, storage.Options{Clock: oneClock()})
			t.Cleanup(func() { l.Close() })
			acquire(t, l, "one for all")
			all = append(all, l)
		}
		agreed(t, 10, all)
	})
}

func TestAgreeRefuses(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, shortTerm, 5*time.Millisecond)
		l, faults := all.open(t, storage.Options{})
		set, err := register.NewSetBy(oneClock().Now, []register.Store{all[0].Open()})
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		cell := set.Register("taken/")
		if _, err := cell.Write(t.Context(), []byte("mine")); err != nil {
			t.Fatal(err)
		}
		cell.Close()
		long := strings.Repeat("x", 512)
		for _, test := range []struct {
			name     string
			proposal int
			want     error
		}{
			{"", 1, tenure.ErrClaim},
			{"x/", 1, tenure.ErrClaim},
			{long, 1, register.ErrTooLong},
			{"x", storage.MaxProposal + 1, storage.ErrProposal},
			{"taken", 1, disklease.ErrBlock},
		} {
			if _, err := l.Agree(t.Context(), test.name, make([]byte, test.proposal)); !errors.Is(err, test.want) {
				t.Errorf("agree on %.20q by %d bytes: %v, want %v", test.name, test.proposal, err, test.want)
			}
		}

		why := errors.New("the disk is on fire")
		faults[0].Fail(why)
		ctx, cancel := context.WithTimeout(t.Context(), shortTerm/4)
		defer cancel()
		if _, err := l.Agree(ctx, "x", nil); !errors.Is(err, tenure.ErrUnavailable) || !errors.Is(err, why) {
			t.Errorf("a store that fails: %v, want %v because of %v", err, tenure.ErrUnavailable, why)
		}
		faults[0].Heal()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := l.Agree(t.Context(), "x", nil); !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("after Close: %v, want %v", err, tenure.ErrClosed)
		}
	})
}

// TestAgreementSurvivesItsProposer: the value of a proposer that was cut off in the middle is
// decided if it may have been decided already.
func TestAgreementSurvivesItsProposer(t *testing.T) {
	for notes, want := range map[int]string{
		1: "of the living", // a rank was raised
		2: "of the dead",   // a value was written under it
	} {
		t.Run(fmt.Sprint(notes), func(t *testing.T) {
			simulate(t, func(t *testing.T) {
				all := newMemories(1, shortTerm, 5*time.Millisecond)
				dying, faults := all.open(t, storage.Options{})
				other, _ := all.open(t, storage.Options{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				noted := 0
				faults[0].Plan = func(op register.Op) register.Fault {
					if _, note := op.Op.(quorumregister.PutNote); note && op.Name == "x/" {
						noted++
					}
					switch {
					case noted < notes:
						return register.None
					case ctx.Err() == nil:
						cancel()
						return register.LostAfter
					}
					return register.LostBefore
				}
				if _, err := dying.Agree(ctx, "x", []byte("of the dead")); !errors.Is(err, context.Canceled) {
					t.Errorf("cut off: %v, want %v", err, context.Canceled)
				}
				if v, err := other.Agree(t.Context(), "x", []byte("of the living")); err != nil || string(v) != want {
					t.Errorf("%q was decided, %v, want %q", v, err, want)
				}
			})
		})
	}
}

// TestAgreementOutlivesItsHandles: stores remove the handles of processes that are gone, but not
// their agreements. Of three directories one is lost meanwhile.
func TestAgreementOutlivesItsHandles(t *testing.T) {
	simulate(t, func(t *testing.T) {
		base := t.TempDir()
		header := register.Header{Set: machine.ID{9}, Of: 3, Term: 200 * time.Millisecond, Delay: 5 * time.Millisecond, Drift: 1000}
		dirs := make([]string, header.Of)
		for i := range dirs {
			dirs[i] = filepath.Join(base, fmt.Sprint(i))
			if err := os.Mkdir(dirs[i], 0o755); err != nil {
				t.Fatal(err)
			}
			header.Index = i
			if err := file.Init(dirs[i], header, file.InitOptions{SingleHost: true}); err != nil {
				t.Fatal(err)
			}
		}
		open := func(dirs ...string) *storage.Leaser {
			var stores []register.Store
			for _, dir := range dirs {
				s, err := file.Open(dir, file.Options{
					Clock:    oneClock().Now,
					Obsolete: func(_ string, v machine.Value, writer machine.ID) bool { return storage.Obsolete(v, writer) },
				})
				if err != nil {
					t.Fatal(err)
				}
				stores = append(stores, s)
			}
			set, err := register.NewSetBy(oneClock().Now, stores)
			if err != nil {
				t.Fatal(err)
			}
			l := storage.New(set, storage.Options{Clock: oneClock()})
			t.Cleanup(func() { l.Close() })
			return l
		}
		want := ""
		for i := range 3 { // everybody once
			l := open(dirs[i], dirs[(i+1)%3])
			v, err := l.Agree(t.Context(), "x", fmt.Appendf(nil, "by %d", i))
			if err != nil {
				t.Fatal(err)
			}
			if want == "" {
				want = string(v)
			}
			if string(v) != want {
				t.Errorf("%d agrees on %q, want %q", i, v, want)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		// Long enough for stores to tidy up, and with something to do for them.
		l := open(dirs...)
		for began := time.Now(); time.Since(began) < 5*header.Term; {
			if err := acquire(t, l, "y").Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for i := range dirs {
			if v, ok, err := open(dirs[i], dirs[(i+1)%3]).Decided(t.Context(), "x"); err != nil || !ok || string(v) != want {
				t.Errorf("without directory %d: %q, %v, %v, want %q", (i+2)%3, v, ok, err, want)
			}
		}
	})
}

// TestDecidedEndsWithClose: Decided of a Leaser that closes does not say that the stores are away.
func TestDecidedEndsWithClose(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		faults[0].Hang()
		looked := make(chan error)
		go func() {
			_, _, err := l.Decided(t.Context(), "x")
			looked <- err
		}()
		time.Sleep(delay)
		go l.Close()
		if err := <-looked; !errors.Is(err, tenure.ErrClosed) || errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("Decided returns %v, want %v and nothing of the stores", err, tenure.ErrClosed)
		}
	})
}

// TestAgreeCountsNoStoreThatForgot: a store that has lost an acknowledged write during an Agree
// never counts for its majority again, however long that takes. The lost value may have been
// decided.
func TestAgreeCountsNoStoreThatForgot(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(3, shortTerm, 5*time.Millisecond)
		l, faults := all.open(t, storage.Options{})
		faults[0].Hang()
		restore, restored := all[1].Backup(), false
		faults[2].Plan = func(op register.Op) register.Fault {
			if _, note := op.Op.(quorumregister.PutNote); note && op.Name == "x/" && !restored {
				time.Sleep(time.Millisecond) // store 1 has it by now
				restore()
				restored = true
			}
			return register.None
		}
		agreed := make(chan error)
		go func() {
			_, err := l.Agree(t.Context(), "x", []byte("mine"))
			agreed <- err
		}()
		select {
		case err := <-agreed:
			t.Fatalf("of three stores one hangs and one forgot its note, %v: Agree ends with %v, want it to wait", restored, err)
		case <-time.After(20 * shortTerm):
		}
		faults[0].Heal()
		if err := <-agreed; err != nil {
			t.Errorf("two stores work that forgot nothing: %v", err)
		}
	})
}

// planLooks calls f with the number of each look at the register of an agreement, from 1, before it is made.
func planLooks(faults *register.Faults, f func(n int) register.Fault) {
	n := 0
	faults.Plan = func(op register.Op) register.Fault {
		if _, query := op.Op.(quorumregister.Query); query && op.Name == "x/" {
			n++
			return f(n)
		}
		return register.None
	}
}

// TestAgreeGivesTheLeaseBack: when Agree has returned, the lease that it contended for is free.
func TestAgreeGivesTheLeaseBack(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		a, faults := all.open(t, storage.Options{})
		b, _ := all.open(t, storage.Options{})
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, note := op.Op.(quorumregister.PutNote); note && op.Name == "x" { // by which it is released
				time.Sleep(delay)
			}
			return register.None
		}
		if _, err := a.Agree(t.Context(), "x", make([]byte, storage.MaxProposal)); err != nil {
			t.Fatalf("a proposal of the greatest length: %v", err)
		}
		if _, err := b.TryAcquire(t.Context(), tenure.Claim{Name: "x"}); err != nil {
			t.Errorf("a try for the lease after Agree: %v", err)
		}
	})
}

// TestAgreementThatTurnsBad: if a register holds no agreement at any time, nothing is agreed, and
// the call fails at once.
func TestAgreementThatTurnsBad(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		l, faults := all.open(t, storage.Options{})
		planLooks(faults[0], func(n int) register.Fault {
			if n == 3 {
				me := machine.ID{7}
				all[0].Open().Do([]register.Op{{Name: "x/", Writer: me, Op: quorumregister.PutNote{Writer: me, Seq: 1, Data: []byte("mine")}}})
			}
			return register.None
		})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*term)
		defer cancel()
		if _, err := l.Agree(ctx, "x", nil); !errors.Is(err, disklease.ErrBlock) || time.Since(began) > term {
			t.Errorf("a register that turns bad: %v after %v, want %v", err, time.Since(began), disklease.ErrBlock)
		}
	})
}

// TestAgreementWithoutALease: trouble with the name's lease that no waiting cures ends an Agree as
// well.
func TestAgreementWithoutALease(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		me := machine.ID{7}
		all[0].Open().Do([]register.Op{{Name: "x", Writer: me, Op: quorumregister.Put{Version: machine.Version{Seq: 1, Writer: me}, Data: []byte("mine")}}})
		l, _ := all.open(t, storage.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 20*term)
		defer cancel()
		if _, err := l.Agree(ctx, "x", nil); !errors.Is(err, disklease.ErrRecord) || ctx.Err() != nil {
			t.Errorf("the lease's register is not ours: %v, want %v at once", err, disklease.ErrRecord)
		}
	})
}

// TestTroubleThatIsOver: a caller that gives up is told of trouble that stands in the way of an
// agreement, not of trouble that is over.
func TestTroubleThatIsOver(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		holder, _ := all.open(t, storage.Options{})
		acquire(t, holder, "x")
		l, faults := all.open(t, storage.Options{})
		planLooks(faults[0], func(n int) register.Fault {
			if n == 3 {
				return register.LostBefore
			}
			return register.None
		})
		ctx, cancel := context.WithTimeout(t.Context(), term)
		defer cancel()
		if _, err := l.Agree(ctx, "x", nil); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("one access failed, and all others did not: %v, want %v alone", err, context.DeadlineExceeded)
		}
	})
}

// TestWhichStoreAnAgreementLacks: of three stores one hangs, and one fails for the agreement alone.
// A caller that gives up is told of it, though no access has ended.
func TestWhichStoreAnAgreementLacks(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(3, term, delay)
		l, faults := all.open(t, storage.Options{})
		faults[0].Hang()
		planLooks(faults[1], func(n int) register.Fault {
			if n == 1 { // which is that of Decided
				return register.None
			}
			return register.LostBefore
		})
		ctx, cancel := context.WithTimeout(t.Context(), 4*term)
		defer cancel()
		_, err := l.Agree(ctx, "x", nil)
		for _, want := range []error{tenure.ErrUnavailable, context.DeadlineExceeded, register.ErrInjected} {
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v to be told", err, want)
			}
		}
	})
}

// TestAgreementsMeasure: the accesses of an Agree count for δ.
func TestAgreementsMeasure(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		faults[0].Plan = func(op register.Op) register.Fault {
			if _, note := op.Op.(quorumregister.PutNote); note && op.Name == "x/" {
				time.Sleep(4 * delay) // and nothing else is asked meanwhile
			}
			return register.None
		}
		if _, err := l.Agree(t.Context(), "x", nil); err != nil {
			t.Fatal(err)
		}
		if l.Delay() == delay {
			t.Errorf("δ is measured as %v, though writes took four of it", l.Delay())
		}
	})
}

// TestCloseEndsAnAgreement, and says so, though a store fails for it.
func TestCloseEndsAnAgreement(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		planLooks(faults[0], func(n int) register.Fault {
			if n == 1 { // which is that of Decided
				return register.None
			}
			return register.LostBefore
		})
		agreed := make(chan error)
		go func() {
			_, err := l.Agree(t.Context(), "x", nil)
			agreed <- err
		}()
		time.Sleep(term)
		go l.Close()
		if err := <-agreed; !errors.Is(err, tenure.ErrClosed) || errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("%v, want %v and nothing of the stores", err, tenure.ErrClosed)
		}
	})
}

// TestGivingUpAnAgreement: a caller that gives up gets the cause that ended its context.
func TestGivingUpAnAgreement(t *testing.T) {
	simulate(t, func(t *testing.T) {
		l, faults := newMemories(1, term, delay).open(t, storage.Options{})
		planLooks(faults[0], func(n int) register.Fault {
			if n == 1 { // which is that of Decided
				return register.None
			}
			return register.LostBefore
		})
		impatient := errors.New("no more patience")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(term, func() { cancel(impatient) })
		if _, err := l.Agree(ctx, "x", nil); !errors.Is(err, impatient) || !errors.Is(err, register.ErrInjected) {
			t.Errorf("%v, want %v and the trouble with the store", err, impatient)
		}
	})
}

// TestWhoLostTheLeaseFollows: a proposer that has lost the lease, and meets a rank that is greater
// than its own, raises no other while another leads, for it would be in the other's way.
func TestWhoLostTheLeaseFollows(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		l, faults := all.open(t, storage.Options{})
		other, _ := all.open(t, storage.Options{})
		ranked := make(chan struct{}, 1)
		faults[0].Plan = func(op register.Op) register.Fault {
			if note, ok := op.Op.(quorumregister.PutNote); ok && op.Name == "x/" && note.Seq == 1 {
				faults[0].Hang()
				ranked <- struct{}{}
			}
			return register.None
		}
		agreed := make(chan error)
		go func() {
			_, err := l.Agree(t.Context(), "x", nil)
			agreed <- err
		}()
		<-ranked
		leads := acquire(t, other, "x")
		outdo(all[0].Open())
		faults[0].Heal()
		select {
		case err := <-agreed:
			t.Fatalf("a member that lost the lease has raised a rank while another leads: %v", err)
		case <-time.After(10 * term):
		}
		if err := leads.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-agreed; err != nil {
			t.Errorf("nobody else leads any more: %v", err)
		}
	})
}

// TestADecisionThatWasReturnedStays: a decision that only one of three stores has is not returned
// before most have it, or the next proposer that asks would not find it.
func TestADecisionThatWasReturnedStays(t *testing.T) {
	simulate(t, func(t *testing.T) {
		scratch := newMemories(1, term, delay)
		l, _ := scratch.open(t, storage.Options{})
		if _, err := l.Agree(t.Context(), "x", []byte("mine")); err != nil {
			t.Fatal(err)
		}
		s := scratch[0].Open().Do([]register.Op{{Name: "x/", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
		all := newMemories(3, term, delay)
		all[0].Open().Do([]register.Op{{Name: "x/", Writer: s.Version.Writer, Op: quorumregister.Put{Version: s.Version, Data: s.Data}}})
		for _, hangs := range []int{2, 0} {
			l, faults := all.open(t, storage.Options{})
			faults[hangs].Hang()
			if v, ok, err := l.Decided(t.Context(), "x"); err != nil || !ok || string(v) != "mine" {
				t.Errorf("without store %d: %q, %v, %v, want the decision", hangs, v, ok, err)
			}
		}
	})
}

// TestWhoHoldsTheLeaseLeads for as long as that is: a proposer that meets a greater rank after many
// Terms raises another.
func TestWhoHoldsTheLeaseLeads(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(1, term, delay)
		l, faults := all.open(t, storage.Options{})
		var heals atomic.Bool
		faults[0].Plan = func(op register.Op) register.Fault {
			if note, ok := op.Op.(quorumregister.PutNote); ok && op.Name == "x/" && note.Seq > 1 && !heals.Load() {
				return register.LostBefore // it does not get beyond its rank
			}
			return register.None
		}
		agreed := make(chan error, 1)
		go func() {
			_, err := l.Agree(t.Context(), "x", []byte("mine"))
			agreed <- err
		}()
		time.Sleep(5 * term)
		outdo(all[0].Open())
		heals.Store(true)
		select {
		case err := <-agreed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * term):
			t.Error("the holder of the lease has ceased to lead after many Terms")
		}
	})
}

// outdo raises a rank above the only one in a store.
func outdo(store register.Store) {
	note := store.Do([]register.Op{{Name: "x/", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State).Notes[0]
	greater := machine.ID(bytes.Repeat([]byte{0xff}, 16))
	data := bytes.ReplaceAll(note.Data, note.Writer[:], greater[:])
	store.Do([]register.Op{{Name: "x/", Writer: greater, Op: quorumregister.PutNote{Writer: greater, Seq: 1, Data: data}}})
}
