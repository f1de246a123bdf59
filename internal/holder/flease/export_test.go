package flease

import (
	"context"
	"errors"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// Fresh is cfg for a peer of a cluster that has never run, with a tap or nil.
func Fresh(cfg Config, tap func(sending bool, forward func())) Config {
	cfg.fresh, cfg.tap = true, tap
	return cfg
}

// JudgeClock judges an answer of the kernel about its clock.
var JudgeClock = judgeClock

// Refused hands the peer another's reason to refuse its connections.
func (p *Peer) Refused(by machine.NodeID, reason error) { p.refused(by, reason) }

// Rooms is cfg for a peer whose socket has places for n clients.
func Rooms(cfg Config, n int) Config {
	cfg.sessions = n
	return cfg
}

// Deliver hands the peer messages of another.
func (p *Peer) Deliver(from machine.NodeID, msgs [][]byte) { p.deliver(from, msgs) }

// Watched returns the number of names that callers await, and of these callers.
func (p *Peer) Watched() (names, refs int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.watches {
		refs += w.refs
	}
	return len(p.watches), refs
}

// Left returns how long a lease of a Leaser lasts when the clocks show now.
func Left(l tenure.Lease, now machine.Now) time.Duration { return l.(*claim).LeftAt(now) }

// Stall has the peer step nothing until a channel is closed.
func (p *Peer) Stall(until <-chan struct{}) {
	p.driver.Gather(func() (flease.Input, bool) { <-until; return nil, false })
}

// Kernel is cfg for a peer that asks a function instead of the kernel whether its clock is right.
func Kernel(cfg Config, ask func(limit time.Duration) error) Config {
	cfg.CheckClock, cfg.kernel = true, ask
	return cfg
}

// Expire ends a lease of a Leaser, as a Check after its deadline does.
func Expire(l tenure.Lease) { l.(*claim).Lose(errors.New("its deadline passed without a renewal")) }

// Asked returns the number of claims and looks that the peer has begun.
func (p *Peer) Asked() uint64 { return p.lastID.Load() }

// Speaks reports whether the peer has a stream to another, or tries to have one.
func (p *Peer) Speaks(to machine.NodeID) bool { return p.transport.Stats(to) != peer.Stats{} }

// Note notes trouble with another peer's terms.
func (p *Peer) Note(id machine.NodeID, err error) { p.note(id, err) }

// Connections returns the number of connections that the client remembers.
func (c *Client) Connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns)
}

// Keep puts a record on the peer's shelf, as of a tenure with the token.
func (p *Peer) Keep(name string, token uint64, record []byte) bool {
	return p.shelf.put(kept{Name: name, Token: token, Data: record})
}

// RecordsMax bounds the names whose records a peer keeps.
const RecordsMax = recordsMax

// Spread passes a record of a tenure with the token on until a majority has it.
func (p *Peer) Spread(ctx context.Context, name string, token uint64, record []byte) error {
	_, err := p.spread(ctx, kept{Name: name, Token: token, Data: record}, round{})
	return err
}

// Set sets a record of a lease of a Leaser, though the lease may be lost.
func (p *Peer) Set(ctx context.Context, l tenure.Lease, record []byte) error {
	x := l.(*claim)
	return p.set(ctx, x, kept{Name: x.Name(), Token: x.Token(), Number: x.nextRecord(), Data: record})
}

// Kept returns the record that the peer itself keeps.
func (p *Peer) Kept(name string) []byte {
	var a recordAnswer
	p.shelf.show(recordQuestion{Name: name}, &a)
	return a.of(name).Data
}
