package file

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/engine/storage"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/register"
	"github.com/tenure-lease/tenure/register/file"
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

// TestHealthOfAStoreThatHangs: Health comes back with its context, whether the store hangs before it
// has answered a look or when its handles are counted.
func TestHealthOfAStoreThatHangs(t *testing.T) {
	for lists := range 4 {
		synctest.Test(t, func(t *testing.T) {
			path := t.TempDir()
			c := clock.NewSimulated(machine.Mono(time.Now().UnixNano()))
			h := register.Header{Set: machine.ID{5}, Of: 1, Term: 4 * time.Second, Delay: 150 * time.Millisecond}
			if err := file.Init(path, h, file.InitOptions{SingleHost: true}); err != nil {
				t.Fatal(err)
			}
			sys := &hanging{FS: file.OS, healed: make(chan struct{})}
			sys.left.Store(int64(lists))
			s, err := file.Open(path, file.Options{Clock: c.Now, FS: sys, ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			set, err := register.NewSetBy(c.Now, []register.Store{s})
			if err != nil {
				t.Fatal(err)
			}
			l := &Leaser{Leaser: storage.New(set, storage.Options{Clock: c}), paths: []string{path}, stores: []*file.Store{s}, absent: make([]error, 1)}
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
