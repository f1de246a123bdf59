package holders

import (
	"context"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
)

// broken is a tenure that is ended by force. Its holder may believe beside the next one until its next
// renewal tells it, and until its deadline if the store cannot.
type broken struct {
	by time.Time // when the holder believes no more; zero while nobody knows whether it was done
}

func tenureOf(name string, token uint64) string { return fmt.Sprint(name, " ", token) }

// breakOne ends the tenures of a name by force, a while after it has looked at them.
func (h *Holder) breakOne(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := h.Leaser.Observe(ctx, name)
	if err != nil || len(s.Holders) == 0 {
		return
	}
	h.Process.Sleep(h.UpTo("break", h.Habits.Term))
	h.Process.Gate()
	h.Judge.breaks(name, s.Holders, time.Time{})
	err = h.Leaser.(holder.Breaker).Break(ctx, name, s.Holders)
	if err != nil || h.Ended() {
		h.World.Count("not known whether it was broken", 1)
		return
	}
	h.World.Count("broken", 1)
	h.Judge.breaks(name, s.Holders, time.Now().Add(h.Habits.Term+100*time.Millisecond))
}

// breaks takes in that tenures are being broken, or that they were, and by when it shows.
func (j *Judge) breaks(name string, tenures []tenure.Holding, by time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, t := range tenures {
		j.w.Trace.Add("the tenure of %s with token %d is broken, by %v", name, t.Token, by)
		j.broken[tenureOf(name, t.Token)] = broken{by}
	}
}

// isBroken reports whether the holder of a tenure may believe beside others. j.mu is held.
func (j *Judge) isBroken(h *hold) bool {
	b, forced := j.broken[tenureOf(h.Name(), h.Token())]
	if !forced {
		return false
	}
	j.w.Count("believed though broken", 1)
	if !b.by.IsZero() && time.Now().After(b.by) {
		j.w.Fail("broken: %s believes to hold %s with token %d, which was broken more than a lease ago", h.Who.Name, h.Name(), h.Token())
	}
	return true
}
