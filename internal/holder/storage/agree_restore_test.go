package storage_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// TestAgreeDuringARestore: a store forgets the block of a proposer that hears nothing of the others, and is
// filled again with what those have (`tenure lease restore` does it after a wait). When the proposer hears of
// them at last, it does not count what that store said before: another may have decided since.
func TestAgreeDuringARestore(t *testing.T) {
	simulate(t, func(t *testing.T) {
		all := newMemories(3, term, delay)
		p, faults := all.open(t, storage.Options{})
		other, others := all.open(t, storage.Options{})
		others[0].Hang()
		restores := make(chan func(), 1)
		var gone atomic.Bool
		first, second, third := make(chan struct{}), make(chan struct{}), make(chan struct{})
		// blocks calls f for the second block that is put to a store: that of the write.
		blocks := func(f func() register.Fault) func(op register.Op) register.Fault {
			n := 0
			return func(op register.Op) register.Fault {
				_, note := op.Op.(quorumregister.PutNote)
				if op.Name != "x/" || !note {
					return register.None
				}
				if n++; n == 2 {
					return f()
				}
				return register.None
			}
		}
		late := blocks(func() register.Fault { <-first; return register.None })
		forgets := blocks(func() register.Fault { restores <- all[1].Backup(); return register.None })
		lost := blocks(func() register.Fault { <-second; return register.LostBefore })
		faults[0].Plan = late
		faults[1].Plan = func(op register.Op) register.Fault {
			if gone.Load() {
				return register.LostBefore // it has another seal
			}
			return forgets(op)
		}
		faults[2].Plan = func(op register.Op) register.Fault {
			if op.Name == "x/" && isPut(op) {
				<-third
			}
			return lost(op)
		}
		mine := make(chan string)
		go func() {
			value, err := p.Agree(t.Context(), "x", []byte("mine"))
			if err != nil {
				t.Error(err)
			}
			mine <- string(value)
		}()
		restore := <-restores
		time.Sleep(4 * term)
		gone.Store(true)
		restore()
		close(first)
		time.Sleep(delay)
		close(second)
		time.Sleep(delay)
		theirs, err := other.Agree(t.Context(), "x", []byte("theirs"))
		if err != nil {
			t.Fatal(err)
		}
		close(third)
		if got := <-mine; got != string(theirs) {
			t.Errorf("one caller has %q, the other %q", got, theirs)
		}
	})
}
