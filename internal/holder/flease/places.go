package flease

import (
	"math"
	"sync"

	"github.com/tenure-lease/tenure/internal/machine"
)

// places bounds the clients of a socket. A client that neither holds nor waits for anything keeps
// its place until another client needs it: a Client connects again when it has to.
type places struct {
	most int

	mu    sync.Mutex
	taken map[*session]bool
}

// take gives a client a place. If none is free, it takes the place of the client that has been
// idle for the longest time. It reports whether there was one.
func (ps *places) take(s *session) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.taken) >= ps.most {
		idlest := ps.idlest()
		if idlest == nil {
			return false
		}
		delete(ps.taken, idlest)
		idlest.leave()
	}
	if ps.taken == nil {
		ps.taken = map[*session]bool{}
	}
	ps.taken[s] = true
	return true
}

func (ps *places) idlest() (idlest *session) {
	said := machine.Mono(math.MaxInt64)
	for s := range ps.taken {
		if since, idle := s.idle(); idle && since < said {
			idlest, said = s, since
		}
	}
	return idlest
}

// free gives a place back, if no other client has it by now.
func (ps *places) free(s *session) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.taken, s)
}
