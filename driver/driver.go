package driver

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// Config ties a machine to the world.
type Config struct {
	Machine machine.Machine
	// Now reads the clocks. Its Mono must count suspend and never go back.
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
	// Alone lets the goroutine that steps call Persist itself as long as turns have one input
	// each: then nobody waits meanwhile, and another goroutine need not be woken.
	Alone bool
	// Access begins operations on shared storage. It must not block; each ends in a
	// Step of machine.Accessed. Nil if the machine has none.
	Access func([]machine.Access)
	// Outcome takes what the machine reports, in order, on the goroutine that
	// steps it. It must not block and may call Step.
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
	stopped bool
	wake    chan struct{} // capacity 1

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
	d.writes.linger = cfg.Linger
	d.writes.wake = make(chan struct{}, 1)
	d.done.Go(d.run)
	if cfg.Persist != nil {
		d.done.Go(d.persist)
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
	first := len(d.queue) == 0
	d.queue = append(d.queue, inputs...)
	d.mu.Unlock()
	if first {
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

// busyTurns is how long a turn of several inputs is taken for load.
const busyTurns = 16

// run is the loop of package machine's comment.
func (d *Driver) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var spare []any
	busy := 0                // for how many turns more others are let go first
	armed := machine.Mono(0) // until when timer waits
	now := d.cfg.Now()
	alarm := now.Mono
	for {
		inputs := d.take(spare)
		for len(inputs) == 0 && now.Mono < alarm {
			// Go's timers do not count suspend, so after one the alarm is
			// late by what was left of the wait. A second bounds that.
			// One that rings too early costs less than to set it each time.
			if until := min(alarm, now.Mono.Add(time.Second)); until < armed || armed <= now.Mono {
				armed = until
				timer.Reset(until.Sub(now.Mono))
			}
			select {
			case <-d.wake:
				// Who is about to step goes first and shares the turn: under
				// load a turn is dearer than what is stepped in it. Without load
				// nobody is, and looking for him wakes a thread.
				if busy > 0 {
					busy--
					runtime.Gosched()
				}
			case <-timer.C:
				armed = 0
				if !d.read(&now) {
					return
				}
			case <-d.stop:
				return
			}
			inputs = d.take(inputs)
		}
		select {
		case <-d.stop:
			return
		default:
		}
		// Read once, after the inputs were taken: none that gathers nothing arrived
		// later than now, and reading a clock that counts suspend costs a system call.
		if !d.read(&now) {
			return
		}
		if len(inputs) > 1 {
			busy = busyTurns
		}
		for i, in := range inputs {
			switch f := in.(type) {
			case func() any:
				in = f()
				if !d.read(&now) { // what it gathered may have come since
					return
				}
			case Look:
				in = f()
			}
			if in != nil {
				d.cfg.Machine.Step(now, in)
			}
			inputs[i] = nil
		}
		if alarm <= now.Mono {
			d.cfg.Machine.Step(now, machine.Wake{})
		}
		rd := d.cfg.Machine.Ready()
		// First, for what others hear may rest on what the owner has heard.
		if len(rd.Outcomes) > 0 {
			d.cfg.Outcome(rd.Outcomes)
		}
		if len(rd.Sends) > 0 {
			d.cfg.Send(rd.Sends)
		}
		if !d.cfg.Alone || busy > 0 || !d.persistAlone(rd.Persists) {
			d.writes.put(rd.Persists)
		}
		if len(rd.Accesses) > 0 {
			d.cfg.Access(rd.Accesses)
		}
		alarm = rd.Alarm
		spare = inputs[:0]
	}
}

// read reads the clocks. One that goes back is worse than none: what a machine
// believes or has promised for a time may be over, and it cannot know.
func (d *Driver) read(now *machine.Now) bool {
	next := d.cfg.Now()
	if back := now.Mono.Sub(next.Mono); back > 0 {
		d.fail(fmt.Errorf("driver: the monotonic clock went back by %v: restart the process, and find out what sets the clocks of this machine", back))
		return false
	}
	*now = next
	return true
}

// take returns what is queued and leaves spare in its place.
func (d *Driver) take(spare []any) []any {
	d.mu.Lock()
	defer d.mu.Unlock()
	inputs := d.queue
	d.queue = spare[:0]
	if len(inputs) >= d.cfg.QueueLimit {
		d.room.Broadcast()
	}
	return inputs
}
