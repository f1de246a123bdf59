package disklease

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// maxRecord is what every register takes, in bytes. It bounds how many can share.
const maxRecord = 2800

func (l *Lease) look(now machine.Mono) {
	l.hurry = false
	l.access(now, looking, machine.Read{})
}

// decide chooses a contender's next step after a read: lines 4 to 9.
func (l *Lease) decide(now machine.Mono) {
	if l.leave {
		l.depart(now)
		return
	}
	entries, ok := l.room()
	switch {
	case ok:
		l.claim(now, entries)
	case l.try:
		l.refuse(nil)
	case l.cfg.Plain:
		l.phase, l.alarm = waiting, max(now, l.still.since.Add(l.atLeast(l.plainWait())))
	case l.note.ticket == 0 || now >= l.breathe:
		l.queueUp(now)
	default:
		l.pause(now)
	}
}

func (l *Lease) plainWait() time.Duration {
	return l.cfg.Term + l.sight.record.delay*time.Duration(l.cfg.Wait)/10
}

// room returns the entries beside which we would stand in the record, and whether the
// time has come for that.
func (l *Lease) room() ([]entry, bool) {
	s := &l.sight
	if l.cfg.Plain {
		return nil, l.sight.begun.Sub(l.still.since) >= l.atLeast(l.plainWait())
	}
	var others []entry
	for _, e := range s.record.entries {
		if !s.released(e) && !s.dead[e.key()] && !l.vain(e) && !slices.Contains(l.cfg.Broken, e.token) {
			others = append(others, e)
		}
	}
	queue := make([]uint64, 0, len(others)+len(s.queue)+1)
	for _, e := range others {
		slots := e.slots
		if !s.confirmed(e) {
			slots = 1
		}
		queue = append(queue, slots)
	}
	if len(others) > 0 || !l.try {
		for _, w := range s.queue {
			if l.note.ticket == 0 || w.before(l.note.ticket, l.cfg.ID) {
				queue = append(queue, w.slots)
			}
		}
	}
	return others, fits(append(queue, uint64(l.cfg.Slots)))
}

// vain reports whether the entry is ours, and was written in time and never held by: it hides
// nobody (see doc.go).
func (l *Lease) vain(e entry) bool { return e.key() == stamp{l.cfg.ID, l.timely} }

// fits reports whether all of these may hold at once.
func fits(slots []uint64) bool {
	for _, n := range slots {
		if uint64(len(slots)) > n {
			return false
		}
	}
	return true
}

// lists reports whether the record has an entry of this claim.
func (s *sight) lists(id machine.ID) bool {
	for _, e := range s.record.entries {
		if e.id == id {
			return true
		}
	}
	return false
}

// entry finds our own entry with this stamp.
func (s *sight) entry(k stamp) (entry, bool) {
	for _, e := range s.record.entries {
		if e.key() == k {
			return e, true
		}
	}
	return entry{}, false
}

// claim writes our timestamp into the register: lines 8 and 9.
func (l *Lease) claim(now machine.Mono, others []entry) {
	late := now.Sub(l.sight.begun)
	futile := l.futile(late)
	data := l.record(others).encode(l.cfg.Delay)
	switch {
	case len(data) > maxRecord && l.try:
		l.refuse(nil)
		return
	case len(data) > maxRecord:
		l.pause(now) // no room for one more that shares
		return
	case futile:
		l.out.Outcomes = append(l.out.Outcomes, Trouble{fmt.Errorf("%w: a read took %v, want %v for it and a write", ErrSlow, late, 2*l.sight.record.delay)})
		l.phase, l.alarm = waiting, now.Add(l.delay)
		return
	}
	l.settle = l.sight.record.delay
	l.wrote = now
	l.access(now, writing, machine.Write{Data: data, Seq: l.seq()})
}

// futile reports whether a write would come too late to claim anything, and so only have to
// be waited out. Where looks are slow again and again it is made all the same, if it
// raises δ: without it nobody would ever be in time (T-1).
func (l *Lease) futile(late time.Duration) bool {
	if !l.late(late) {
		l.sluggish = 0
		return false
	}
	l.measured(late)
	l.sluggish++
	return l.sluggish < 3 || l.delay <= l.sight.record.delay
}

// seq is the next Seq to write under. One that was tried may have failed and come in
// later: it is not used again.
func (l *Lease) seq() uint64 {
	l.tried = max(l.tried+1, l.sight.next)
	return l.tried
}

// record is that of the others and us, under a new timestamp.
func (l *Lease) record(others []entry) record {
	l.counter++
	me := entry{id: l.cfg.ID, stamp: l.counter, slots: uint64(l.cfg.Slots), token: l.token, lockDelay: l.cfg.LockDelay, holder: l.cfg.Holder}
	return record{delay: l.delay, entries: append(others, me)}
}

// written checks that the write did not come so late that another's read-back may
// have missed it (fail-aware check 1), and settles.
func (l *Lease) written(now machine.Mono) {
	if late := now.Sub(l.sight.begun); l.late(late) {
		l.slow(now, late)
		return
	}
	l.timely = l.counter
	l.phase, l.alarm = settling, now.Add(l.readBack())
}

// late reports whether a time since the last look is more than its record allows for.
func (l *Lease) late(d time.Duration) bool {
	return !l.cfg.Trusting && d > l.atMost(2*l.sight.record.delay)
}

// slow looks again, and allows for more in the next record.
func (l *Lease) slow(now machine.Mono, late time.Duration) {
	l.measured(late)
	err := fmt.Errorf("%w: read and write took %v together, want %v", ErrSlow, late, 2*l.sight.record.delay)
	l.out.Outcomes = append(l.out.Outcomes, Trouble{err})
	l.again(now, err)
}

func (l *Lease) readBack() time.Duration {
	return l.atLeast(l.settle * time.Duration(l.cfg.ReadBack) / 10)
}

// checked decides whether we won: line 12. If we did not, the same read begins the next
// round.
func (l *Lease) checked(now machine.Mono) {
	mine, won := l.sight.entry(stamp{l.cfg.ID, l.counter})
	deadline := l.until(now)
	switch {
	case won && l.leave:
		l.depart(now)
	case won && now >= deadline:
		l.look(now)
	case won:
		l.held, l.timely, l.token, l.deadline = l.counter, 0, mine.token, deadline
		l.out.Outcomes = append(l.out.Outcomes, Acquired{l.token, deadline})
		if l.exclusive() {
			l.hold(now)
		} else {
			l.renew(now) // which confirms the entry
		}
	case l.try:
		l.refuse(nil)
	default:
		l.decide(now)
	}
}

// until is the deadline that a read-back at now confirms. It counts from when the
// write was invoked (fail-aware check 2), and not from its end alone as the paper's. The
// δ is the least that any record has: others wait by that of the record which we wrote.
func (l *Lease) until(now machine.Mono) machine.Mono {
	if l.cfg.Trusting {
		return now.Add(l.atMost(l.cfg.Term))
	}
	return min(now.Add(l.atMost(l.cfg.Term)), l.wrote.Add(l.atMost(l.cfg.Term+2*l.cfg.Delay)))
}

// queueUp tells others that we wait and since when, or that we still do.
func (l *Lease) queueUp(now machine.Mono) {
	if l.note.ticket == 0 {
		l.note = note{ticket: 1, slots: uint64(l.cfg.Slots)}
		for _, w := range l.sight.queue {
			l.note.ticket = max(l.note.ticket, w.ticket+1)
		}
	}
	l.note.heartbeat++
	l.breathe = now.Add(l.cfg.Term / 8)
	l.access(now, noting, machine.Note{Data: l.note.encode()})
}

// pause waits for the next look: sooner when an entry's time is over, later for claims that
// are not next.
func (l *Lease) pause(now machine.Mono) {
	if l.leave {
		l.depart(now)
		return
	}
	ahead := 0
	for _, w := range l.sight.queue {
		if w.before(l.note.ticket, l.cfg.ID) {
			ahead++
		}
	}
	next := now.Add(l.jitter(min(l.cfg.Poll*time.Duration(1+ahead), l.cfg.Term/8)))
	for _, e := range l.sight.record.entries {
		over := l.witness.entries[e.key()].since.Add(l.wait(l.sight.record, e))
		if over > now {
			next = min(next, over)
		}
	}
	if l.hurry {
		next = now
	}
	l.phase, l.alarm = waiting, next
}

// heed takes in that a claim has ended, and has us look soon if we wait.
func (l *Lease) heed(now machine.Mono, k stamp) {
	if l.ended[k] {
		return
	}
	if l.ended == nil {
		l.ended = map[stamp]bool{}
	}
	l.ended[k], l.hurry = true, true
	if l.phase == waiting {
		l.alarm = now
	}
}

// Held is the stamp by which the claim held last; 0 if it never did.
func (l *Lease) Held() uint64 { return l.held }

// jitter is d, more or less: claims shall not look all at once.
func (l *Lease) jitter(d time.Duration) time.Duration {
	spread := uint64(l.cfg.ID[l.lastID%16])*uint64(l.lastID|1)%256 + 128
	return d * time.Duration(spread) / 256
}

// refuse answers a TryAcquire.
func (l *Lease) refuse(err error) {
	if l.leave {
		l.depart(l.begun)
		return
	}
	l.out.Outcomes = append(l.out.Outcomes, Refused{l.State(), l.Witness(), err})
	l.phase = over
}
