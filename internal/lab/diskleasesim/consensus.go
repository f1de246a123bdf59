package diskleasesim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// ConsensusProtocol is what `tenure-lab sim consensus` plays: processes that propose, some
// of which lead, alone or several at once, in one instance after the other. A seed draws
//
//   - the ranked register: notes of a register that is merely regular, notes over
//     quorumregister and disks, or bases that read and modify in one step, of which a
//     minority hangs;
//   - the oracle: leases that are fail-aware, leases that are not and are used beyond their
//     bounds, or an arbitrary oracle until all is healed.
//
// Properties 4 and 5, agreement, validity and integrity hold at all times, under accesses that
// stall, fail and take effect late, crashes, pauses and clocks that drift. Once all is healed
// there is one leader (Property 3), every operation ends (Property 6), and all proposers
// decide.
func ConsensusProtocol() sim.Protocol {
	return sim.Protocol{
		Name:  "consensus",
		About: "consensus by ranked registers and leader oracles: agreement whoever leads, a decision once one leads alone",
		Play:  playConsensus,
	}
}

// playConsensus plays the world of a seed.
func playConsensus(w *sim.World) error {
	oracle := []oracleKind{failAware, trusting, wild, wild, wild}[w.Rand.IntN(5)]
	ballots := 1 + w.Rand.IntN(3)
	if oracle == wild {
		ballots *= 5 // they take little time
	}
	for range ballots {
		b := newBallot(w, oracle)
		b.play()
		if b.fault != nil {
			return b.fault
		}
	}
	return nil
}

// poll is how often a process looks for a decision.
const poll = 5 * delta

// ballot is one instance of consensus and its processes.
type ballot struct {
	parliament
	oracle  oracleKind
	lease   *register // of the oracles' leases
	store   store     // of the ranked register
	serves  func(disklease.Proposer, machine.ID) disklease.Proposer
	voters  []*voter
	spread  time.Duration // between the first and the last that proposes
	eager   float64       // how likely one leads from the start, if the oracle is wild
	healthy bool          // no more faults
	over    bool          // no process comes back
}

// store is where a ranked register is kept.
type store interface {
	faulty
	access(*sim.Host, machine.ID, machine.Access)
}

type oracleKind int

const (
	failAware oracleKind = iota // never two leaders at once
	trusting                    // two at once whenever δ does not hold
	wild                        // any process, until all is healed
)

func newBallot(w *sim.World, oracle oracleKind) *ballot {
	b := &ballot{parliament: newParliament(w), oracle: oracle}
	b.lease = &register{w: w, delta: delta * 9 / 10, worst: w.Between(delta, 36*delta)}
	switch n := 1 + 2*w.Rand.IntN(3); w.Rand.IntN(3) {
	case 0:
		b.store = &cell{w: w, worst: w.Between(delta, 36*delta)}
		b.serves = func(m disklease.Proposer, id machine.ID) disklease.Proposer {
			return disklease.RankedOverNotes(m, id, 0)
		}
	case 1:
		b.store = newDisks(w, n)
		atomic := w.Chance(0.5)
		b.serves = func(m disklease.Proposer, id machine.ID) disklease.Proposer {
			return quorumregister.Over(disklease.RankedOverNotes(m, id, 0), quorumregister.Config{Writer: id, Bases: n, Atomic: atomic, Retry: delta}, ofDisks)
		}
	case 2:
		b.store = newActives(&b.parliament, n)
		b.serves = func(m disklease.Proposer, _ machine.ID) disklease.Proposer {
			return disklease.RankedOverBases(m, n, delta)
		}
	}
	b.spread, b.eager = []time.Duration{delta, 2 * term}[w.Rand.IntN(2)], w.Rand.Float64()
	w.Note("a ballot: oracle %d, %T", b.oracle, b.store)
	for range 2 + w.Rand.IntN(4) {
		b.seat()
	}
	return b
}

// play goes through the instance: faults, then none.
func (b *ballot) play() {
	w := b.w
	b.chaos(w.Between(0, 30*term))
	b.heal()
	if !w.Until(b.bound(), b.done) {
		b.fail("termination: all is well, and not everybody has decided")
	}
	w.Run(b.worstCase() + 4*(term+6*delta)) // until nothing of the bad times is left
	b.checkLeadership()
	b.over = true
	w.Count("instances", 1)
	for _, v := range b.voters {
		v.host.Crash()
	}
}

// bound is how long it may take from healing to the last decision: stuck accesses end, beliefs
// about the lease lapse, a process acquires it and makes some attempts.
func (b *ballot) bound() time.Duration { return b.worstCase() + 16*(term+6*delta) + 20*poll }

func (b *ballot) worstCase() time.Duration { return max(b.lease.worstCase(), b.store.worstCase()) }

func (b *ballot) done() bool {
	b.unique()
	for _, v := range b.voters {
		if !v.decided {
			return false
		}
	}
	return len(b.leaders()) == 1
}

// checkLeadership is Property 3: one process leads whenever it is asked, all others never.
func (b *ballot) checkLeadership() {
	leader := b.leaders()
	for range 30 {
		b.w.Run(term / 10)
		if l := b.leaders(); len(l) != 1 || l[0] != leader[0] {
			b.fail("Property 3: %d lead, or not the same for ever", len(l))
			return
		}
	}
}

func (b *ballot) leaders() (list []*voter) {
	for _, v := range b.voters {
		if v.leads() {
			list = append(list, v)
		}
	}
	return list
}

// unique wants one leader at most, at all times, among those whose leases are fail-aware.
func (b *ballot) unique() {
	if l := b.leaders(); len(l) > 1 && b.oracle == failAware {
		b.fail("Property 1.1: %v and %v both lead", l[0].host.Lane, l[1].host.Lane)
	}
}

// chaos lets d pass with faults. Each ballot draws which kinds it has.
func (b *ballot) chaos(d time.Duration) {
	w := b.w
	b.lease.trouble()
	b.store.trouble()
	kinds := []func(){func() { b.some().lead() }}
	for _, kind := range []func(){
		func() { b.some().crash(w.Between(0, 2*term)) },
		func() { b.some().pause(w.Between(0, 3*term)) },
		func() { b.some().host.Drift((2*w.Rand.Float64() - 1) * drift / 1e6) },
		func() { b.some().lead() },
		func() { b.some().depose() },
		b.store.strike,
		b.forget,
	} {
		if w.Chance(0.6) {
			kinds = append(kinds, kind)
		}
	}
	every := w.Between(delta/2, term)
	for end := w.Now() + d; w.Now() < end && b.fault == nil; {
		kinds[w.Rand.IntN(len(kinds))]()
		w.Run(w.Between(0, 2*every))
		b.unique()
	}
}

func (b *ballot) some() *voter { return b.voters[b.w.Rand.IntN(len(b.voters))] }

// heal ends all faults. A minority of bases may stay dead.
func (b *ballot) heal() {
	b.w.Note("heals")
	b.healthy = true
	b.lease.mend()
	b.store.mend()
	for _, v := range b.voters {
		v.heal()
	}
	b.nameLeader()
}

// nameLeader has an arbitrary oracle name one leader from here on, for ever.
func (b *ballot) nameLeader() {
	if b.oracle != wild {
		return
	}
	leader := b.some()
	for _, v := range b.voters {
		if v != leader {
			v.depose()
		}
	}
	leader.lead()
}

// forget has a disk forget the blocks of the dead, as far as a store may.
func (b *ballot) forget() {
	d, ok := b.store.(*disks)
	if !ok {
		return
	}
	k := d.disks[b.w.Rand.IntN(len(d.disks))]
	shows := machine.Value{Version: k.state.Version, Data: k.state.Data}
	k.state.Notes = slices.DeleteFunc(slices.Clone(k.state.Notes), func(n quorumregister.Note) bool {
		lives := slices.ContainsFunc(b.voters, func(v *voter) bool { return v.host.Up() && v.id == n.Writer })
		return !lives && disklease.ObsoleteBlock(shows, n.Writer)
	})
}
