package file

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// hanging is a file system on which lists hang once so many were made, until it is healed.
type hanging struct {
	file.FS
	left   atomic.Int64
	healed chan struct{}
}

func (h *hanging) Names(dir string) ([]string, error) {
	if h.left.Add(-1) < 0 {
		<-h.healed
	}
	return h.FS.Names(dir)
}

// overFS makes a store and opens it over a file system.
func overFS(t *testing.T, sys file.FS) *Leaser {
	path := t.TempDir()
	c := clock.NewSimulated(machine.Mono(time.Now().UnixNano()))
	h := register.Header{Set: machine.ID{5}, Of: 1, Term: 4 * time.Second, Delay: 150 * time.Millisecond}
	if err := file.Init(path, h, file.InitOptions{SingleHost: true}); err != nil {
		t.Fatal(err)
	}
	s, err := file.Open(path, file.Options{Clock: c.Now, FS: sys, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	set, err := register.NewSetBy(c.Now, []register.Store{s})
	if err != nil {
		t.Fatal(err)
	}
	return &Leaser{Leaser: storage.New(set, storage.Options{Clock: c}), places: []storage.Place[*file.Store]{{Name: path, Store: s}}}
}

// TestHealthOfAStoreThatHangs: Health comes back with its context, whether the store hangs before it
// has answered a look or when its handles are counted.
func TestHealthOfAStoreThatHangs(t *testing.T) {
	for lists := range 4 {
		bubble.Test(t, func(t *testing.T) {
			sys := &hanging{FS: file.OS, healed: make(chan struct{})}
			sys.left.Store(int64(lists))
			l := overFS(t, sys)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			looked := make(chan []Health, 1)
			go func() {
				all, err := l.Health(ctx, "x")
				if err != nil {
					t.Error(err)
				}
				looked <- all
			}()
			select {
			case all := <-looked:
				if len(all) != 1 || all[0].Err == nil || all[0].Err.Error() != errSilent.Error() {
					t.Errorf("a store that hangs at list %d: %+v, want that it does not answer", lists+1, all)
				}
			case <-time.After(time.Minute):
				t.Errorf("Health hangs with a store that hangs at list %d, though its context has ended", lists+1)
			}
			close(sys.healed)
			synctest.Wait()
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

var errList = errors.New("the list is broken")

// failing is a file system on which lists fail once so many were made.
type failing struct {
	file.FS
	left atomic.Int64
}

func (f *failing) Names(dir string) ([]string, error) {
	if f.left.Add(-1) < 0 {
		return nil, errList
	}
	return f.FS.Names(dir)
}

// TestHealthOfAStoreThatFails: a store may fail when it is looked at or when its handles are
// counted. Health returns the error in both cases, and no count.
func TestHealthOfAStoreThatFails(t *testing.T) {
	for lists := range 5 {
		bubble.Test(t, func(t *testing.T) {
			sys := &failing{FS: file.OS}
			sys.left.Store(int64(lists))
			l := overFS(t, sys)
			all, err := l.Health(t.Context(), "x")
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			if fails := lists < 4; errors.Is(all[0].Err, errList) != fails { // two looks, of two lists each
				t.Errorf("a store whose list %d fails: %v", lists+1, all[0].Err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAStoreThatIsOpenTooLate: a store that answers when Open has gone on without it is closed. On a
// device its area would be in use for good.
func TestAStoreThatIsOpenTooLate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := clock.NewSimulated(machine.Mono(time.Now().UnixNano()))
		cfg := Config{Paths: []string{t.TempDir(), t.TempDir(), t.TempDir()}, SingleHost: true, Clock: c, State: t.TempDir()}
		if _, err := initBy(t.Context(), c.Now, cfg.Paths, Spec{Spec: storage.Spec{Term: 4 * time.Second, Delay: 150 * time.Millisecond}, SingleHost: true}); err != nil {
			t.Fatal(err)
		}
		hangs := make(chan struct{})
		late := make(chan *file.Store, 1)
		found := openAllBy(t.Context(), cfg.Paths, func(path string) finding {
			f := openOne(path, cfg)
			if path == cfg.Paths[2] {
				<-hangs
				late <- f.store
			}
			return f
		})
		if found[2].store != nil {
			t.Error("a store that hangs was waited for")
		}
		found.close()
		close(hangs)
		synctest.Wait()
		if r := (<-late).Do([]register.Op{{Name: "x", Op: quorumregister.Query{}}})[0]; !errors.Is(r.Err, os.ErrClosed) {
			t.Errorf("Open went on without a store, which is left open when it answers: %v", r.Err)
		}
	})
}

// TestHealthOfEachStore: the report of a store is its own: its path, whether it is for one host,
// and how many processes have it open.
func TestHealthOfEachStore(t *testing.T) {
	paths := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	single := []bool{true, false, true}
	for i, path := range paths {
		h := register.Header{Set: machine.ID{5}, Of: 3, Index: i, Term: time.Minute, Delay: time.Second}
		if err := file.Init(path, h, file.InitOptions{SingleHost: single[i]}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Open(t.Context(), Config{Paths: []string{paths[2], paths[0], paths[1]}, State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all, err := l.Health(t.Context(), "x")
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	for i, h := range all {
		if h.Err != nil || h.Store != i || h.Path != paths[i] || h.SingleHost != single[i] || len(h.Damage) > 0 {
			t.Errorf("of store %d there is told %+v, want that it is at %s, and for one host: %v", i, h, paths[i], single[i])
		}
	}
}
