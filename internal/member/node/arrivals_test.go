package node

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// The log and the applier both keep a snapshot that raft has taken. While the disk hangs, both wait.
// Raft, which only notes the snapshot, waits for neither.
func TestArrivalsOnADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var as arrivals
		disk, hangs, resumes := waltest.NewDisk().FS(), false, make(chan struct{})
		disk.Fault = func(op, path string) error {
			if !hangs || op != "rename" && op != "remove" {
				return nil
			}
			if !as.mu.TryLock() {
				return errors.New("the lock is held while the disk is asked: " + op)
			}
			as.mu.Unlock()
			<-resumes
			return nil
		}
		log, err := wal.Create("/d", nil, wal.Options{FS: disk})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		for index := range uint64(2) {
			var file bytes.Buffer
			if err := log.Snapshots().Save(wal.SnapshotInfo{Index: 9 + index, Term: 1}, func(w io.Writer) error { return nil }); err != nil {
				t.Fatal(err)
			}
			r, _, err := log.Snapshots().Export(9 + index)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(&file, r)
			r.Close()
			a, err := log.Snapshots().Receive(9+index, &file)
			if err != nil {
				t.Fatal(err)
			}
			as.add(&arrival{Arrival: a})
		}
		hangs = true
		as.take(9, 1)
		var kept atomic.Int32
		var refused atomic.Bool
		for range 2 {
			go func() {
				if err := as.keep(9, 1); err != nil {
					t.Error(err)
				}
				kept.Add(1)
			}()
			synctest.Wait()
		}
		go func() {
			_, err := as.refuse(as.list[len(as.list)-1])
			if err != nil {
				t.Error(err)
			}
			refused.Store(true)
		}()
		synctest.Wait()
		if kept.Load() > 0 || refused.Load() {
			t.Errorf("while the disk hangs, %d have gone on with the snapshot; refused: %t", kept.Load(), refused.Load())
		}
		close(resumes)
		synctest.Wait()
		if kept.Load() != 2 || !refused.Load() || len(as.list) > 0 {
			t.Errorf("when the disk has answered, %d of 2 have gone on, refused: %t, and %d snapshots are remembered", kept.Load(), refused.Load(), len(as.list))
		}
	})
}
