package diskleasesim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// constants are the paper's waits in tenths of δ, or others, and ways to renew.
type constants struct {
	wait, readBack int
	early          bool // renew at some time before expiry, not at the instant
	known          bool // renew as section 7.1, in a system that is stable throughout
	never          bool // no renewals
}

// paper plays the model of section 3.3 to the letter: a regular register, an access
// of less than δ while the system is stable, local steps that take no time, ρ = 0.
func paper(w *sim.World, c constants) *judge {
	s := &stage{w: w, j: &judge{w: w}, term: paperTerm}
	reg := &register{w: w, delta: delta, regular: true, worst: 36 * delta, wrote: s.j.wrote}
	for range 2 + w.Rand.IntN(4) {
		p := &process{
			config: disklease.Config{
				Term: paperTerm, Delay: delta, Wait: c.wait, ReadBack: c.readBack,
				Trusting: true, Plain: true, RenewAfter: 10 * paperTerm, Slots: 1,
			},
			serve:    reg.access,
			renewing: !c.never, between: !c.never,
			stay: func() time.Duration { return w.Between(paperTerm, 12*paperTerm) },
			away: func() time.Duration { return w.Between(0, 3*paperTerm) },
		}
		if c.known {
			p.config.Renewal = disklease.KnownDelay
		}
		if c.early {
			p.config.RenewAfter = w.Between(paperTerm/4, 3*paperTerm/2)
		}
		if c.never {
			p.stay = func() time.Duration { return paperTerm - 2 }
		}
		s.add(p, 0)
		p.host.Lag = 0
	}
	const never = time.Duration(1) << 62
	for range 3 {
		if !c.known && w.Chance(0.7) {
			s.j.from, s.j.steady = never, never
			reg.stall = 0.4 * w.Rand.Float64()
			end := w.Now() + w.Between(0, 30*paperTerm)
			for w.Now() < end {
				s.some().pause(w.Between(0, 4*paperTerm))
				w.Run(w.Between(0, 6*paperTerm))
			}
			reg.stall = 0
			for _, p := range s.processes {
				if p.host.Paused() {
					p.host.Resume()
				}
			}
			// GST. Tenures and accesses of this time may still be wrong.
			s.j.from = w.Now() + reg.worst + 2*paperTerm + 20*delta
			s.j.steady = s.j.from
		}
		s.run(60*paperTerm, 20*(paperTerm+6*delta))
	}
	return s.j
}

func (s *stage) some() *process { return s.processes[s.w.Rand.IntN(len(s.processes))] }
