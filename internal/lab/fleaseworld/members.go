package fleaseworld

import (
	"context"
	"maps"
	"sync"
	"time"

	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// authority decides on the members, one change at a time.
type authority struct {
	mu      sync.Mutex
	now     engine.Members
	changed chan struct{} // closed by a change
}

func (a *authority) current() (engine.Members, chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now, a.changed
}

// tell is a Membership: the host reads a new list some time after it was written.
func (h *host) tell(ctx context.Context, known engine.Members) (engine.Members, error) {
	for {
		m, changed := h.s.members.current()
		h.mu.Lock()
		until := h.unread
		if h.has.Epoch != 0 && time.Now().Before(until) {
			m = h.has
		}
		h.has = m
		h.mu.Unlock()
		if known.Epoch == 0 || m.Epoch != known.Epoch || !maps.Equal(m.Addrs, known.Addrs) {
			return m, nil
		}
		var read <-chan time.Time
		if d := time.Until(until); d > 0 {
			timer := time.NewTimer(d)
			defer timer.Stop()
			read = timer.C
		}
		select {
		case <-changed:
		case <-read:
		case <-ctx.Done():
			return known, context.Cause(ctx)
		}
	}
}

func (a *authority) set(m engine.Members) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = m
	if a.changed != nil {
		close(a.changed)
	}
	a.changed = make(chan struct{})
}

// isMember reports whether the host is to run a peer.
func (h *host) isMember() bool {
	m, _ := h.s.members.current()
	_, member := m.Addrs[h.index]
	return member
}

// changeMembers puts a host that was none in the place of a member, and sees it through.
func (s *stage) changeMembers() bool {
	m, _ := s.members.current()
	if m.Was != nil {
		return false // one at a time
	}
	var in *host
	for _, h := range s.hosts {
		h.mu.Lock()
		fresh := h.lives == 0 && !h.removed
		h.mu.Unlock()
		if _, member := m.Addrs[h.index]; !member && fresh {
			in = h
			break
		}
	}
	if in == nil {
		return false
	}
	next := engine.Members{Epoch: m.Epoch + 1, Addrs: maps.Clone(m.Addrs), Was: maps.Clone(m.Addrs)}
	var out machine.NodeID
	for id := range m.Addrs { // the longest-lived leaves: indices grow
		if out == 0 || id < out {
			out = id
		}
	}
	delete(next.Addrs, out)
	next.Addrs[in.index] = in.addr()
	s.w.Trace.Add("members: %v", next)
	s.w.Count("changes of members", 1)
	if s.shape.late || s.between(0, 1) == 0 {
		for _, h := range s.hosts {
			if h != in {
				late := s.between(0, 2*s.tmax)
				h.mu.Lock()
				h.unread = time.Now().Add(late)
				h.mu.Unlock()
			}
		}
		s.w.Count("lists read at different times", 1)
	}
	s.members.set(next)
	s.reckon()
	s.running.Go(in.start)
	s.running.Go(func() { // the operator, which takes the lines with "was" away
		for !s.ended() {
			time.Sleep(500 * time.Millisecond)
			done := true
			for id := range next.Addrs {
				p := s.hosts[id-1].now()
				done = done && p != nil && p.Status().Active >= next.Epoch && !p.Status().Incomplete
			}
			if done {
				next.Was = nil
				s.members.set(next)
				s.w.Trace.Add("members: epoch %d is active everywhere", next.Epoch)
				return
			}
		}
	})
	return true
}
