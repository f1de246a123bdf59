package driver

import (
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Config ties a machine to the world.
type Config struct {
	Machine machine.Machine
	// Now reads the clocks. Its Mono must never go back, and must count suspend if the machine
	// rests on time.
	Now func() machine.Now
	// Send takes envelopes on their way; it may drop them, and must not block.
	Send func([]machine.Envelope)
	// Persist writes the records in order. It returns when they, and all before
	// them, are durable; with force unset, when they outlive the process.
	// Nil if the machine persists nothing.
	Persist func(records []any, force bool) error
	// Linger is how long records that nothing waits for may wait for one that is forced, to
	// be written with it; 0: not at all. Until then they do not outlive the process.
	Linger time.Duration
	// Hold has what a turn sends wait for those who were told something in it: what they say
	// at once is stepped, and leaves with it.
	Hold bool
	// Access begins operations on shared storage. It must not block; each ends in a
	// Step of machine.Accessed. Nil if the machine has none.
	Access func([]machine.Access)
	// Outcome takes what the machine reports, in order, on the goroutine that
	// steps it at the time. It must not block and may call Step.
	Outcome func([]any)
	// Fail is called once if Persist fails, or if Mono goes back. The machine is not
	// stepped again. It must not call Stop, which would wait for it.
	Fail func(error)
	// QueueLimit is the number of waiting inputs above which Offer waits.
	// Default 16,384.
	QueueLimit int
}

// Driver runs one machine.
type Driver struct {
	cfg Config

	mu      sync.Mutex
	room    sync.Cond // signaled when the queue was taken
	queue   []any
	rang    bool // the timer has, and no turn was made since
	turning bool // somebody makes turns, and looks at queue and rang before he stops
	stopped bool
	wake    chan struct{} // capacity 1

	turns   turns // of who is turning
	writes  writeQueue
	stop    chan struct{}
	done    sync.WaitGroup
	failing sync.Once
}

// Start runs the machine until Stop.
func Start(cfg Config) *Driver {
	if cfg.QueueLimit == 0 {
		cfg.QueueLimit = 16384
	}
	d := &Driver{cfg: cfg, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	d.room.L = &d.mu
	d.writes.linger, d.writes.wake = cfg.Linger, d.wake
	now := cfg.Now()
	d.turns = turns{timer: time.NewTimer(0), now: now, alarm: now.Mono}
	d.done.Go(d.work)
	if cfg.Persist != nil {
		d.done.Go(d.work)
	}
	return d
}

// Step queues an input and returns at once. An input of type func() any is
// called on the stepping goroutine when its turn comes, and what it returns is
// stepped unless it is nil: so a caller can gather until the last moment, or
// look at the machine between two steps. What comes after Stop is dropped.
// A Look is the same for less.
func (d *Driver) Step(input any) {
	d.mu.Lock()
	d.add(input)
}

// Look is an input that is called like a func() any, and gathers nothing that could be
// younger than the call of Step: the clock need not be read again for what it returns.
type Look func() any

// add queues inputs and gives d.mu back.
func (d *Driver) add(inputs ...any) {
	if d.stopped {
		d.mu.Unlock()
		return
	}
	wakes := len(d.queue) == 0 && !d.turning
	d.queue = append(d.queue, inputs...)
	d.mu.Unlock()
	if wakes {
		poke(d.wake)
	}
}

// Offer is Step for inputs from outside: it waits while the queue is full, so
// that a peer that sends faster than the machine can step is held back.
func (d *Driver) Offer(inputs ...any) {
	d.mu.Lock()
	for len(d.queue) >= d.cfg.QueueLimit && !d.stopped {
		d.room.Wait()
	}
	d.add(inputs...)
}

// Do runs f on the stepping goroutine, between two steps, and waits for it. It
// reports false if the driver stopped first.
func (d *Driver) Do(f func()) bool {
	ran := make(chan struct{})
	d.Step(func() any { f(); close(ran); return nil })
	select {
	case <-ran:
		return true
	case <-d.stop:
		return false
	}
}

// Stop ends the stepping, waits for it, and drops what is queued.
func (d *Driver) Stop() {
	d.Halt()
	d.done.Wait()
}

// Halt is Stop without the wait, so that callbacks may call it.
func (d *Driver) Halt() {
	d.mu.Lock()
	if !d.stopped {
		d.stopped, d.queue = true, nil
		close(d.stop)
		d.room.Broadcast()
	}
	d.mu.Unlock()
}

func (d *Driver) fail(err error) {
	d.failing.Do(func() {
		d.Halt()
		d.cfg.Fail(err)
	})
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// work makes turns and writes what they leave, until the end. Two goroutines do it, of which
// one at a time makes turns and one at a time writes: so nobody need be woken to write what
// another has stepped, and while he writes somebody steps what comes.
func (d *Driver) work() {
	woken := false
	for {
		// First what was stepped during a write: the next turn may be long, and the other
		// goroutine can make it.
		if d.writes.begin() {
			d.letStep()
			d.write()
			continue
		}
		d.makeTurns(woken)
		if woken = false; d.writes.begin() {
			d.write()
			continue
		}
		select {
		case <-d.wake:
			woken = true
		case <-d.turns.timer.C:
			d.mu.Lock()
			d.rang, d.turns.armed = true, 0
			d.mu.Unlock()
		case <-d.stop:
			d.turns.timer.Stop()
			d.writeRest()
			return
		}
	}
}
