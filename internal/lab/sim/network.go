package sim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Network carries envelopes between hosts.
type Network struct {
	w     *World
	hosts map[machine.NodeID]*Host
	cut   map[[2]machine.NodeID]bool
	cuts  *Mark // the links that are cut now

	Loss, Duplicate float64
	Min, Max        time.Duration // delay; different delays reorder
	Slow            float64       // chance of a delay far beyond Max
	// OneWay, if set, is how far it is from one host to another, beside the delay above.
	// Envelopes from one host to another then arrive in the order of sending.
	OneWay func(from, to machine.NodeID) time.Duration
	last   map[[2]machine.NodeID]time.Duration // when the last message arrives, by OneWay
	// Copy makes what arrives from what was sent, as a wire would.
	Copy func(any) any
	// Take, if set, may take an envelope off the wire by returning true.
	Take func(machine.Envelope) bool
}

// NewNetwork returns a network without faults.
func NewNetwork(w *World, copy func(any) any) *Network {
	return &Network{
		w: w, hosts: map[machine.NodeID]*Host{}, cut: map[[2]machine.NodeID]bool{}, Copy: copy,
		last: map[[2]machine.NodeID]time.Duration{},
		Min:  100 * time.Microsecond, Max: time.Millisecond,
	}
}

// Cut stops messages from one host to another, one way.
func (n *Network) Cut(from, to machine.NodeID) {
	if len(n.cut) == 0 {
		n.cuts = n.w.Begin(Fault, "network", "cut")
	}
	n.cut[[2]machine.NodeID{from, to}] = true
	n.cuts.Note(" %d>%d", from, to)
	n.w.Note("cut %d>%d", from, to)
}

// IsCut reports whether messages from one host to another are stopped.
func (n *Network) IsCut(from, to machine.NodeID) bool { return n.cut[[2]machine.NodeID{from, to}] }

// Mend undoes all cuts.
func (n *Network) Mend() {
	clear(n.cut)
	n.cuts.End()
	n.w.Note("mend")
}

func (n *Network) send(env machine.Envelope) {
	if n.IsCut(env.From, env.To) || n.w.Chance(n.Loss) {
		return
	}
	if n.Take != nil && n.Take(env) {
		return
	}
	n.Deliver(env)
	if n.w.Chance(n.Duplicate) {
		n.Deliver(env)
	}
}

// Deliver has an envelope arrive after the network's delay, without regard to Loss,
// Duplicate and Take: to let one that was taken go on.
func (n *Network) Deliver(env machine.Envelope) {
	env.Body = n.Copy(env.Body)
	d := n.w.Between(n.Min, n.Max)
	if n.w.Chance(n.Slow) {
		d += n.w.Between(0, 3*time.Second)
	}
	if n.OneWay != nil {
		link := [2]machine.NodeID{env.From, env.To}
		d = max(d+n.OneWay(env.From, env.To), n.last[link]-n.w.Now())
		n.last[link] = n.w.Now() + d
	}
	n.w.After(d, func() {
		if h := n.hosts[env.To]; h != nil && !h.suspended && !n.IsCut(env.From, env.To) {
			h.Receive(env)
		}
	})
}
