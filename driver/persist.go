package driver

import (
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// writeQueue hands persists from the stepping goroutine to the writing one.
type writeQueue struct {
	linger time.Duration
	wake   chan struct{} // capacity 1

	writing sync.Mutex // held while records are taken and written
	failed  bool       // under writing: a write has

	mu        sync.Mutex
	list      []machine.Persist
	timer     *time.Timer // pokes wake for what lingers
	lingering bool        // timer is set
}

func (q *writeQueue) put(ps []machine.Persist) {
	if len(ps) == 0 {
		return
	}
	q.mu.Lock()
	if len(q.list) == 0 {
		q.list = ps // the machine has given it away
	} else {
		q.list = append(q.list, ps...)
	}
	lingers := q.linger > 0 && !forced(ps)
	if lingers && !q.lingering {
		q.lingering = true
		if q.timer == nil {
			q.timer = time.AfterFunc(q.linger, q.lingered)
		} else {
			q.timer.Reset(q.linger)
		}
	}
	q.mu.Unlock()
	if !lingers {
		poke(q.wake)
	}
}

func (q *writeQueue) lingered() {
	q.mu.Lock()
	q.lingering = false
	q.mu.Unlock()
	poke(q.wake)
}

func (q *writeQueue) take() []machine.Persist {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

// persist makes records durable, all that wait in one go, and then lets go of
// what waited for them.
func (d *Driver) persist() {
	for {
		select {
		case <-d.writes.wake:
		case <-d.stop:
			if d.cfg.Linger > 0 {
				d.writes.writing.Lock()
				// What lingers would be there without Linger. If this fails, too, it is lost
				// as in a crash.
				_, _ = d.write(d.writes.take())
				d.writes.writing.Unlock()
			}
			return
		}
		d.writes.writing.Lock()
		d.writeOut(d.writes.take())
		d.writes.writing.Unlock()
	}
}

// persistAlone is persist by the goroutine that steps. It reports false if nothing waits
// for these, or if somebody writes, or waits for the next turn.
func (d *Driver) persistAlone(ps []machine.Persist) bool {
	if !forced(ps) || !d.writes.writing.TryLock() {
		return false
	}
	defer d.writes.writing.Unlock()
	d.mu.Lock()
	others := len(d.queue) > 0
	d.mu.Unlock()
	if !others {
		d.writeOut(append(d.writes.take(), ps...))
	}
	return !others
}

// writeOut writes a list and lets go of what waited for it. d.writes.writing is held, so
// that records are written, and envelopes leave, in the order of turns.
func (d *Driver) writeOut(list []machine.Persist) {
	then, err := d.write(list)
	if err != nil {
		d.fail(err)
		return
	}
	d.release(then)
}

// forced tells whether something waits for what is written.
func forced(ps []machine.Persist) bool {
	return slices.ContainsFunc(ps, func(p machine.Persist) bool { return len(p.Then) > 0 })
}

// write writes the records of a list, and returns what waited for them. Nothing is written
// after a write that has failed. d.writes.writing is held.
func (d *Driver) write(list []machine.Persist) (then []machine.Envelope, err error) {
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
func (d *Driver) release(then []machine.Envelope) {
	var sends []machine.Envelope
	var own []any
	for _, env := range then {
		if env.To == env.From {
			own = append(own, env)
		} else {
			sends = append(sends, env)
		}
	}
	if len(sends) > 0 {
		d.cfg.Send(sends)
	}
	if len(own) > 0 {
		d.mu.Lock()
		d.add(own...)
	}
}
