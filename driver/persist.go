package driver

import (
	"sync"

	"github.com/tenure-lease/tenure/machine"
)

// writeQueue hands persists from the stepping goroutine to the writing one.
type writeQueue struct {
	mu   sync.Mutex
	list []machine.Persist
	wake chan struct{} // capacity 1
}

func (q *writeQueue) put(ps []machine.Persist) {
	if len(ps) == 0 {
		return
	}
	q.mu.Lock()
	q.list = append(q.list, ps...)
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
			return
		}
		list := d.writes.take()
		if len(list) == 0 {
			continue
		}
		var records []any
		var then []machine.Envelope
		force := false
		for _, p := range list {
			if p.Record != nil {
				records = append(records, p.Record)
				force = force || len(p.Then) > 0
			}
			then = append(then, p.Then...)
		}
		if len(records) > 0 {
			if err := d.cfg.Persist(records, force); err != nil {
				d.fail(err)
				return
			}
		}
		d.release(then)
	}
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
