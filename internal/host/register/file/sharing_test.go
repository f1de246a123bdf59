package file

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Many handles come and go, with a term so short that slots are used anew and files removed all the
// time. A Query sees each write that was complete before it began.
func TestSharing(t *testing.T) {
	for _, single := range []bool{false, true} {
		t.Run(fmt.Sprint("single-host=", single), func(t *testing.T) {
			dir := t.TempDir()
			h := testHeader
			h.Term, h.Delay = 150*time.Millisecond, 5*time.Millisecond
			if err := Init(dir, h, InitOptions{SingleHost: single}); err != nil {
				t.Fatal(err)
			}
			var began = time.Now()
			opts := Options{
				Clock: func() machine.Mono { return machine.Mono(time.Since(began)) + 1 },
				// Registers that begin with o are obsolete whenever somebody left.
				Obsolete: func(name string, v machine.Value, w machine.ID) bool { return name[0] == 'o' },
			}
			names := []string{"kept 1", "kept 2", "o 1", "o 2"}
			var complete [4]atomic.Uint64
			var crowd sync.WaitGroup
			var reopened atomic.Int64
			few := func() bool { return complete[0].Load() < 20 || reopened.Load() < 8 }
			for i := range 4 {
				crowd.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(i)))
					for time.Since(began) < 1200*time.Millisecond || few() && time.Since(began) < 20*time.Second {
						s, err := Open(dir, opts)
						if err != nil {
							t.Error(err)
							return
						}
						share(t, s, random, names, complete[:])
						if err := s.Close(); err != nil {
							t.Error(err)
						}
						reopened.Add(1)
					}
				})
			}
			crowd.Wait()
			if few() {
				t.Errorf("only %d writes and %d handles", complete[0].Load(), reopened.Load())
			}
		})
	}
}

// share is a handle's life.
func share(t *testing.T, s *Store, random *rand.Rand, names []string, complete []atomic.Uint64) {
	var w machine.ID
	w[0], w[1], w[2] = byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32())
	for range random.IntN(60) {
		n := random.IntN(len(names))
		least := complete[n].Load()
		r := s.Do([]register.Op{query(names[n])})[0]
		if errors.Is(r.Err, register.ErrDamaged) {
			continue // met in the middle of a write
		}
		if r.Err != nil {
			t.Error(r.Err)
			return
		}
		st := r.Value.(quorumregister.State)
		if seen := max(st.Version.Seq, st.Floor); seen < least || names[n][0] == 'k' && st.Version.Seq < least {
			t.Errorf("%s shows version %d and floor %d, and %d was complete before", names[n], st.Version.Seq, st.Floor, least)
		}
		v := machine.Version{Seq: max(st.Version.Seq, st.Floor) + 1, Writer: w}
		op := register.Op{Name: names[n], Writer: w, Op: quorumregister.Put{Version: v, Data: []byte(fmt.Sprint(v.Seq))}}
		switch r := s.Do([]register.Op{op})[0]; {
		case errors.Is(r.Err, fs.ErrNotExist):
			continue // we stood still, and another took our half-made file for a dead handle's
		case r.Err != nil:
			t.Error(r.Err)
			return
		}
		for {
			c := complete[n].Load()
			if c >= v.Seq || complete[n].CompareAndSwap(c, v.Seq) {
				break
			}
		}
		if random.IntN(3) == 0 {
			s.Do([]register.Op{{Name: names[n], Writer: w, Op: register.Leave{}}})
			w[3]++
		}
		if random.IntN(20) == 0 {
			time.Sleep(time.Duration(random.IntN(int(s.lookout.wait / 4)))) // others find us idle, or not
		}
	}
}

// Names and Dump look while Do works.
func TestOnlookersBesideDo(t *testing.T) {
	b := newBench(t, InitOptions{SingleHost: true})
	s := b.open()
	do(t, s, put("x", 1, 1, "one"))
	stop := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if names, err := s.Names(); err != nil || len(names) == 0 {
				t.Errorf("names %v, %v", names, err)
				return
			}
			for _, err := range s.Dump() {
				if err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for i := range uint64(100) {
		do(t, s, put(fmt.Sprint("r", i%20), i+1, 1, "data"), query("x"))
	}
	close(stop)
	looking.Wait()
}

// Close does not wait for a Do that hangs; that frees everything if it ever returns.
func TestCloseWhileDoHangs(t *testing.T) {
	b := newBench(t, InitOptions{})
	hangs, goOn := make(chan struct{}), make(chan struct{})
	first := true
	b.files = &faulty{before: func(step, path string) {
		if step == "names" && first {
			first = false
			close(hangs)
			<-goOn
		}
	}}
	s := b.open()
	done := make(chan []register.Reply)
	go func() { done <- s.Do([]register.Op{query("x")}) }()
	<-hangs
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	close(goOn)
	if r := <-done; r[0].Err != nil {
		t.Error(r[0].Err)
	}
	if r := s.Do([]register.Op{query("x")})[0]; r.Err == nil {
		t.Error("a closed store answers")
	}
}
