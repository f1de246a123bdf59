package storage

import (
	"crypto/rand"
	"errors"
	"os"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/storage"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/file"
	"github.com/tenure-lease/tenure/internal/machine"
)

// drift is what our own stores allow for clocks, in parts per million. Here there is
// but one clock; the margin is what a user would have.
const drift = 1000

// Header begins the header of a set of n stores.
func Header(n int, term, delay time.Duration) register.Header {
	h := register.Header{Of: n, Term: term, Delay: delay, Drift: drift}
	rand.Read(h.Set[:])
	return h
}

// Make makes a set of stores in empty directories.
func Make(term, delay time.Duration, dirs ...string) error {
	h := Header(len(dirs), term, delay)
	for i, dir := range dirs {
		h.Index = i
		if err := file.Init(dir, h, file.InitOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// MakeDevice makes a store in a file of a size, in place of a block device, for a number
// of handles.
func MakeDevice(term, delay time.Duration, path string, size int64, handles int) error {
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		return err
	}
	return file.Init(path, Header(1, term, delay), file.InitOptions{Handles: handles, Slots: 8})
}

// Open opens the set in some directories, or on a device. Those that cannot be opened are left out. Wrap,
// if it is not nil, puts something in front of each store.
func Open(wrap func(register.Store) register.Store, dirs ...string) (*storage.Leaser, error) {
	obsolete := func(_ string, v machine.Value, writer machine.ID) bool { return storage.Obsolete(v, writer) }
	var stores []register.Store
	var failed error
	for _, dir := range dirs {
		s, err := file.Open(dir, file.Options{Clock: clock.Now, Obsolete: obsolete})
		switch {
		case err != nil:
			failed = errors.Join(failed, err)
		case wrap != nil:
			stores = append(stores, wrap(s))
		default:
			stores = append(stores, s)
		}
	}
	l, err := Over(stores)
	if err != nil {
		return nil, errors.Join(err, failed)
	}
	return l, nil
}

// Over makes a Leaser over stores, which it takes over, also if it fails.
func Over(stores []register.Store) (*storage.Leaser, error) {
	set, err := register.NewSet(stores)
	if err != nil {
		closeAll(stores)
		return nil, err
	}
	return storage.New(set, storage.Options{}), nil
}

func closeAll(stores []register.Store) {
	for _, s := range stores {
		s.Close()
	}
}

// Now is the clock by which leases are measured: that of the whole machine, suspend
// included.
func Now() time.Duration { return time.Duration(clock.Now()) }
