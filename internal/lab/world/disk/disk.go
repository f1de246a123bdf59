// Package disk is the disk of a simulated host: a [waltest.Disk], whose calls go by the
// world's seam. So a fault of kind delay, hang, fail, no space or freeze befalls them, bound
// to the n-th call; and the disk may come back older than it was, or empty.
//
//	d := disk.New()
//	opts := wal.Options{FS: d.FS(process)}
//	…
//	d.Kill()                  // the calls of the process fail from now on
//	process.End()
//	d.Exit()                  // kill -9: its writes stay
//	d.Crash(random)           // or a power cut: writes that were not synced are lost, torn or reordered
//
//	d.Keep()                  // a copy is made
//	d.Older()                 // and comes back
//
// The operations of the seam are those of waltest.FS: mkdir, open, rename, remove, readdir,
// syncdir, lock, unlock, read, write, size, truncate, preallocate, sync.
package disk

import (
	"path/filepath"

	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/lab/world"
)

// Disk is a host's disk. It outlives the processes that use it.
type Disk struct {
	*waltest.Disk
	kept waltest.Image
}

// New returns an empty disk.
func New() *Disk { return &Disk{Disk: waltest.NewDisk()} }

// FS is the disk as a process sees it that starts now.
func (d *Disk) FS(p *world.Process) *waltest.FS {
	fs := d.Disk.FS()
	fs.Fault = func(op, path string) error {
		detail := ""
		if op != "read" && op != "size" {
			detail = filepath.Base(path)
		}
		return p.Do(world.Disk, op, detail)
	}
	return fs
}

// Keep makes a copy of the disk, in the place of the one before.
func (d *Disk) Keep() { d.kept = d.Image() }

// Older replaces the disk's content by the copy; without a copy it is empty. Processes that use
// the disk end.
func (d *Disk) Older() { d.Restore(d.kept) }

// Empty removes all files. Processes that use the disk end.
func (d *Disk) Empty() { d.Restore(waltest.Image{}) }
