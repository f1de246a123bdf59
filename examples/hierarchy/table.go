package main

import (
	"errors"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Table has the sub-leases of this process while it owns the outer lease.
type Table struct {
	mu    sync.Mutex
	epoch uint64
	until machine.Mono // of the outer lease, as far as we know
	count uint32       // of grants in this epoch
	held  map[string]held
}

type held struct {
	client string
	token  uint64
	since  machine.Mono
	until  machine.Mono
}

// mostHeld bounds what clients can make us remember.
const mostHeld = 1 << 20

var (
	// ErrNotOwner says that another process owns the outer lease, or nobody.
	ErrNotOwner = errors.New("not the owner at the moment")
	// ErrHeld says that another client has the sub-lease.
	ErrHeld = errors.New("held by another")
	// ErrFull says that there are too many sub-leases.
	ErrFull = errors.New("too many sub-leases are held")
)

// NewTable returns a table that is shut.
func NewTable() *Table { return &Table{held: map[string]held{}} }

// Open lets sub-leases be granted that end before a time. An epoch begins without any:
// those of epochs before are over, ours too.
func (t *Table) Open(epoch uint64, until machine.Mono) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if epoch != t.epoch {
		t.epoch, t.count = epoch, 0
		clear(t.held)
	}
	t.until = until
	for name, h := range t.held {
		if h.until <= clock.Now() {
			delete(t.held, name)
		}
	}
}

// Shut ends that.
func (t *Table) Shut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = 0
}

// Grant gives a client the sub-lease of a name for ttl, or for less if the outer lease ends
// before; or prolongs what the client has.
func (t *Table) Grant(name, client string, ttl time.Duration) (held, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := clock.Now()
	h, ok := t.held[name]
	free := !ok || h.until <= now
	switch {
	case now >= t.until:
		return held{}, ErrNotOwner
	case !free && h.client != client:
		return held{}, ErrHeld
	case !ok && len(t.held) >= mostHeld:
		return held{}, ErrFull
	case free:
		t.count++
		h = held{client: client, token: t.epoch<<32 | uint64(t.count), since: now}
	}
	h.until = max(h.until, min(now.Add(ttl), t.until)) // a promise is kept
	t.held[name] = h
	return h, nil
}

// Epoch is that in which a token was given.
func Epoch(token uint64) uint64 { return token >> 32 }

// Release frees the name if it is held under the token.
func (t *Table) Release(name string, token uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[name].token == token {
		delete(t.held, name)
	}
}
