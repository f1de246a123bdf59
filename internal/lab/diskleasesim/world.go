package diskleasesim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// Protocol is what `tenure-lab sim disklease` plays.
func Protocol() sim.Protocol {
	return sim.Protocol{
		Name:  "disklease",
		About: "storage leases on a shared register: exclusion, tokens, progress and renewal, in the paper's model and beyond",
		Play:  play,
	}
}

// play plays the world of a seed.
func play(w *sim.World) error {
	switch w.Seed % 4 {
	case 0:
		return paper(w, constants{wait: 60, readBack: 20, early: w.Chance(0.3), known: w.Chance(0.2)}).fault
	case 1:
		return shipped(w, true, false).fault
	}
	return shipped(w, false, false).fault
}

const (
	delta     = 10 * time.Millisecond // δ
	paperTerm = 6 * delta             // Δ in the paper's model, where it is tight
	term      = 16 * delta            // the least Δ of the shipped lease
)

// stage is the common part of the kinds of worlds.
type stage struct {
	w         *sim.World
	j         *judge
	term      time.Duration // Δ
	processes []*process

	telling bool              // processes are told which claims have ended
	ends    []disklease.Ended // that were told lately
}

func (s *stage) add(p *process, drift float64) {
	p.w, p.j, p.stage = s.w, s.j, s
	p.host = sim.NewProcess[disklease.LeaseInput, disklease.Outcome](s.w, nil, machine.NodeID(len(s.processes)+1), drift)
	p.host.Lane = fmt.Sprintf("process %d", p.host.ID)
	s.processes = append(s.processes, p)
	s.w.After(s.w.Between(0, 2*s.term), p.contend)
}

// run lets d pass and watches for progress all the while.
func (s *stage) run(d, bound time.Duration) {
	for end := s.w.Now() + d; s.w.Now() < end; {
		s.w.Run(s.term)
		if s.j.steady <= s.w.Now() {
			s.j.progress(s.processes, bound)
		}
	}
}
