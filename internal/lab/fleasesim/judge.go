package fleasesim

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// judge stands outside and knows true time and everybody's clocks.
type judge struct {
	w      *sim.World
	broken bool // clocks break ε: only tokens are judged
	steady bool // nothing fails any more: no lease may be lost
	eps    flease.Time
	names  map[string]*resource
	fault  error
}

// resource is the judge's record of one.
type resource struct {
	holds  []*hold
	delays []*hold   // over and not released: their lock delays may last
	tokens [2]uint64 // the greatest: of exclusive tenures, of all
	registers
}

// hold is the time during which a client believes in its tenure.
type hold struct {
	p        *peer
	life     int
	id       uint64
	name     string
	slots    int
	delay    time.Duration
	remote   bool // its holder is another process than the peer, and may outlive it
	token    uint64
	deadline flease.Acquired // its two limits
	mark     *sim.Mark
}

// believes reports whether Check would succeed: by the holder's own clocks, whether it runs
// or is stopped.
func (h *hold) believes() bool {
	now := h.p.host.Now()
	return (h.remote || h.p.host.Life() == h.life) && now.Mono < h.deadline.Deadline && now.Wall < h.deadline.Until
}

// delays reports whether its lock delay lasts, by the synchronized clock of its host. The lease
// and its lock delay are one time to all others, which has an end that is ε later than they
// wait for at least.
func (h *hold) delays() bool {
	return h.delay > 0 && h.p.host.Now().Wall < h.deadline.Until+machine.Wall(h.delay)
}

func newJudge(w *sim.World) *judge { return &judge{w: w, names: map[string]*resource{}} }

func (j *judge) of(name string) *resource {
	r := j.names[name]
	if r == nil {
		r = &resource{registers: registers{j: j, name: name}}
		j.names[name] = r
	}
	return r
}

func (j *judge) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	j.w.Note("VIOLATION %v", err)
	if j.fault == nil {
		j.fault = err
		j.w.Mark(sim.Violation, "", "%v", err)
	}
}

// onStart is called at the beginning of a tenure.
func (j *judge) onStart(h *hold) {
	r := j.of(h.name)
	j.w.Note("%v acquires %s: token %d", h.p, h.name, h.token)
	j.w.Count("tenures", 1)
	kind := sim.Holds
	if h.slots > 1 {
		kind = sim.Shares
	}
	h.mark = j.w.Begin(kind, h.p.host.Lane, "%s, token %d", h.name, h.token).Of(h.name)
	h.mark.Until(j.w.Now() + time.Duration(h.deadline.Deadline-h.p.host.Mono()))
	r.holds = append(r.holds, h)
	j.exclusive(r, h)
	j.delayed(r, h)
	before := r.tokens[1]
	if h.slots > 1 {
		before = r.tokens[0] // two that share may be admitted in either order
	}
	if h.token <= before {
		j.fail("fencing: %v acquires %s with token %d after token %d", h.p, h.name, h.token, before)
	}
	r.tokens[1] = max(r.tokens[1], h.token)
	if h.slots == 1 {
		r.tokens[0] = max(r.tokens[0], h.token)
	}
}

// onRenewal moves the end of a tenure.
func (j *judge) onRenewal(h *hold) {
	j.w.Count("renewals", 1)
	h.mark.Until(j.w.Now() + time.Duration(h.deadline.Deadline-h.p.host.Mono()))
	j.exclusive(j.of(h.name), h)
}

// exclusive wants that no other holder beside h minds.
func (j *judge) exclusive(r *resource, h *hold) {
	if j.broken {
		return
	}
	kept := r.holds[:0]
	for _, o := range r.holds {
		if o.believes() {
			kept = append(kept, o)
		} else {
			o.mark.End()
			r.delays = append(r.delays, o)
		}
	}
	r.holds = kept
	for _, o := range r.holds {
		if len(r.holds) > o.slots {
			j.fail("%d hold %s when %v comes, and %v bears %d", len(r.holds), h.name, h.p, o.p, o.slots)
			return
		}
	}
}

// delayed wants that a tenure does not begin while it has to wait for a lock delay.
func (j *judge) delayed(r *resource, h *hold) {
	r.delays = slices.DeleteFunc(r.delays, func(o *hold) bool { return !o.delays() })
	if j.broken {
		return
	}
	n := len(r.holds) + len(r.delays)
	for _, o := range r.delays {
		j.w.Count("beside lock delays", 1)
		if n > o.slots || n > h.slots {
			j.fail("lock delay: %v acquires %s, which %v held until its end, and has to wait another %v for",
				h.p, h.name, o.p, time.Duration(o.deadline.Until-o.p.host.Now().Wall)+o.delay)
			return
		}
	}
}

// onEnd is called at the end of a tenure by its holder, which stops believing, and says so.
func (j *judge) onEnd(h *hold) {
	r := j.of(h.name)
	h.mark.End()
	r.holds = slices.DeleteFunc(r.holds, func(o *hold) bool { return o == h })
}

// onLoss is called at the end of a tenure that is not released. A holder in another process may not hear
// of it, and believes as long as its clocks let it.
func (j *judge) onLoss(h *hold, heard bool) {
	if h.remote && !heard {
		j.w.Count("outlived", 1)
		return
	}
	j.onEnd(h)
	j.of(h.name).delays = append(j.of(h.name).delays, h)
}
