package leasetest

import (
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
)

// Memory is a store of leases in this process, for tests. It grants any TTL as
// asked for.
type Memory struct {
	mu      sync.Mutex
	token   uint64
	queues  map[string][]*entry // in order of arrival
	records map[string][]byte
	changed chan struct{} // closed and replaced whenever an entry leaves
}

// entry is a claim in a queue.
type entry struct {
	claim tenure.Claim
	token uint64
	until time.Time // lock delay included
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{queues: map[string][]*entry{}, records: map[string][]byte{}, changed: make(chan struct{})}
}

// Fixture lets the suite, or any test, make trouble for the store's Leasers.
func (m *Memory) Fixture(ttl time.Duration) Fixture {
	return Fixture{
		Open:    func() (tenure.Leaser, error) { return m.Open(), nil },
		TTL:     ttl,
		Cut:     func(l tenure.Leaser) { l.(*memoryLeaser).line.cut() },
		Heal:    func(l tenure.Leaser) { l.(*memoryLeaser).line.heal() },
		Lag:     func(l tenure.Leaser, d time.Duration) { l.(*memoryLeaser).line.lag(d) },
		Restart: func() error { return nil }, // tokens are one counter, kept
		Crash:   func() error { m.crash(); return nil },
		Suspend: func(l tenure.Leaser, d time.Duration) { l.(*memoryLeaser).suspend(d) },
	}
}

// crash forgets nothing: every entry is durable before its owner hears of it. Every waiter
// looks again.
func (m *Memory) crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

// enqueue appends a claim.
func (m *Memory) enqueue(c tenure.Claim) *entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(c.Name)
	m.token++
	e := &entry{c, m.token, time.Now().Add(c.TTL + c.LockDelay)}
	m.queues[c.Name] = append(m.queues[c.Name], e)
	return e
}

// renew reports false for an entry that has left.
func (m *Memory) renew(e *entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(e.claim.Name)
	if !slices.Contains(m.queues[e.claim.Name], e) {
		return false
	}
	e.until = time.Now().Add(e.claim.TTL + e.claim.LockDelay)
	return true
}

func (m *Memory) remove(e *entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e == nil {
		return
	}
	m.keep(e.claim.Name, func(other *entry) bool { return other != e })
}

// look returns the queue's state, whether e (which may be nil) is in it and
// admitted, and when to look again.
func (m *Memory) look(name string, e *entry) (s tenure.State, in, admitted bool, changed <-chan struct{}, soonest time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(name)
	queue := m.queues[name]
	var slots []int
	for _, other := range queue {
		slots = append(slots, other.claim.Slots)
	}
	n := tenure.Admitted(slots)
	s = tenure.State{Name: name, Waiting: len(queue) - n}
	for i, other := range queue {
		if i < n {
			s.Holders = append(s.Holders, tenure.Holding{
				Holder: other.claim.Holder, Token: other.token, Slots: other.claim.Slots,
				Until: other.until.Add(-other.claim.LockDelay),
			})
		}
		if soonest.IsZero() || other.until.Before(soonest) {
			soonest = other.until
		}
	}
	i := slices.Index(queue, e)
	return s, i >= 0, i >= 0 && i < n, m.changed, soonest
}

func (m *Memory) expire(name string) {
	now := time.Now()
	m.keep(name, func(e *entry) bool { return now.Before(e.until) })
}

// keep drops the entries that are not to be kept, and wakes the waiters.
func (m *Memory) keep(name string, stays func(*entry) bool) {
	queue := slices.DeleteFunc(slices.Clone(m.queues[name]), func(e *entry) bool { return !stays(e) })
	if len(queue) == len(m.queues[name]) {
		return
	}
	m.queues[name] = queue
	if len(queue) == 0 {
		delete(m.queues, name)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}
