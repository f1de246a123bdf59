package node

import (
	"errors"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// TestFailureBeforeStartReturns: the disk fails the first write that the driver
// asks for, while Start is still putting the parts together.
func TestFailureBeforeStartReturns(t *testing.T) {
	disk := &failingFS{}
	failed := make(chan error, 1)
	cfg := single(t, t.TempDir())
	cfg.WAL.FS = disk
	cfg.Fail = func(err error) { failed <- err }
	cfg.Now = func() machine.Now { // asked for when the log is open
		disk.broken.Store(true)
		return hostNow()
	}
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	select {
	case err := <-failed:
		if !errors.Is(err, errDisk) {
			t.Errorf("the failure is %v, want the disk's", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the member went on")
	}
}
