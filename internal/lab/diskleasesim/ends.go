package diskleasesim

import (
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// EndsProtocol is the shipped lease in worlds where some processes learn at once, or later, that another
// has ended, and by which stamp its claim has held.
func EndsProtocol() sim.Protocol {
	return sim.Protocol{
		Name:  "disklease-ends",
		About: "storage leases whose claims are told of the ends of other processes: exclusion, tokens, progress and renewal",
		Play: func(w *sim.World) error {
			return (&stage{w: w, telling: true}).shipped(w.Seed%4 == 1, false).fault
		},
	}
}

// mostEnds is how many ends a claim is told of when it begins.
const mostEnds = 4

// tell tells the other processes that a process has ended.
func (s *stage) tell(p *process) {
	if !s.telling || p.lease == nil {
		return
	}
	e := disklease.Ended{ID: p.id, Stamp: p.lease.Held()}
	s.ends = append(s.ends, e)
	s.ends = s.ends[max(0, len(s.ends)-mostEnds):]
	for _, other := range s.processes {
		if other == p || s.w.Chance(0.3) { // on another machine, perhaps
			continue
		}
		s.w.After(s.w.Between(0, s.term/4), func() {
			if other.host.Up() && other.lease != nil {
				other.host.Step(e)
			}
		})
	}
	s.w.Count("ends told", 1)
}
