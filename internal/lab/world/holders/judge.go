package holders

import (
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/world"
)

// Judge knows the believed holders of each name, at true time.
type Judge struct {
	w  *world.World
	mu sync.Mutex
	// Of each name.
	held      map[string][]*hold
	greatest  map[string]uint64 // token of all tenures
	exclusive map[string]uint64 // token of exclusive tenures
	orphaned  map[string]bool   // the last tenure was not released
	records   map[string]uint64 // token of the last record that was set
	broken    map[string]broken // tenures that were ended by force
	periods   map[string]*periods
}

// hold is a tenure that its process believes in.
type hold struct {
	tenure.Lease
	Who   *Holder
	Slots int
}

// NewJudge makes the judge of a world.
func NewJudge(w *world.World) *Judge {
	return &Judge{w: w, held: map[string][]*hold{}, greatest: map[string]uint64{}, exclusive: map[string]uint64{}, orphaned: map[string]bool{}, records: map[string]uint64{}, broken: map[string]broken{}, periods: map[string]*periods{}}
}

// acquired takes in a new tenure.
func (j *Judge) acquired(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	token := h.Token()
	j.w.Trace.Add("%s holds %s, %d slots, token %d", h.Who.Name, h.Name(), h.Slots, token)
	j.w.Count("acquisitions", 1)
	if h.Slots == 1 && token <= j.greatest[h.Name()] {
		j.w.Fail("tokens: %s holds %s with token %d, and there was one with token %d before", h.Who.Name, h.Name(), token, j.greatest[h.Name()])
	}
	if token <= j.exclusive[h.Name()] {
		j.w.Fail("tokens: %s shares %s with token %d, and there was an exclusive tenure with token %d before", h.Who.Name, h.Name(), token, j.exclusive[h.Name()])
	}
	j.greatest[h.Name()] = max(j.greatest[h.Name()], token)
	if h.Slots == 1 {
		j.exclusive[h.Name()] = max(j.exclusive[h.Name()], token)
	} else {
		j.w.Count("shared", 1)
	}
	if j.orphaned[h.Name()] {
		j.w.Count("takeovers", 1)
		j.orphaned[h.Name()] = false
	}
	j.held[h.Name()] = append(j.held[h.Name()], h)
	j.look(h.Name())
}

// over takes in that a tenure is over: it releases, loses or dies.
func (j *Judge) over(h *hold, how string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.w.Trace.Add("%s %s %s, token %d", h.Who.Name, how, h.Name(), h.Token())
	j.w.Count(how, 1)
	j.orphaned[h.Name()] = how != "releases"
	held := j.held[h.Name()]
	for i, o := range held {
		if o == h {
			j.held[h.Name()] = append(held[:i:i], held[i+1:]...)
			return
		}
	}
}

// look judges the tenures of a name as they are now.
func (j *Judge) look(name string) {
	var live []*hold
	var slots []int
	for _, h := range j.held[name] {
		if !h.Who.Ended() && h.Check() == nil && !j.isBroken(h) {
			live, slots = append(live, h), append(slots, h.Slots)
		}
	}
	if tenure.Admitted(slots) >= len(slots) {
		return
	}
	for _, h := range live {
		j.w.Trace.Add("%s believes to hold %s, %d slots, token %d", h.Who.Name, name, h.Slots, h.Token())
	}
	j.w.Fail("two hold %s at once: %s with token %d and %s with token %d, of %d in all",
		name, live[0].Who.Name, live[0].Token(), live[len(live)-1].Who.Name, live[len(live)-1].Token(), len(live))
	j.held[name] = nil
}

// Watch judges all the time, until stop is closed.
func (j *Judge) Watch(stop <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		j.mu.Lock()
		for name := range j.held {
			if len(j.held[name]) > 1 || len(j.broken) > 0 {
				j.look(name)
			}
		}
		j.mu.Unlock()
	}
}
