package flease

import (
	"math"
	"sync"

	"github.com/tenure-lease/tenure/internal/machine"
)

// places are for the clients of a socket. A client that neither holds nor waits for anything
// keeps its place as long as nobody else needs it: Client connects again when it has to.
type places struct {
	most int

	mu    sync.Mutex
	taken map[*session]bool
}

// take gives a client a place: if none is free, that of the client which has been idle for
// the longest time. It reports whether there is one.
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

// free takes a place back, if it is not another's by now.
func (ps *places) free(s *session) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.taken, s)
}
