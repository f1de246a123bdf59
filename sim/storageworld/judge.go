package storageworld

import (
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/sim/world"
)

// judge knows who believes to hold what, at true time.
type judge struct {
	w  *world.World
	mu sync.Mutex
	// Of each name.
	held      map[string][]*hold
	greatest  map[string]uint64 // token of all tenures
	exclusive map[string]uint64 // token of exclusive tenures
	orphaned  map[string]bool   // the last tenure was not released
}

// hold is a tenure that its process believes in.
type hold struct {
	tenure.Lease
	who   *process
	name  string
	slots int
}

func newJudge(w *world.World) *judge {
	return &judge{w: w, held: map[string][]*hold{}, greatest: map[string]uint64{}, exclusive: map[string]uint64{}, orphaned: map[string]bool{}}
}

// acquired takes in a new tenure.
func (j *judge) acquired(h *hold) {
	j.mu.Lock()
	defer j.mu.Unlock()
	token := h.Token()
	j.w.Trace.Add("%s holds %s, %d slots, token %d", h.who.name, h.name, h.slots, token)
	j.w.Count("acquisitions", 1)
	if h.slots == 1 && token <= j.greatest[h.name] {
		j.w.Fail("tokens: %s holds %s with token %d, and there was one with token %d before", h.who.name, h.name, token, j.greatest[h.name])
	}
	if token <= j.exclusive[h.name] {
		j.w.Fail("tokens: %s shares %s with token %d, and there was an exclusive tenure with token %d before", h.who.name, h.name, token, j.exclusive[h.name])
	}
	j.greatest[h.name] = max(j.greatest[h.name], token)
	if h.slots == 1 {
		j.exclusive[h.name] = max(j.exclusive[h.name], token)
	} else {
		j.w.Count("shared", 1)
	}
	if j.orphaned[h.name] {
		j.w.Count("takeovers", 1)
		j.orphaned[h.name] = false
	}
	j.held[h.name] = append(j.held[h.name], h)
	j.look(h.name)
}

// over takes in that a tenure is.
func (j *judge) over(h *hold, how string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.w.Trace.Add("%s %s %s, token %d", h.who.name, how, h.name, h.Token())
	j.w.Count(how, 1)
	j.orphaned[h.name] = how != "releases"
	held := j.held[h.name]
	for i, o := range held {
		if o == h {
			j.held[h.name] = append(held[:i:i], held[i+1:]...)
			return
		}
	}
}

// look judges the tenures of a name as they are now.
func (j *judge) look(name string) {
	var live []*hold
	var slots []int
	for _, h := range j.held[name] {
		if !h.who.ended() && h.Check() == nil {
			live, slots = append(live, h), append(slots, h.slots)
		}
	}
	if tenure.Admitted(slots) >= len(slots) {
		return
	}
	for _, h := range live {
		j.w.Trace.Add("%s believes to hold %s, %d slots, token %d", h.who.name, name, h.slots, h.Token())
	}
	j.w.Fail("two hold %s at once: %s with token %d and %s with token %d, of %d in all",
		name, live[0].who.name, live[0].Token(), live[len(live)-1].who.name, live[len(live)-1].Token(), len(live))
	j.held[name] = nil
}

// watch judges all the time.
func (j *judge) watch(stop <-chan struct{}) {
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
			if len(j.held[name]) > 1 {
				j.look(name)
			}
		}
		j.mu.Unlock()
	}
}
