package diskleasesim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
)

// judge stands outside and knows true time.
type judge struct {
	w      *sim.World
	from   time.Duration // overlaps are violations from here on, true time
	steady time.Duration // and failed renewals from here on
	holds  []*hold
	tokens [2]uint64 // the greatest of the tenures that have ended: of exclusive ones, of all
	fault  error

	overlaps, intrusions, acquired, renewed, lost, unrenewed, writes int
	last                                                             time.Duration // of the last event
}

// hold is the time during which a claim believes in its tenure.
type hold struct {
	p        *process
	slots    int
	token    uint64
	deadline machine.Mono  // by its own clock
	until    time.Duration // the same in true time
	mark     *sim.Mark
	// renewing says that after its time it is in the state Renew, not Free.
	renewing bool
}

func (j *judge) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	j.w.Note("VIOLATION %v", err)
	if j.fault == nil {
		j.fault = err
		j.w.Mark(sim.Violation, "", "%v", err)
	}
}

// expire forgets the tenures that have ended.
func (j *judge) expire() {
	kept := j.holds[:0]
	for _, h := range j.holds {
		if h.until > j.w.Now() || h.renewing {
			kept = append(kept, h)
		} else {
			h.p.hold = nil
			h.mark.Until(h.until)
			j.tokens[1] = max(j.tokens[1], h.token)
			if h.slots == 1 {
				j.tokens[0] = max(j.tokens[0], h.token)
			}
		}
	}
	j.holds = kept
}

// trueTime is when a host's clock will show a reading.
func (j *judge) trueTime(h *sim.Host, at machine.Mono) time.Duration {
	return j.w.Now() + h.TrueWait(at.Sub(h.Mono()))
}

// onDrift is called when a process's clock goes at another rate.
func (j *judge) onDrift(p *process) {
	j.expire()
	if p.hold != nil {
		p.hold.until = j.trueTime(p.host.Host, p.hold.deadline)
	}
}

func (j *judge) onStart(p *process, slots int, token uint64, deadline machine.Mono) {
	j.expire()
	j.w.Note("%v acquires: token %d", p, token)
	j.w.Count("lease periods", 1)
	j.acquired++
	j.last = j.w.Now()
	kind := sim.Holds
	if slots > 1 {
		kind = sim.Shares
	}
	p.hold = &hold{p: p, slots: slots, token: token, deadline: deadline, until: j.trueTime(p.host.Host, deadline), mark: j.w.Begin(kind, p.host.Lane, "token %d", token).Of("lease")}
	p.hold.renewing = p.renewing
	j.holds = append(j.holds, p.hold)
	j.exclusive(p)
	// Two that share and came at the same time may be admitted in either order.
	before := j.tokens[1]
	if slots > 1 {
		before = j.tokens[0]
	}
	if p.tokens && token <= before {
		j.fail("fencing: %v has token %d after token %d", p, token, before)
	}
}

func (j *judge) onRenewal(p *process, deadline machine.Mono) {
	j.expire()
	j.w.Count("lease periods", 1)
	j.renewed++
	j.last = j.w.Now()
	if p.hold == nil {
		j.fail("%v renewed a tenure that had ended", p)
		return
	}
	p.hold.deadline, p.hold.until = deadline, j.trueTime(p.host.Host, deadline)
	j.exclusive(p)
}

// exclusive is Property 1.1 and 2.1: when p begins or goes on to hold, no other holds or renews
// that minds.
func (j *judge) exclusive(p *process) {
	if j.w.Now() < j.from {
		return
	}
	for _, h := range j.holds {
		switch {
		case h.p != p && h.until <= j.w.Now():
			j.intrusions++
			j.fail("Property 2.1: %v holds while %v renews", p, h.p)
			return
		case len(j.holds) > h.slots:
			j.overlaps++
			j.fail("Property 1.1: %d hold when %v comes, and %v bears %d", len(j.holds), p, h.p, h.slots)
			return
		}
	}
}

// onLoss ends a tenure though its owner wanted to keep it.
func (j *judge) onLoss(p *process, why string) {
	j.w.Note("%v lost it: %s", p, why)
	j.lost++
	if j.w.Now() >= j.steady {
		j.unrenewed++
		j.fail("Property 2.2: %v could not renew: %s", p, why)
	}
	j.onEnd(p)
}

// progress is Property 1.2: a process that wants the lease gets it within a while, or another
// has it.
func (j *judge) progress(ps []*process, bound time.Duration) {
	j.expire()
	for _, p := range ps {
		if p.left && p.host.Up() && j.w.Now()-max(j.steady, p.since) > bound {
			j.fail("%v has left %v ago and is not let go", p, j.w.Now()-p.since)
			return
		}
	}
	if len(j.holds) > 0 {
		j.last = j.w.Now()
		return
	}
	for _, p := range ps {
		if p.wants && j.w.Now()-max(j.last, p.since) > bound {
			j.fail("Property 1.2: nobody holds, and %v has wanted to for %v", p, j.w.Now()-p.since)
			return
		}
	}
}

// wrote is told of each write. Lemma 3: if no other is invoked in the 4δ after it, then
// the last in π of those that had been under way reads itself back within that time.
func (j *judge) wrote() {
	j.writes++
	n, at := j.writes, j.w.Now()
	if at < j.steady {
		return
	}
	j.w.After(4*delta, func() {
		if j.writes == n && j.w.Now() >= j.steady && j.last < at {
			j.fail("Lemma 3: nobody wrote for 4δ and nobody holds")
		}
	})
}

// onEnd is called at the end of a tenure before its deadline, by its owner or by the owner's new
// knowledge.
func (j *judge) onEnd(p *process) {
	j.expire()
	if p.hold != nil {
		p.hold.until, p.hold.renewing = min(p.hold.until, j.w.Now()), false
		j.expire()
	}
}
