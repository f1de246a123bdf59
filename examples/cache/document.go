package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/fence"
	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/register"
)

// Document is this client's copy of a shared file, which is its alone while it has the
// lease.
type Document struct {
	path   string
	rescue string // a directory of ours
	leaser *storage.Leaser
	lease  tenure.Lease
	over   chan struct{} // closed when the copy is of no use any more

	saving sync.Mutex // held while the file is written

	mu     sync.Mutex
	text   []byte
	edits  int       // that are in the copy and not in the file
	saved  time.Time // when there were none, last
	closed bool
	loss   error
}

// LossError says which edits have not come to the file.
type LossError struct {
	Path    string
	Edits   int
	Since   time.Time // they were made after that
	Rescued string    // a file with the whole copy; "" if it could not be written either
	Err     error     // why they have not: fence.ErrStale if another client has the file
}

func (e LossError) Error() string {
	where := "and they could not be put elsewhere"
	if e.Rescued != "" {
		where = "your copy is in " + e.Rescued
	}
	return fmt.Sprintf("%d edits since %s are not in %s, %s: %v", e.Edits, e.Since.Format(time.TimeOnly), e.Path, where, e.Err)
}

func (e LossError) Unwrap() error { return e.Err }

// Open waits until the file is ours, and reads it. Leases are kept in the store, which
// belongs to the Document from now on. Text that cannot be saved is put in the directory
// rescue.
func Open(ctx context.Context, store register.Store, path, rescue string) (*Document, error) {
	d := &Document{path: path, rescue: rescue, over: make(chan struct{}), saved: time.Now()}
	set, err := register.NewSet([]register.Store{carrier{store, d.save}})
	if err != nil {
		store.Close()
		return nil, err
	}
	d.leaser = storage.New(set, storage.Options{State: storage.StateDir()})
	if err := d.open(ctx); err != nil {
		d.leaser.Close()
		return nil, err
	}
	go d.watch()
	return d, nil
}

func (d *Document) open(ctx context.Context) (err error) {
	if d.lease, err = d.leaser.Acquire(ctx, tenure.Claim{Name: filepath.Base(d.path)}); err != nil {
		return err
	}
	// First our token, then the file: a client before us whose write-back is on its way
	// either has it there by now, and we read it, or will be refused.
	if err := d.fence().Check(d.lease.Token()); err != nil {
		return err
	}
	text, err := os.ReadFile(d.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.mu.Lock() // a renewal may be looking for something to carry
	defer d.mu.Unlock()
	d.text = text
	return nil
}

// A client that is stopped in the middle of a write-back has the fence locked: others wait
// for it, or for its death.
func (d *Document) fence() fence.File { return fence.File{Path: d.path + ".token"} }

// Text returns the copy.
func (d *Document) Text() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Clone(d.text)
}

// Edit changes the copy. It is in the file at the next renewal, about a third of a term
// later. It fails with an error that wraps tenure.ErrLost once the file is not ours.
func (d *Document) Edit(change func(text []byte) []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.lease.Check(); err != nil {
		return err
	}
	if d.closed {
		return tenure.ErrReleased
	}
	if d.text = change(d.text); d.edits == 0 {
		d.saved = time.Now()
	}
	d.edits++
	return nil
}

// Done is closed when the file is not ours any more. Close says why, and what that cost.
func (d *Document) Done() <-chan struct{} { return d.over }

// save writes back what was edited. It is called by each renewal, and need not be by
// anybody else.
func (d *Document) save() error {
	d.saving.Lock()
	defer d.saving.Unlock()
	d.mu.Lock()
	text, edits, now := bytes.Clone(d.text), d.edits, time.Now()
	d.mu.Unlock()
	if edits == 0 {
		return nil
	}
	err := d.fence().Do(d.lease.Token(), func() error { return replace(d.path, text) })
	if err != nil {
		return fmt.Errorf("write back %s: %w", d.path, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.edits, d.saved = d.edits-edits, now
	return nil
}

// replace has a file on disk as a whole or not at all.
func replace(path string, text []byte) error {
	f, err := os.Create(path + ".new") // the fence lets one in at a time
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// watch tries to save once more when the lease is lost. Perhaps nobody else wanted the file.
func (d *Document) watch() {
	defer close(d.over)
	<-d.lease.Done()
	if errors.Is(d.lease.Err(), tenure.ErrLost) {
		d.last(d.lease.Err())
	}
}

// last saves for the last time, for a reason if it is not by the user's wish, and keeps
// account of what could not be saved.
func (d *Document) last(why error) {
	err := d.save()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.loss = why
	if err == nil {
		return
	}
	loss := LossError{Path: d.path, Edits: d.edits, Since: d.saved, Err: err}
	if why != nil {
		loss.Err = fmt.Errorf("%w (%w)", err, why)
	}
	if f, err := os.CreateTemp(d.rescue, filepath.Base(d.path)+".*"); err == nil {
		if _, err = f.Write(d.text); errors.Join(err, f.Close()) == nil {
			loss.Rescued = f.Name()
		}
	}
	d.loss = loss
}

// Close saves and gives the file to the next client. It returns a LossError if edits were
// lost, and an error that wraps tenure.ErrLost if the file was, though all edits are in it.
func (d *Document) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	if d.lease.Check() == nil {
		d.last(nil)
	}
	err := d.leaser.Close()
	<-d.over
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.loss != nil {
		return d.loss
	}
	return err
}
