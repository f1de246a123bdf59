package flease

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// send sends batches, on the goroutine that steps the machine.
func (p *Peer) send(envs []machine.Envelope) {
	t := p.linked.Load()
	if t == nil {
		return // a message before the transport is lost
	}
	for _, env := range envs {
		batch := env.Body.(*flease.Batch)
		b, err := batch.MarshalBinary()
		if err != nil {
			panic(err) // the machine makes no batch that is too large
		}
		p.machine.Reuse(batch)
		p.tapped(true, func() { t.Send(env.To, b) })
	}
}

// deliver takes messages from a peer. It drops and reports those that are no batches.
func (p *Peer) deliver(from machine.NodeID, msgs [][]byte) {
	in := make([]machine.Envelope, 0, len(msgs))
	d, _ := p.decoders.Get().(*flease.Decoder)
	if d == nil {
		d = new(flease.Decoder)
	}
	defer p.decoders.Put(d)
	for _, m := range msgs {
		b, _ := p.batches.Get().(*flease.Batch)
		if b == nil || p.cfg.tap != nil { // which may deliver a batch twice
			b = new(flease.Batch)
		}
		if err := d.Decode(m, b); err != nil {
			if p.noteFault(from, fmt.Errorf("peer %d sends messages that this one does not understand: %w: run one version of the program everywhere", from, err)) {
				p.cfg.Logger.Warn("flease: a message was dropped", "peer", from, "error", err)
			}
			continue
		}
		in = append(in, machine.Envelope{From: from, To: p.self, Body: b})
	}
	p.tapped(false, func() { p.driver.Offer(in...) })
}

func (p *Peer) tapped(sending bool, forward func()) {
	if p.cfg.tap == nil {
		forward()
		return
	}
	p.cfg.tap(sending, forward)
}

// stepped is the machine. It uses batches again after their step: renewing a million leases decodes
// four operations for each.
type stepped struct {
	*flease.Peer
	peer *Peer
}

// Receive implements machine.Receiver.
func (s stepped) Receive(now machine.Now, env machine.Envelope) {
	s.Peer.Receive(now, env)
	if b, ok := env.Body.(*flease.Batch); ok && s.peer.cfg.tap == nil {
		b.Reset()
		s.peer.batches.Put(b)
	}
}
