package register

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Fault is a fault of an operation.
type Fault int

const (
	None       Fault = iota
	Late             // it takes Faults.Delay longer, and all that is done with it
	LostBefore       // it fails, and has no effect
	LostAfter        // it fails, and has its effect
	Stuck            // it fails, and has its effect when Land is called, or an operation after it is Late
	Torn             // a Put or PutNote that fails and leaves damage: see Faults.Tear
)

// ErrInjected is the error of an operation that a Faults made fail.
var ErrInjected = errors.New("injected fault")

// Faults is a Store that fails as it is told: the one place where tests of stores,
// registers and leases, yours too, inject faults. Set the fields before use. The
// methods may be called from any goroutine while it is in use.
type Faults struct {
	Store
	// Plan chooses the fault of each operation, in order. Nil: none fails.
	Plan func(Op) Fault
	// Delay is for how long a Late operation waits.
	Delay time.Duration
	// Tear leaves the medium as if power had failed in the middle of op. If it is nil, the next
	// three Queries of the name fail here, or all until a Put.
	Tear func(op Op)

	mu      sync.Mutex // held while the store works
	stuck   []Op
	damaged map[string]int // Queries that are to fail, by name

	state  sync.Mutex
	down   error
	healed chan struct{} // closed unless it hangs; nil if it never did
}

// Mix is how likely each kind of fault is, each from 0 to 1, together at most 1.
type Mix struct{ Late, LostBefore, LostAfter, Stuck, Torn float64 }

// Seeded returns a Plan that draws faults by a seed. Only Puts and PutNotes are Stuck
// or Torn; to a Query those are LostBefore.
func (m Mix) Seeded(seed uint64) func(Op) Fault {
	random := rand.New(rand.NewPCG(seed, 0))
	return func(op Op) Fault {
		x := random.Float64()
		for i, p := range []float64{m.Late, m.LostBefore, m.LostAfter, m.Stuck, m.Torn} {
			if x -= p; x < 0 {
				return Fault(i + 1)
			}
		}
		return None
	}
}

// Fail makes every operation fail from now on, without effect. Nil ends that.
func (f *Faults) Fail(err error) {
	f.state.Lock()
	defer f.state.Unlock()
	f.down = err
}

// Hang makes operations hang from now on, until Heal. Then they are done.
func (f *Faults) Hang() {
	f.state.Lock()
	defer f.state.Unlock()
	if f.healed == nil {
		f.healed = make(chan struct{})
	}
}

// Heal ends Hang and Fail.
func (f *Faults) Heal() {
	f.state.Lock()
	defer f.state.Unlock()
	if f.healed != nil {
		close(f.healed)
		f.healed = nil
	}
	f.down = nil
}

// Land lets all that is Stuck take effect now.
func (f *Faults) Land() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.land(len(f.stuck))
}

func (f *Faults) land(n int) {
	if n > 0 {
		f.Store.Do(f.stuck[:n])
		f.stuck = f.stuck[n:]
	}
}

// wait returns when nothing hangs, with the error of a store that is down.
func (f *Faults) wait() error {
	for {
		f.state.Lock()
		healed, err := f.healed, f.down
		f.state.Unlock()
		if healed == nil {
			return err
		}
		<-healed
	}
}

// Do performs the operations that the faults let through.
func (f *Faults) Do(ops []Op) []Reply {
	replies := make([]Reply, len(ops))
	if err := f.wait(); err != nil {
		for i := range replies {
			replies[i].Err = err
		}
		return replies
	}
	faults := make([]Fault, len(ops))
	late := false
	for i, op := range ops {
		if f.Plan != nil {
			faults[i] = f.Plan(op)
		}
		late = late || faults[i] == Late
	}
	if late {
		time.Sleep(f.Delay)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var whole []Op   // the operations that are done
	var places []int // and where its replies go
	for i, op := range ops {
		if f.strike(faults[i], op) {
			replies[i].Err = ErrInjected
			continue
		}
		whole, places = append(whole, op), append(places, i)
	}
	if len(whole) == 0 {
		return replies
	}
	for i, r := range f.Store.Do(whole) {
		op, at := whole[i], places[i]
		switch _, query := op.Op.(quorumregister.Query); {
		case faults[at] == LostAfter:
			r = Reply{Err: ErrInjected}
		case query && f.damaged[op.Name] > 0:
			f.damaged[op.Name]--
			r = Reply{Err: errors.Join(ErrInjected, ErrDamaged)}
		case !query && r.Err == nil:
			delete(f.damaged, op.Name)
		}
		replies[at] = r
	}
	return replies
}

// strike carries out a fault, and reports whether it keeps the operation from the store now.
func (f *Faults) strike(fault Fault, op Op) bool {
	changes := false
	switch op.Op.(type) {
	case quorumregister.Put, quorumregister.PutNote:
		changes = true
	}
	switch {
	case fault == Stuck && changes:
		f.stuck = append(f.stuck, op)
	case fault == Torn && changes && f.Tear != nil:
		f.Tear(op)
	case fault == Torn && changes:
		if f.damaged == nil {
			f.damaged = map[string]int{}
		}
		f.damaged[op.Name] = 3
	case fault == None || fault == Late || fault == LostAfter:
		if fault == Late && len(f.stuck) > 0 {
			f.land(1) // a queue moves on
		}
		return false
	}
	return true
}

// Names lists the names, unless the store is down or hangs.
func (f *Faults) Names() ([]string, error) {
	if err := f.wait(); err != nil {
		return nil, err
	}
	return f.Store.Names()
}

// Close closes the store. Stuck accesses are lost; hanging ones go on hanging.
func (f *Faults) Close() error { return f.Store.Close() }
