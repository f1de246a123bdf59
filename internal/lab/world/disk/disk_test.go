package disk_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/disk"
)

func TestCallsGoByTheSeam(t *testing.T) {
	plan := []world.Fault{
		{Who: "a", Seam: world.Disk, Op: "sync", Nth: 1, Kind: world.Fail},
		{Who: "a", Seam: world.Disk, Op: "write", Nth: 2, Kind: world.NoSpace},
	}
	world.Play(t, world.Options{Seed: 1, Plan: plan}, func(w *world.World) {
		p, d := w.Start("a"), disk.New()
		f, err := d.FS(p).OpenFile("/d/f", os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("early"), 0); err != nil {
			t.Fatal(err)
		}
		d.Keep()
		if err := f.Sync(); !errors.Is(err, syscall.EIO) {
			t.Errorf("the first sync: %v", err)
		}
		if _, err := f.WriteAt([]byte("late"), 0); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the second write: %v", err)
		}
		if _, err := f.WriteAt([]byte("later"), 0); err != nil {
			t.Errorf("the third write: %v", err)
		}
		d.Kill()
		p.End()
		if _, err := f.WriteAt([]byte("never"), 0); !errors.Is(err, world.ErrDead) {
			t.Errorf("a write after the end: %v", err)
		}
		d.Exit()
		if got := string(d.ReadFile("/d/f")); got != "later" {
			t.Errorf("the disk holds %q", got)
		}
		d.Older()
		if got := string(d.ReadFile("/d/f")); got != "early" {
			t.Errorf("the older disk holds %q", got)
		}
		if d.Empty(); d.ReadFile("/d/f") != nil {
			t.Error("the empty disk holds a file")
		}
	})
}
