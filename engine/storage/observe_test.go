package storage_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/engine/storage"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/quorumregister"
	"github.com/tenure-lease/tenure/register"
)

// deadContender puts the record of a claim that died during its first write into one store.
func deadContender(t *testing.T, into *register.Memory) {
	t.Helper()
	scratch := newMemories(1, term, delay)
	l, _ := scratch.open(t, storage.Options{Clock: clock.NewSimulated(1)})
	lease := acquire(t, l, "x")
	st := scratch[0].Open().Do([]register.Op{{Name: "x", Op: quorumregister.Query{}}})[0].Value.(quorumregister.State)
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	dead := machine.ID(bytes.Repeat([]byte{0xff}, 16))
	data := bytes.ReplaceAll(st.Data, st.Version.Writer[:], dead[:])
	into.Open().Do([]register.Op{{Name: "x", Writer: dead, Op: quorumregister.Put{Version: machine.Version{Seq: 1, Writer: dead}, Data: data}}})
}

// What an onlooker has seen is evidence for claims. A record that only one of three stores
// has may be seen by him and not by the next claim, which holds then, beside one that
// takes the record for that of a dead holder.
func TestAnOnlookerIsNoWitnessOfARegularRead(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			t.Cleanup(func() { time.Sleep(time.Minute) }) // what was left behind ends
			all := newMemories(3, term, delay)
			deadContender(t, all[0])
			looking, lf := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
			other, of := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
			lf[2].Hang() // one hears stores 0 and 1
			of[0].Hang() // the other 1 and 2
			if readOnly {
				for _, f := range lf {
					f.Plan = func(op register.Op) register.Fault {
						if _, put := op.Op.(quorumregister.Put); put {
							return register.LostBefore
						}
						return register.None
					}
				}
			}
			s, err := looking.Observe(t.Context(), "x")
			if err != nil || len(s.Holders) != 1 {
				t.Fatalf("Observe, read-only %v: %+v, %v; want the claim that died", readOnly, s, err)
			}
			for _, f := range lf {
				f.Plan = nil
			}
			time.Sleep(looking.Takeover() + 100*time.Millisecond)
			held := func(l *storage.Leaser) tenure.Lease {
				x, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "x", Holder: "a claim"})
				if err != nil {
					t.Logf("read-only %v: %v", readOnly, err)
					return nil
				}
				return x
			}
			a, b := held(other), held(looking)
			if a != nil && b != nil && a.Check() == nil && b.Check() == nil {
				t.Errorf("two hold the lease, with tokens %d and %d: what an onlooker saw by a regular read was taken for evidence", a.Token(), b.Token())
			}
			if readOnly && a == nil {
				t.Error("the claim that cannot see the dead one's record is refused")
			}
		})
	}
}

// A look says what was so when it began: who renewed during a look that took long is alive.
func TestALookThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // what was left behind ends
		all := newMemories(1, term, delay)
		holder, hf := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
		looking, lf := all.open(t, storage.Options{Clock: clock.NewSimulated(1)})
		slow := &slowReplies{Store: lf[0].Store, delay: 2 * delay}
		lf[0].Store = slow
		for looking.Delay() < 4*delay { // so that a long look counts at all
			slow.delay = looking.Delay() * 3 / 2
			if _, err := looking.Observe(t.Context(), "y"); err != nil {
				t.Fatal(err)
			}
		}
		slow.delay = 0
		lease := acquire(t, holder, "x")
		if s, err := looking.Observe(t.Context(), "x"); err != nil || len(s.Holders) != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		hf[0].Hang() // no renewal until just in time
		time.Sleep(looking.Takeover() - 380*time.Millisecond)
		slow.delay = 400 * time.Millisecond
		go func() {
			time.Sleep(10 * time.Millisecond)
			hf[0].Heal()
		}()
		s, err := looking.Observe(t.Context(), "x")
		if lease.Check() != nil {
			t.Fatal("the holder did not renew in time")
		}
		if err != nil || len(s.Holders) != 1 {
			t.Errorf("%+v, %v: a holder who renewed during the look is taken for dead", s, err)
		}
	})
}

// slowReplies is a Store whose replies take long to arrive.
type slowReplies struct {
	register.Store
	delay time.Duration
}

func (s *slowReplies) Do(ops []register.Op) []register.Reply {
	replies := s.Store.Do(ops)
	time.Sleep(s.delay)
	return replies
}
