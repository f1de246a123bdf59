package disklease

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// ErrSlow reports an access that took longer than the waits of this lease allow for. Its
// write counts for nothing, and everybody has to wait for its end as for another claim's.
var ErrSlow = errors.New("the store took longer than δ allows")

// phase is what the claim is doing. While an access is under way nothing else is.
type phase int

const (
	idle phase = iota

	// Contending, Figure 2.
	looking  // reading, lines 1 and 6
	waiting  // line 5, until the next look
	noting   // telling others that we wait
	writing  // line 9
	settling // line 10
	checking // line 11

	// Holding, Figure 5.
	holding
	relooking  // line 1
	rewriting  // line 4, or a beat
	resettling // line 5
	rechecking // line 6

	leaving // telling others that we are gone
	over
)

// MinTerms is how many δ the Δ of a fail-aware lease must have at least. A lease is
// confirmed up to 4δ after its write, a renewal takes 5δ, and must be confirmed before
// the lease ends Δ+2δ after its write; the rest is for trying again.
const MinTerms = 12

// Lease is one claim to one lease, a machine over its register.
type Lease struct {
	cfg   Config
	delay time.Duration // δ that the next record will carry

	phase   phase
	lastID  uint64
	pending uint64       // the access under way, 0 if none
	begun   machine.Mono // when it was invoked
	alarm   machine.Mono // of the phase, Never if none
	failed  int          // accesses in a row
	// sluggish counts looks in a row that left no time for a write.
	sluggish int

	witness witness
	still   stillness // for Plain
	sight   sight
	ended   map[stamp]bool // as we were told; looked up, never walked
	hurry   bool           // we were told since the last look
	note    note           // as last written, or tried
	breathe machine.Mono

	try, leave bool

	counter  uint64        // of our own timestamps
	tried    uint64        // the greatest Seq that a write of ours had
	wrote    machine.Mono  // when the last write was invoked
	settle   time.Duration // δ of the contest: that of the record read before the write
	held     uint64        // our last stamp that was confirmed; 0 if none ever was
	timely   uint64        // our stamp that was written in time and not yet read back or overwritten; 0 if none
	token    uint64
	deadline machine.Mono // 0 while the lease is not held
	limit    machine.Mono // the deadline when we left

	out machine.Ready[Outcome]
}

var _ machine.Storing[LeaseInput, Outcome] = (*Lease)(nil)

// New returns a claim that does nothing yet. The error says what is wrong with cfg.
func New(cfg Config) (*Lease, error) {
	if cfg.Slots == 0 {
		cfg.Slots = 1
	}
	if cfg.Wait == 0 {
		cfg.Wait = 60
	}
	if cfg.ReadBack == 0 {
		cfg.ReadBack = 20
	}
	if cfg.RenewAfter == 0 {
		cfg.RenewAfter = cfg.Term / 3
	}
	if cfg.Poll == 0 {
		cfg.Poll = min(cfg.Term/50, 10*cfg.Delay)
	}
	switch {
	case cfg.Term <= 0 || cfg.Delay <= 0 || cfg.Drift < 0 || cfg.Drift >= 500_000:
		return nil, fmt.Errorf("disklease: Δ = %v, δ = %v and a drift of %d ppm are not valid together", cfg.Term, cfg.Delay, cfg.Drift)
	case !cfg.Trusting && cfg.Term < MinTerms*cfg.Delay:
		return nil, fmt.Errorf("disklease: Δ = %v is too short for δ = %v: a renewal could not be confirmed in time; make it at least %v", cfg.Term, cfg.Delay, MinTerms*cfg.Delay)
	case cfg.Slots < 1 || cfg.Slots > Shared || len(cfg.Holder) > MaxHolder || cfg.LockDelay < 0:
		return nil, fmt.Errorf("disklease: %d slots, a holder of %d bytes and a lock delay of %v are not a valid claim", cfg.Slots, len(cfg.Holder), cfg.LockDelay)
	}
	l := &Lease{cfg: cfg, delay: cfg.Delay, alarm: machine.Never}
	l.witness = decodeWitness(cfg.Witness)
	return l, nil
}

// Stuck reports whether an access has been under way for longer than δ allows twice over.
func (l *Lease) Stuck(now machine.Mono) bool {
	return l.pending != 0 && now.Sub(l.begun) > 4*max(l.delay, l.sight.record.delay)
}

// Step implements machine.Machine.
func (l *Lease) Step(now machine.Now, input LeaseInput) {
	at := now.Mono
	l.expire(at)
	switch in := input.(type) {
	case Acquire, TryAcquire:
		if l.phase == idle {
			_, l.try = in.(TryAcquire)
			l.look(at)
		}
	case Leave:
		if !l.leave {
			l.leave = true
			l.stopHolding(at)
		}
	case Ended:
		l.heed(at, stamp{in.ID, in.Stamp})
	case Measured:
		l.delay = l.cfg.Delay
		l.measured(in.Delay)
	default:
		panic(fmt.Sprintf("disklease: a lease knows no input %T", in))
	}
	l.resume(at)
}

// Accessed implements machine.Storing.
func (l *Lease) Accessed(now machine.Now, in machine.Accessed) {
	at := now.Mono
	l.expire(at)
	if in.ID == l.pending && in.ID != 0 {
		l.pending = 0
		l.accessed(at, in)
	}
	l.resume(at)
}

// Wake implements machine.Machine.
func (l *Lease) Wake(now machine.Now) {
	l.expire(now.Mono)
	l.resume(now.Mono)
}

// expire ends a lease whose deadline has passed.
func (l *Lease) expire(at machine.Mono) {
	if l.deadline != 0 && at >= l.deadline && !l.cfg.Trusting {
		l.lose("its deadline passed without a renewal")
	}
}

// resume goes on when the alarm has rung and no access is under way.
func (l *Lease) resume(at machine.Mono) {
	if l.pending == 0 && at >= l.alarm {
		l.alarm = machine.Never
		l.ring(at)
	}
}

// ring does what the phase has waited for.
func (l *Lease) ring(now machine.Mono) {
	switch l.phase {
	case waiting:
		l.look(now)
	case settling:
		l.access(now, checking, machine.Read{})
	case holding:
		l.renew(now)
	case resettling:
		l.access(now, rechecking, machine.Read{})
	case leaving:
		l.depart(now)
	}
}

// accessed goes on after an access.
func (l *Lease) accessed(now machine.Mono, in machine.Accessed) {
	if l.phase == over { // lost meanwhile
		if l.leave {
			l.stopHolding(now)
		}
		return
	}
	var value machine.Value
	err := in.Err
	if read, ok := in.Reply.(machine.Value); ok && err == nil {
		value = read
		err = l.see(now, value)
	}
	if err != nil {
		l.failed++
		l.out.Outcomes = append(l.out.Outcomes, Trouble{err})
		l.again(now, err)
		return
	}
	l.failed = 0
	switch l.phase {
	case looking:
		l.decide(now)
	case noting:
		l.pause(now)
	case writing:
		l.written(now)
	case checking:
		l.checked(now)
	case relooking:
		l.relooked(now)
	case rewriting:
		l.rewritten(now)
	case rechecking:
		l.rechecked(now)
	case leaving:
		l.finish(nil)
	}
}

// again tries on after an access that failed.
func (l *Lease) again(now machine.Mono, err error) {
	backoff := now.Add(min(l.cfg.Term/30, l.delay<<min(l.failed, 10)))
	switch l.phase {
	case looking, noting, writing, checking:
		if l.try {
			l.refuse(err)
			return
		}
		if l.leave {
			l.depart(now)
			return
		}
		l.phase, l.alarm = waiting, backoff
	case relooking, rewriting, rechecking:
		if l.leave {
			l.depart(now)
			return
		}
		l.phase, l.alarm = holding, backoff
	case leaving:
		l.alarm = backoff
	}
}

// access begins the phase's access.
func (l *Lease) access(now machine.Mono, p phase, op any) {
	l.lastID++
	l.phase, l.pending, l.begun, l.alarm = p, l.lastID, now, machine.Never
	l.out.Accesses = append(l.out.Accesses, machine.Access{ID: l.lastID, Op: op})
}

// see takes in what a read showed that began at l.begun.
func (l *Lease) see(now machine.Mono, v machine.Value) error {
	rec, err := decodeRecord(v, l.cfg.Delay)
	if err != nil {
		return err
	}
	if v.Next == 0 {
		return fmt.Errorf("%w: it has no version left for another write", ErrRecord)
	}
	l.sight = sight{begun: l.begun, record: rec, ended: l.ended}
	if _, there := l.sight.entry(stamp{l.cfg.ID, l.timely}); !there {
		l.timely = 0 // overwritten: the register does not show it again
	}
	l.still = l.still.observe(now, v.Version)
	return l.witness.look(now, &l.sight, v, l.cfg.ID, l.wait, l.patience())
}

// measured raises δ for the next record, but not so far that the lease cannot be
// renewed: an access that takes that long is an outage.
func (l *Lease) measured(d time.Duration) {
	l.delay = max(l.delay, min(d, l.cfg.Term/MinTerms))
}

// wait is how long an entry must not have changed to be dead.
func (l *Lease) wait(rec record, e entry) time.Duration {
	return l.atLeast(l.cfg.Term + rec.delay*time.Duration(l.cfg.Wait)/10 + e.lockDelay)
}

// patience is how long another claim that waits may be silent and keep its place. The
// queue is a courtesy; no promise depends on it.
func (l *Lease) patience() time.Duration { return l.cfg.Term/2 + 6*l.delay }

// atLeast is the reading of our clock for a wait of no less than d of true time,
// atMost for one of no more (3.3, ρ ≠ 0).
func (l *Lease) atLeast(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*float64(l.cfg.Drift)/1e6) + 1
}

func (l *Lease) atMost(d time.Duration) time.Duration {
	return d - time.Duration(float64(d)*float64(l.cfg.Drift)/1e6) - 1
}

// Ready implements machine.Machine.
func (l *Lease) Ready() machine.Ready[Outcome] {
	rd := l.out
	l.out = machine.Ready[Outcome]{}
	rd.Alarm = machine.Never
	if l.pending == 0 {
		rd.Alarm = l.alarm
	}
	if l.deadline != 0 && !l.cfg.Trusting {
		rd.Alarm = min(rd.Alarm, l.deadline)
	}
	return rd
}
