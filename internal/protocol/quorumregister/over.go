package quorumregister

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Over returns a machine that behaves as inner, but uses bases for inner's Accesses
// (Read, Write and Note at 0). Its own Accesses are Query, Put and PutNote, with At
// the number of the base, from 0. It adds its events to the outcomes, each as what
// report makes of it.
func Over[In, Out any](inner machine.Storing[In, Out], cfg Config, report func(Event) Out) machine.Storing[In, Out] {
	cfg.validate()
	return &over[In, Out]{cfg: cfg, inner: inner, report: report, bases: make([]base, cfg.Bases)}
}

type over[In, Out any] struct {
	cfg    Config
	inner  machine.Storing[In, Out]
	report func(Event) Out
	alarm  machine.Mono // inner's
	now    machine.Now

	bases   []base
	queue   []request // the first is being served
	op      *operation
	round   uint64 // counts the rounds of all operations
	lastID  uint64
	newest  Put     // the greatest version that a base showed or acknowledged
	highest uint64  // the greatest Seq that a base showed or a write tried
	tried   uint64  // the greatest Seq that a write of this writer tried
	note    PutNote // the last of this writer

	accesses []machine.Access
	outcomes []Out
}

// request is an access of inner and when it was asked for.
type request struct {
	machine.Access
	since machine.Mono
}

func (o *over[In, Out]) Step(now machine.Now, in In) {
	o.now = now
	o.inner.Step(now, in)
	o.advance()
}

func (o *over[In, Out]) Accessed(now machine.Now, a machine.Accessed) {
	o.now = now
	o.answer(a)
	o.advance()
}

func (o *over[In, Out]) Wake(now machine.Now) {
	o.now = now
	if now.Mono >= o.alarm {
		o.inner.Wake(now)
	}
	o.advance()
}

func (o *over[In, Out]) Ready() machine.Ready[Out] {
	var rd machine.Ready[Out]
	for {
		r := o.inner.Ready()
		o.alarm = r.Alarm
		rd.Sends = append(rd.Sends, r.Sends...)
		rd.Persists = append(rd.Persists, r.Persists...)
		rd.Outcomes = append(rd.Outcomes, r.Outcomes...)
		if len(r.Accesses) == 0 {
			break
		}
		for _, a := range r.Accesses {
			o.queue = append(o.queue, request{a, o.now.Mono})
		}
		o.advance() // what is refused at once steps inner again
	}
	rd.Accesses = o.accesses
	rd.Outcomes = append(rd.Outcomes, o.outcomes...)
	rd.Alarm = min(o.alarm, o.wakeup())
	o.accesses, o.outcomes = nil, nil
	return rd
}

// answer takes in the end of an access to a base.
func (o *over[In, Out]) answer(a machine.Accessed) {
	for i := range o.bases {
		if b := &o.bases[i]; a.ID != 0 && b.busy == a.ID {
			b.busy = 0
			o.reportHealth(i, a.Err)
			if a.Err != nil {
				b.failed, b.retry = b.round, o.now.Mono.Add(o.cfg.Retry)
			} else {
				b.failed = 0
				o.ended(i, a.Reply)
			}
		}
	}
}

// tell reports an event.
func (o *over[In, Out]) tell(e Event) { o.outcomes = append(o.outcomes, o.report(e)) }

// reportHealth tells the owner when a base begins to fail and when it no longer does.
func (o *over[In, Out]) reportHealth(i int, err error) {
	if (err == nil) != (o.bases[i].err == nil) {
		o.tell(Failing{i, err})
	}
	o.bases[i].err = err
}

// ended takes in that an access to a base succeeded.
func (o *over[In, Out]) ended(i int, reply any) {
	b := &o.bases[i]
	switch op := b.asked.(type) {
	case Query:
		s := reply.(State)
		s.Notes = sortNotes(s.Notes)
		if b.showed(s, o.cfg.Writer) {
			b.stale, b.back = true, o.now.Mono
			o.tell(Stale{i})
		}
		o.noteHeld(Put{s.Version, s.Data})
		o.highest = max(o.highest, s.Floor)
		if o.op != nil && b.round == o.round && !b.stale {
			o.op.seen = merge(o.op.seen, s)
			b.answered = b.round
		}
	case Put:
		b.noteHeld(op.Version)
		o.noteHeld(op)
	case PutNote:
		b.note = max(b.note, op.Seq)
	}
}

// noteHeld takes in that a base holds a version.
func (o *over[In, Out]) noteHeld(p Put) {
	if o.newest.Version.Compare(p.Version) < 0 {
		o.newest = p
	}
	o.highest = max(o.highest, p.Version.Seq)
}

// advance does what can be done now: ends rounds and operations, counts stale bases
// again, and gives idle bases what is needed of them.
func (o *over[In, Out]) advance() {
	for {
		if o.op == nil {
			if len(o.queue) == 0 {
				return
			}
			o.begin(o.queue[0])
			continue
		}
		count, errs := 0, 0
		for i := range o.bases {
			b := &o.bases[i]
			if b.stale && o.current(b) && o.now.Mono >= b.back.Add(o.cfg.Quiet) {
				b.stale = false
				o.tell(Counted{i})
			}
			if !b.stale && o.did(b) {
				count++
			}
			if b.failed == o.round {
				errs++
			}
		}
		switch {
		case count >= o.cfg.majority():
			o.next()
			continue
		case errs > o.cfg.Bases-o.cfg.majority():
			o.finish(nil, o.failure())
			continue
		}
		for i := range o.bases {
			b := &o.bases[i]
			if op := o.needed(b); op != nil && (b.failed != o.round || o.now.Mono >= b.retry) {
				o.lastID++
				b.busy, b.asked, b.round = o.lastID, op, o.round
				o.accesses = append(o.accesses, machine.Access{ID: o.lastID, At: i, Op: op})
			}
		}
		return
	}
}

// current reports whether a base holds all that this process knows to exist and could
// give it.
func (o *over[In, Out]) current(b *base) bool {
	return b.held.Compare(o.newest.Version) >= 0 && b.note >= o.note.Seq
}

// did reports whether a base has done its part of the round. The base may have stored this
// version long ago.
func (o *over[In, Out]) did(b *base) bool {
	switch goal := o.op.goal.(type) {
	case Put:
		return b.held.Compare(goal.Version) >= 0
	case PutNote:
		return b.note >= goal.Seq
	}
	return b.answered == o.round
}

// needed returns what an idle base should be asked, or nil. A stale one is brought
// up to date, first of all, and asked nothing else until it counts again.
func (o *over[In, Out]) needed(b *base) any {
	switch {
	case b.busy != 0 || o.op == nil:
		return nil
	case !b.stale:
		if o.did(b) {
			return nil
		}
		return o.op.goal
	case b.held.Compare(o.newest.Version) < 0:
		return o.newest
	case b.note < o.note.Seq:
		return o.note
	}
	return nil
}

// wakeup is when time alone will change something for the operation.
func (o *over[In, Out]) wakeup() machine.Mono {
	at := machine.Never
	for i := range o.bases {
		b := &o.bases[i]
		switch {
		case o.needed(b) != nil: // it failed, or it would have been asked
			at = min(at, b.retry)
		case o.op != nil && b.stale && o.current(b):
			at = min(at, b.back.Add(o.cfg.Quiet))
		}
	}
	return at
}

func (o *over[In, Out]) failure() error {
	err := ErrMinority
	for i := range o.bases {
		if b := &o.bases[i]; b.failed == o.round {
			err = fmt.Errorf("%w; store %d: %w", err, i, b.err)
		}
	}
	return err
}
