package driver

import (
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Config ties a machine to the world.
type Config[In, Out any] struct {
	// Machine is a machine.Receiver, too, if there are messages, and a machine.Storing if it
	// has accesses.
	Machine machine.Machine[In, Out]
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
	// Hold has a turn's messages wait for the goroutines that were told something in it:
	// their immediate answers are stepped, and leave with the turn.
	Hold bool
	// Access begins operations on shared storage. It must not block; each ends in a call of
	// Driver.Accessed. Nil if the machine has none.
	Access func([]machine.Access)
	// Outcome takes what the machine reports, in order, on the goroutine that
	// steps it at the time. It must not block and may call Step.
	Outcome func([]Out)
	// Fail is called once if Persist fails, or if Mono goes back. The machine is not
	// stepped again. It must not call Stop, which would wait for it.
	Fail func(error)
	// QueueLimit is the number of waiting inputs above which Offer waits.
	// Default 16,384.
	QueueLimit int
}

// Driver runs one machine.
type Driver[In, Out any] struct {
	cfg      Config[In, Out]
	receiver machine.Receiver[In, Out] // nil if the machine takes no messages
	storing  machine.Storing[In, Out]  // nil if it has no accesses

	mu      sync.Mutex
	room    sync.Cond // signaled when the queue was taken
	queue   []input[In]
	rang    bool // the timer has, and no turn was made since
	turning bool // a goroutine makes turns, and looks at queue and rang before it stops
	stopped bool
	wake    chan struct{} // capacity 1

	turns   turns[In] // of the goroutine that makes turns
	writes  writeQueue
	stop    chan struct{}
	done    sync.WaitGroup
	failing sync.Once
}

// Start runs the machine until Stop.
func Start[In, Out any](cfg Config[In, Out]) *Driver[In, Out] {
	if cfg.QueueLimit == 0 {
		cfg.QueueLimit = 16384
	}
	d := &Driver[In, Out]{cfg: cfg, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	d.receiver, _ = cfg.Machine.(machine.Receiver[In, Out])
	d.storing, _ = cfg.Machine.(machine.Storing[In, Out])
	d.room.L = &d.mu
	d.writes.linger, d.writes.wake = cfg.Linger, d.wake
	now := cfg.Now()
	d.turns = turns[In]{timer: time.NewTimer(0), now: now, alarm: now.Mono}
	d.done.Go(d.work)
	if cfg.Persist != nil {
		d.done.Go(d.work)
	}
	return d
}

// Step queues an input and returns at once. Inputs that come after Stop are dropped.
func (d *Driver[In, Out]) Step(in In) { d.add(input[In]{in: in}) }

// Accessed queues the end of an Access and returns at once.
func (d *Driver[In, Out]) Accessed(a machine.Accessed) {
	d.add(input[In]{kind: accesses, accessed: &a})
}

// Gather queues a call of f, on the stepping goroutine, when its turn comes. It returns at
// once. The machine is stepped with what f returns, unless f reports false: so a caller can
// gather until the last moment. The clock is read again after f.
func (d *Driver[In, Out]) Gather(f func() (In, bool)) { d.add(input[In]{kind: gathers, gather: f}) }

// Look is Gather for an f that gathers nothing younger than this call: it may look at the
// machine between two steps. The clock is not read again, which saves a system call.
func (d *Driver[In, Out]) Look(f func() (In, bool)) { d.add(input[In]{kind: looks, gather: f}) }

// Wake queues a wake-up, as if the alarm had rung.
func (d *Driver[In, Out]) Wake() { d.add(input[In]{kind: wakes}) }

func (d *Driver[In, Out]) add(in input[In]) {
	d.mu.Lock()
	d.put(in)
}

// put queues an input and gives d.mu back.
func (d *Driver[In, Out]) put(in input[In]) {
	if d.stopped {
		d.mu.Unlock()
		return
	}
	wakes := d.mustWake()
	d.queue = append(d.queue, in)
	d.mu.Unlock()
	if wakes {
		poke(d.wake)
	}
}

// mustWake reports whether a goroutine has to be woken for an input that is added now. d.mu is
// held.
func (d *Driver[In, Out]) mustWake() bool { return len(d.queue) == 0 && !d.turning }

// Offer queues messages. It waits while the queue is full, so that a peer that sends faster
// than the machine can step is held back.
func (d *Driver[In, Out]) Offer(messages ...machine.Envelope) {
	d.awaitRoom()
	wakes := d.mustWake() && !d.stopped
	if !d.stopped {
		for _, e := range messages {
			d.queue = append(d.queue, input[In]{kind: receives, message: e})
		}
	}
	d.mu.Unlock()
	if wakes {
		poke(d.wake)
	}
}

// StepInTurn is Step for a caller that can wait: it waits while the queue is full.
func (d *Driver[In, Out]) StepInTurn(in In) {
	d.awaitRoom()
	d.put(input[In]{in: in})
}

// awaitRoom waits while the queue is full. It takes d.mu.
func (d *Driver[In, Out]) awaitRoom() {
	d.mu.Lock()
	for len(d.queue) >= d.cfg.QueueLimit && !d.stopped {
		d.room.Wait()
	}
}

// Do runs f on the stepping goroutine, between two steps, and waits for it. It
// reports false if the driver stopped first.
func (d *Driver[In, Out]) Do(f func()) bool {
	ran := make(chan struct{})
	d.Gather(func() (in In, ok bool) { f(); close(ran); return in, false })
	select {
	case <-ran:
		return true
	case <-d.stop:
		return false
	}
}

// Stop ends the stepping, waits for it, and drops what is queued.
func (d *Driver[In, Out]) Stop() {
	d.Halt()
	d.done.Wait()
}

// Halt is Stop without the wait, so that callbacks may call it.
func (d *Driver[In, Out]) Halt() {
	d.mu.Lock()
	if !d.stopped {
		d.stopped, d.queue = true, nil
		close(d.stop)
		d.room.Broadcast()
	}
	d.mu.Unlock()
}

func (d *Driver[In, Out]) fail(err error) {
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

// work makes turns and writes what they leave, until the end. Two goroutines do it, of
// which one at a time makes turns and one at a time writes. So no goroutine need be woken
// to write another's records, and while one writes the other steps new inputs.
func (d *Driver[In, Out]) work() {
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
