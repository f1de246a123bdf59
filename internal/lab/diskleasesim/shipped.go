package diskleasesim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// drift is ρ in the worlds of the shipped lease, in parts per million.
const drift = 20_000

// shipped plays the fail-aware lease under faults of all kinds, then heals them.
// Trusting leaves out the checks that make it fail-aware.
func shipped(w *sim.World, onDisks, trusting bool) *judge {
	return (&stage{w: w}).shipped(onDisks, trusting)
}

func (s *stage) shipped(onDisks, trusting bool) *judge {
	w := s.w
	s.j, s.term = &judge{w: w, steady: 1 << 62}, term*time.Duration(1+w.Rand.IntN(2)*w.Rand.IntN(6))
	var faults faulty
	var serve func(*sim.Host, machine.ID, machine.Access)
	var forget func(machine.ID)
	var wrap func(disklease.Claim, machine.ID) disklease.Claim
	if onDisks {
		d := newDisks(w, 1+2*w.Rand.IntN(2))
		faults, serve, forget, wrap = d, d.access, d.forget, func(m disklease.Claim, id machine.ID) disklease.Claim {
			return quorumregister.Over(m, quorumregister.Config{Writer: id, Bases: len(d.disks), Atomic: true, Quiet: s.term + 6*delta, Retry: delta}, ofDisks)
		}
	} else {
		r := &register{w: w, delta: delta * 9 / 10, worst: w.Between(delta, 36*delta)}
		faults, serve, forget = r, r.access, r.forget
	}
	slots := []int{1}
	if w.Chance(0.4) {
		slots = []int{1, disklease.Shared, disklease.Shared, 2, 3}
	}
	for range 2 + w.Rand.IntN(5) {
		p := &process{
			config: disklease.Config{Term: s.term, Delay: delta, Drift: drift, Slots: slots[w.Rand.IntN(len(slots))], Trusting: trusting},
			serve:  serve, forget: forget, wrap: wrap, tokens: !trusting, renewing: trusting,
			stay: func() time.Duration { return w.Between(0, 6*s.term) },
			away: func() time.Duration { return w.Between(0, 2*s.term) },
		}
		p.tries, p.fickle = w.Swarm(0.6), w.Swarm(0.5)
		if w.Chance(0.3) { // has measured another δ than others, and may be wrong
			p.measured = w.Between(0, s.term/disklease.MinTerms)
		}
		s.add(p, drift/1e6)
		p.host.Lag = w.Between(0, delta/20) // δ is for these as well
	}
	for range 1 + w.Rand.IntN(2) {
		s.chaos(faults, w.Between(20*term, 80*term))
		s.heal(faults)
		s.run(20*term+20*s.term, 12*(s.term+s.term/2))
	}
	return s.j
}

// faulty is a storage that can be made to misbehave.
type faulty interface {
	trouble() // draws what goes wrong from here on
	strike()  // does something bad, once
	mend()
	worstCase() time.Duration // until what began in bad times has ended
}

func (r *register) trouble() {
	r.stall, r.fail = r.w.Swarm(0.3), r.w.Swarm(0.2)
}
func (r *register) strike()                  {}
func (r *register) mend()                    { r.stall, r.fail = 0, 0 }
func (r *register) worstCase() time.Duration { return 3 * r.worst }

// chaos lets d pass with faults. Each world draws which kinds it has.
func (s *stage) chaos(f faulty, d time.Duration) {
	w := s.w
	s.j.steady = 1 << 62
	f.trouble()
	kinds := []func(){}
	for _, kind := range []func(){
		func() { s.some().crash(w.Between(0, 3*s.term)) },
		func() { s.some().pause(w.Between(0, 4*s.term)) },
		func() { s.holder().pause(w.Between(0, 4*s.term)) },
		func() { s.holder().crash(w.Between(0, 3*s.term)) },
		func() {
			p := s.some()
			s.j.expire()
			p.host.Drift((2*w.Rand.Float64() - 1) * drift / 1e6)
			s.j.onDrift(p)
		},
		func() { s.some().host.Step(disklease.Measured{Delay: w.Between(0, s.term/disklease.MinTerms)}) },
		f.strike,
	} {
		if w.Chance(0.6) {
			kinds = append(kinds, kind)
		}
	}
	every := w.Between(s.term/4, 6*s.term)
	for end := w.Now() + d; w.Now() < end && s.j.fault == nil; {
		if len(kinds) > 0 {
			kinds[w.Rand.IntN(len(kinds))]()
		}
		w.Run(w.Between(0, 2*every))
	}
}

// holder is one of the holders, or any process.
func (s *stage) holder() *process {
	s.j.expire()
	if len(s.j.holds) > 0 {
		return s.j.holds[s.w.Rand.IntN(len(s.j.holds))].p
	}
	return s.some()
}

// heal ends all faults. Accesses that began before may take their time; then renewals must not
// fail any more.
func (s *stage) heal(f faulty) {
	f.mend()
	for _, p := range s.processes {
		if p.host.Paused() {
			p.host.Resume()
		}
	}
	s.w.Run(f.worstCase() + 3*s.term + 4*(s.term+s.term/2))
	s.j.steady = s.w.Now() + 2*s.term
	s.j.last = s.w.Now()
}
