package driver

import (
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// writeQueue is what turns have left to be written.
type writeQueue struct {
	linger time.Duration
	wake   chan struct{} // the driver's

	writing sync.Mutex // held while records are taken and written
	failed  bool       // under writing: a write has

	mu        sync.Mutex
	list      []machine.Persist
	now       bool        // list is to be written now
	timer     *time.Timer // pokes wake for what lingers
	lingering bool        // timer is set
}

func (q *writeQueue) put(ps []machine.Persist) {
	if len(ps) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		q.list = ps // the machine has given it away
	} else {
		q.list = append(q.list, ps...)
	}
	switch {
	case q.linger == 0 || forced(ps):
		q.now = true
	case !q.lingering:
		q.lingering = true
		if q.timer == nil {
			q.timer = time.AfterFunc(q.linger, q.lingered)
		} else {
			q.timer.Reset(q.linger)
		}
	}
}

func (q *writeQueue) lingered() {
	q.mu.Lock()
	q.lingering = false
	q.now = len(q.list) > 0
	wakes := q.now
	q.mu.Unlock()
	if wakes {
		poke(q.wake)
	}
}

// due reports whether there is something to be written now.
func (q *writeQueue) due() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.now
}

func (q *writeQueue) take() []machine.Persist {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list, q.now = nil, false
	return list
}

// begin reports whether something has to be written now, and nobody writes: a goroutine
// that writes will look again. It takes writing, which write gives back.
func (q *writeQueue) begin() bool { return q.due() && q.writing.TryLock() }

// write makes records durable, all that wait in one go, and then lets go of what waited
// for them. d.writes.writing is held, and given back.
func (d *Driver[In, Out]) write() {
	defer d.writes.writing.Unlock()
	then, err := d.persist(d.writes.take())
	if err != nil {
		d.fail(err)
		return
	}
	d.release(then)
}

// writeRest writes what would be there without Linger. If that fails, too, it is lost as in
// a crash.
func (d *Driver[In, Out]) writeRest() {
	if d.cfg.Linger > 0 {
		d.writes.writing.Lock()
		defer d.writes.writing.Unlock()
		_, _ = d.persist(d.writes.take())
	}
}

// forced reports whether something waits for what is written.
func forced(ps []machine.Persist) bool {
	return slices.ContainsFunc(ps, func(p machine.Persist) bool { return len(p.Then) > 0 })
}

// persist writes the records of a list, and returns what waited for them. Nothing is written
// after a write that has failed. d.writes.writing is held.
func (d *Driver[In, Out]) persist(list []machine.Persist) (then []machine.Envelope, err error) {
	var records []any
	force := false
	for _, p := range list {
		if p.Record != nil {
			records = append(records, p.Record)
			force = force || len(p.Then) > 0
		}
		then = append(then, p.Then...)
	}
	switch {
	case d.writes.failed:
		return nil, nil // the error was told
	case len(records) > 0:
		err = d.cfg.Persist(records, force)
		d.writes.failed = err != nil
	}
	return then, err
}

// release sends the envelopes that waited, in order, and steps the machine's
// own.
func (d *Driver[In, Out]) release(then []machine.Envelope) {
	var sends []machine.Envelope
	var own []input[In]
	for _, env := range then {
		if env.To == env.From {
			own = append(own, input[In]{kind: receives, message: env})
		} else {
			sends = append(sends, env)
		}
	}
	if len(sends) > 0 {
		d.cfg.Send(sends)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		// Nobody need be woken: the goroutine that has written steps next, or wakes the
		// other if it writes on.
		d.queue = append(d.queue, own...)
	}
}
