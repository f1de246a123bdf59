package fleaseworld

import (
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/machine"
)

// judge stands outside and knows true time.
type judge struct {
	w *world.World

	mu     sync.Mutex
	steady bool // nothing fails any more: no lease may be lost
	names  map[string]*resource
}

// resource is the judge's record of a name.
type resource struct {
	holds  []*hold
	delays []*hold   // over and not released: their lock delays may last
	tokens [2]uint64 // the greatest: of exclusive tenures, of all
}

// hold is a tenure, from when its caller got it until the caller knows that it is over.
type hold struct {
	who   string
	on    *host // the host with the clocks that it goes by
	claim tenure.Claim
	lease tenure.Lease
	late  bool         // it was asked for by a clock that is behind by more than ε, and so ends too late
	end   machine.Mono // the last deadline that was seen, by the host's clock
}

// note remembers how long the hold lasts, as far as its holder was told.
func (h *hold) note() { h.end = h.on.mono.Now().Add(time.Until(h.lease.Deadline())) }

// onStart is called at the beginning of a tenure, as its caller sees it.
func (j *judge) onStart(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.names[h.claim.Name]
	if r == nil {
		r = &resource{}
		j.names[h.claim.Name] = r
	}
	j.sweep(r)
	token := h.lease.Token()
	j.w.Trace.Add("%s holds %s, token %d, %d slots", h.who, h.claim.Name, token, h.claim.Slots)
	j.w.Count("tenures", 1)
	before := r.tokens[1]
	if h.claim.Slots > 1 {
		before = r.tokens[0] // two that share may be told in either order
	}
	if token <= before {
		j.w.Fail("fencing: %s acquires %s with token %d after token %d", h.who, h.claim.Name, token, before)
	}
	r.tokens[1] = max(r.tokens[1], token)
	if h.claim.Slots == 1 {
		r.tokens[0] = max(r.tokens[0], token)
	}
	h.note()
	switch skew := h.on.ahead(); {
	case skew > 0: // two of three acceptors are sound
		j.w.Fail("skew: %s acquires %s by a clock that is %v ahead of all others", h.who, h.claim.Name, skew)
	case h.late:
		j.w.Count("tenures by a clock that is behind", 1)
	default:
		j.w.Count("tenures of the sound", 1)
	}
	r.holds = append(r.holds, h)
	j.exclusive(r)
	for _, o := range r.delays {
		if o.late || h.late || o.on.ahead() != 0 || h.on.ahead() != 0 {
			continue
		}
		left := o.end.Add(o.claim.LockDelay).Sub(o.on.mono.Now())
		j.w.Count("judged: lock delays", 1)
		if n := len(r.holds) + len(r.delays); (n > o.claim.Slots || n > h.claim.Slots) && left > 5*time.Millisecond+o.claim.LockDelay/500 {
			j.w.Fail("lock delay: %s acquires %s, of which %s was deprived, %v too early", h.who, h.claim.Name, o.who, left)
		}
	}
}

// sweep removes tenures that are over. A lease that is lost while nothing fails is lost too
// early.
func (j *judge) sweep(r *resource) {
	r.holds = slices.DeleteFunc(r.holds, func(h *hold) bool {
		err := h.lease.Check()
		if err == nil {
			h.note()
			return false
		}
		j.w.Trace.Add("%s has lost %s: %v", h.who, h.claim.Name, err)
		j.w.Count("losses", 1)
		j.words(err)
		if j.steady {
			j.w.Fail("early loss: %s loses %s though nothing fails: %v", h.who, h.claim.Name, err)
		}
		h.end = min(h.end, h.on.mono.Now())
		r.delays = append(r.delays, h)
		return true
	})
	r.delays = slices.DeleteFunc(r.delays, func(h *hold) bool { return h.on.mono.Now() >= h.end.Add(h.claim.LockDelay) })
}

// exclusive wants that all holders bear each other. Leases by a clock that is behind by more than ε
// end too late for others, which cannot know: exclusion rests on ε. They do so when the clock was
// set right meanwhile, too.
func (j *judge) exclusive(r *resource) {
	holds := r.holds
	if late := func(h *hold) bool { return h.late }; slices.ContainsFunc(holds, late) {
		holds = slices.DeleteFunc(slices.Clone(holds), late)
	}
	for _, h := range holds {
		if len(holds) > h.claim.Slots {
			var who []string
			for _, o := range holds {
				who = append(who, o.who)
			}
			j.w.Fail("exclusion: %v hold %s, and %s bears %d", who, h.claim.Name, h.who, h.claim.Slots)
			return
		}
	}
}

// look judges the present moment.
func (j *judge) look() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.names {
		j.sweep(r)
		j.exclusive(r)
	}
}

// onEnd is called at the end of a tenure by its holder, before it says so to anybody.
func (j *judge) onEnd(h *hold) { j.drop(h, false) }

// onDeath is called at the end of a holder that releases nothing.
func (j *judge) onDeath(h *hold) { j.drop(h, true) }

func (j *judge) drop(h *hold, delays bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.names[h.claim.Name]
	i := slices.Index(r.holds, h)
	if i < 0 {
		return
	}
	h.note()
	r.holds = slices.Delete(r.holds, i, i+1)
	if delays {
		r.delays = append(r.delays, h)
	}
}
