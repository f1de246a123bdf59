package disklease

import (
	"cmp"
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
)

// exclusive claims renew in the register, as Figure 5 does. Those that share renew by
// a beat of their note: two of them that wrote the register at once would undo each
// other's renewals.
func (l *Lease) exclusive() bool { return l.cfg.Slots == 1 }

// hold waits for the next renewal. Claims that go by one clock renew at the same
// moments, so that stores may serve many in one go.
func (l *Lease) hold(now machine.Mono) {
	next := l.wrote.Add(l.cfg.RenewAfter)
	if l.cfg.RenewAfter == l.cfg.Term/3 {
		next -= next % machine.Mono(l.cfg.Term/12)
	}
	l.phase, l.alarm = holding, max(now, min(l.deadline, next))
}

func (l *Lease) renew(now machine.Mono) {
	switch {
	case !l.exclusive():
		l.note = note{stamp: l.held, beat: l.note.beat + 1}
		l.wrote = now
		l.access(now, rewriting, machine.Note{Data: l.note.encode()})
	case l.cfg.Renewal == KnownDelay:
		l.wrote = now
		l.access(now, rewriting, machine.Write{Data: l.record(nil).encode(l.cfg.Delay)})
	default:
		l.access(now, relooking, machine.Read{})
	}
}

// relooked goes on if the register still is ours: lines 2 to 4. Our own id will do
// instead of our last stamp, for a renewal of unknown outcome may have come in.
func (l *Lease) relooked(now machine.Mono) {
	if l.leave {
		l.depart(now)
		return
	}
	if !l.sight.lists(l.cfg.ID) {
		l.lose("the register shows another holder")
		return
	}
	l.settle = l.sight.record.delay
	l.wrote = now
	l.access(now, rewriting, machine.Write{Data: l.record(nil).encode(l.cfg.Delay), Seq: l.seq()})
}

// rewritten has been in time, or Step had called it a loss (fail-aware check 3). The
// paper's process renews when its lease has expired, and holds none meanwhile.
func (l *Lease) rewritten(now machine.Mono) {
	switch {
	case l.leave && now >= l.limit && !l.cfg.Trusting:
		l.depart(now) // it came too late to count for anything
	case !l.exclusive():
		l.access(now, rechecking, machine.Read{})
	case l.cfg.Renewal == KnownDelay:
		l.held = l.counter
		l.renewed(now)
	default:
		l.phase, l.alarm = resettling, now.Add(l.readBack())
	}
}

// rechecked is line 7.
func (l *Lease) rechecked(now machine.Mono) {
	mine := stamp{l.cfg.ID, l.held}
	if l.exclusive() {
		mine.stamp = l.counter
	}
	if _, ok := l.sight.entry(mine); !ok {
		l.lose("somebody overwrote the renewal")
		return
	}
	if now < l.until(now) {
		l.held = mine.stamp
	}
	l.renewed(now)
}

func (l *Lease) renewed(now machine.Mono) {
	if l.leave {
		l.depart(now)
		return
	}
	l.deadline = max(l.deadline, l.until(now))
	l.out.Outcomes = append(l.out.Outcomes, Renewed{l.deadline})
	l.hold(now)
}

// lose ends the tenure. Answers still under way are not waited for.
func (l *Lease) lose(why string) {
	if l.leave {
		l.finish(nil) // somebody else has it already
		return
	}
	l.deadline, l.alarm, l.phase = 0, machine.Never, over
	l.out.Outcomes = append(l.out.Outcomes, Lost{why})
}

// stopHolding ends the tenure, or the wait for one, of its own accord. It waits for the
// access under way: a renewal that landed after the release would undo it.
func (l *Lease) stopHolding(now machine.Mono) {
	if l.deadline != 0 {
		l.limit, l.deadline = l.deadline, 0
	}
	if l.pending != 0 {
		return
	}
	switch l.phase {
	case settling, resettling: // perhaps ours: only what was confirmed may be released
	case over:
		if l.held != 0 && l.cfg.LockDelay > 0 {
			l.finish(nil) // lost: our write may still be under way
			return
		}
		l.depart(now)
	default:
		l.depart(now)
	}
}

// depart tells others that nobody has to wait for us any more.
func (l *Lease) depart(now machine.Mono) {
	gone := cmp.Or(l.timely, l.held)
	if gone == 0 && l.note.ticket == 0 {
		l.finish(nil)
		return
	}
	if l.phase == leaving && l.failed > 0 && now >= l.wrote.Add(l.wait(l.sight.record, entry{lockDelay: l.cfg.LockDelay})) {
		l.finish(fmt.Errorf("the store does not take our release; by now the lease has ended by itself"))
		return
	}
	l.note = note{stamp: l.note.stamp, beat: l.note.beat, released: gone}
	l.access(now, leaving, machine.Note{Data: l.note.encode()})
}

func (l *Lease) finish(err error) {
	l.phase, l.alarm = over, machine.Never
	l.out.Outcomes = append(l.out.Outcomes, Left{err})
}
