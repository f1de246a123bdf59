package fleaseworld

import "time"

// setBack sets the synchronized clocks of all hosts back, and starts their peers anew, one after the other. Each hears the
// records of the others before the next ends. Tokens begin anew then, for the leases are forgotten, and the records are not.
func (s *stage) setBack(by time.Duration) {
	for _, h := range s.hosts {
		h.mu.Lock()
		h.back += by
		h.mu.Unlock()
		h.wall.Jump(-by)
	}
	time.Sleep(s.tmax + s.eps) // no lease is left
	s.j.mu.Lock()
	for _, r := range s.j.names {
		r.tokens = [2]uint64{}
	}
	s.j.mu.Unlock()
	s.w.Count("clocks set back", 1)
	for _, h := range s.hosts {
		h.stop(exits, 0)
		for !s.ended() {
			if p := h.now(); p != nil && p.Status().Serving && !p.Status().Incomplete {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}
