package fence

import (
	"errors"
	"fmt"
	"sync"
)

// ErrStale is a token below the highest that the resource has seen: the lease has
// passed to another. Stop; do not retry with the same token.
var ErrStale = errors.New("stale fencing token")

// ErrNoToken is a token of zero, which no lease has.
var ErrNoToken = errors.New("no fencing token: pass on the token of the lease")

func stale(token, highest uint64) error {
	return fmt.Errorf("%w: %d, but %d was seen: the lease has passed to another holder", ErrStale, token, highest)
}

// check decides.
func check(token, highest uint64) error {
	switch {
	case token == 0:
		return ErrNoToken
	case token < highest:
		return stale(token, highest)
	}
	return nil
}

// Store remembers the highest token. File and Memory are Stores.
type Store interface {
	// Do raises the highest token to the given one and calls f, during which no
	// other call of Do with a higher token begins. It returns an error that wraps
	// ErrStale, and does not call f, if a higher token was seen.
	Do(token uint64, f func() error) error
}

// Memory is a Store for a resource that does not outlive the process. The zero value
// has seen no token.
type Memory struct {
	order   sync.Mutex   // held from a look at highest until the write has begun
	writing sync.RWMutex // held for reading while a write is done
	highest uint64
}

// Do implements Store. Calls with the same token run side by side.
func (m *Memory) Do(token uint64, f func() error) error {
	if err := m.begin(token); err != nil {
		return err
	}
	defer m.writing.RUnlock()
	return f()
}

// begin raises the highest token, after the writes under way have ended, and begins another.
func (m *Memory) begin(token uint64) error {
	m.order.Lock()
	defer m.order.Unlock()
	if err := check(token, m.highest); err != nil {
		return err
	}
	if token > m.highest {
		m.writing.Lock()
		m.highest = token
		m.writing.Unlock()
	}
	m.writing.RLock()
	return nil
}
