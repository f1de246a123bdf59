package flease

import "github.com/tenure-lease/tenure/machine"

// Fresh is cfg for a peer of a cluster that has never run, with a tap, which may be nil.
func Fresh(cfg Config, tap func(sending bool, forward func())) Config {
	cfg.fresh, cfg.tap = true, tap
	return cfg
}

// JudgeClock is what is made of the kernel's answer.
var JudgeClock = judgeClock

// Deliver hands the peer what came from another.
func (p *Peer) Deliver(from machine.NodeID, msgs [][]byte) { p.deliver(from, msgs) }
