package pushlease

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// grantor keeps the promises that a voter sends unasked (Figure 5). Each promise binds
// it from the sending on: at first for guard and lease, since the promise may be in transit
// for as long as the guard. Once the promise is acknowledged, it binds the voter for at
// most a lease from then, unless another is in transit.
type grantor struct {
	cfg     quorumlease.Config
	lengths Lengths
	holders []pushed // by member
	forgot  machine.Mono
}

// pushed is a grantor's view of a holder.
type pushed struct {
	quorumlease.Lifetime // Boot 0: it has acknowledged nothing yet
	until                machine.Mono
	stamp                quorumlease.Stamp
	seq                  uint64 // of the last message
	sent                 []sent // promises that may be acknowledged yet, oldest first

	pushing bool         // it is to have promises
	guarded bool         // it has acknowledged something, and not too long ago
	suspect bool         // it has not, for as long as the grace period
	acked   uint64       // the latest that it has acknowledged
	ackedAt machine.Mono // when that was heard
	next    machine.Mono // when to send something
}

// sent is when something was sent.
type sent struct {
	seq uint64
	at  machine.Mono
}

// newGrantor returns a Grantor that starts now. Of cfg it uses all but TTL;
// EarlierTTL is the longest Wait of earlier lives.
func newGrantor(cfg quorumlease.Config, lengths Lengths, now machine.Mono) *grantor {
	return &grantor{cfg: cfg, lengths: lengths, forgot: cfg.Forgotten(now)}
}

func (g *grantor) find(holder machine.NodeID) (int, bool) {
	return slices.BinarySearchFunc(g.holders, holder, func(p pushed, id machine.NodeID) int { return cmp.Compare(p.Member, id) })
}

// turn returns the messages to send now, so that the named members get promises, while the
// log is as log says (R3). Other members get no more promises. The promises count from now,
// so the messages must leave now or later.
func (g *grantor) turn(now machine.Mono, to []machine.NodeID, log quorumlease.Log) (list []replica.Addressed) {
	for _, id := range to {
		if i, known := g.find(id); !known {
			g.holders = slices.Insert(g.holders, i, pushed{Lifetime: quorumlease.Lifetime{Member: id}})
		}
	}
	for i := range g.holders {
		p := &g.holders[i]
		switch {
		case !slices.Contains(to, p.Member):
			p.pushing, p.guarded, p.suspect = false, false, false
			continue
		case !p.pushing:
			p.pushing, p.ackedAt, p.next = true, now, now
		case now.Sub(p.ackedAt) > g.lengths.Grace:
			p.guarded, p.suspect = false, true
		}
		if now < p.next {
			continue
		}
		p.next = now.Add(g.lengths.Renew)
		p.seq++
		if !p.guarded {
			list = append(list, replica.Addressed{To: p.Member, Body: Guard{Boot: g.cfg.Boot, Seq: p.seq}})
			continue
		}
		list = append(list, replica.Addressed{To: p.Member, Body: g.promise(now, p, log)})
	}
	return list
}

// promise binds the grantor (lines 3 and 15).
func (g *grantor) promise(now machine.Mono, p *pushed, log quorumlease.Log) Pushed {
	if p.until <= now {
		p.stamp = quorumlease.Stamp{Term: log.Term, Index: log.Last}
	}
	p.until = max(p.until, now.Add(quorumlease.Bound(g.lengths.Wait())))
	for len(p.sent) > 0 && p.sent[0].at.Add(quorumlease.Bound(g.lengths.Wait())) <= now {
		p.sent = p.sent[1:]
	}
	p.sent = append(p.sent, sent{p.seq, now})
	return Pushed{
		Boot: g.cfg.Boot, To: p.Boot, Seq: p.seq, Acked: p.acked,
		// The clocks may differ in rate meanwhile, and a smaller value is safe.
		Since: quorumlease.Believed(now.Sub(p.ackedAt)), Guard: g.lengths.Guard, Lease: g.lengths.Lease, Stamp: p.stamp,
	}
}

// guardAcked takes an acknowledgment of a guard. The next Turn sends a promise.
func (g *grantor) guardAcked(now machine.Mono, from machine.NodeID, m GuardAck) {
	i, known := g.find(from)
	if !known || m.Boot != g.cfg.Boot {
		return
	}
	p := &g.holders[i]
	if m.To < p.Boot || m.Seq <= p.acked || m.Seq > p.seq {
		return
	}
	if m.To > p.Boot { // the earlier life reads no more (R15)
		p.Boot, p.until, p.sent = m.To, 0, nil
	}
	if !p.guarded {
		p.guarded, p.next = true, now
	}
	p.acked, p.ackedAt, p.suspect = m.Seq, now, false
}

// replied takes an acknowledgment of a promise, and returns how long it took. The
// acknowledgment ends all earlier promises, but not later ones that may still be in
// transit. Line 20 of Figure 5 overlooks those.
func (g *grantor) replied(now machine.Mono, from machine.NodeID, m PromiseReply) (took time.Duration, ok bool) {
	i, known := g.find(from)
	if !known || m.Boot != g.cfg.Boot {
		return 0, false
	}
	p := &g.holders[i]
	n := slices.IndexFunc(p.sent, func(s sent) bool { return s.seq == m.Seq })
	if m.To != p.Boot || m.Seq <= p.acked || n < 0 {
		return 0, false
	}
	took = now.Sub(p.sent[n].at)
	p.sent = p.sent[n+1:]
	end := now.Add(quorumlease.Bound(g.lengths.Lease))
	if n := len(p.sent); n > 0 {
		end = max(end, p.sent[n-1].at.Add(quorumlease.Bound(g.lengths.Wait())))
	}
	p.until = min(p.until, end)
	p.acked, p.ackedAt, p.suspect = m.Seq, now, false
	return took, true
}

// Shortened does the same as quorumlease.Grantor.Shortened.
func (g *grantor) Shortened(last uint64) {
	for i := range g.holders {
		s := &g.holders[i].stamp
		s.Index = min(s.Index, last)
	}
}

// Holders returns the same as quorumlease.Grantor.Holders.
func (g *grantor) Holders(now machine.Mono) (holders []quorumlease.Lifetime, everyone bool) {
	for _, p := range g.holders {
		if p.until > now {
			holders = append(holders, p.Lifetime)
		}
	}
	return holders, now < g.forgot
}

// Due returns when the next promise runs out, as quorumlease.Grantor.Due does.
func (g *grantor) Due(now machine.Mono) machine.Mono {
	due := machine.Never
	if g.forgot > now {
		due = g.forgot
	}
	for _, p := range g.holders {
		if p.until > now {
			due = min(due, p.until)
		}
	}
	return due
}

// Next returns when the next Turn is needed.
func (g *grantor) Next() machine.Mono {
	next := machine.Never
	for _, p := range g.holders {
		if p.pushing {
			next = min(next, p.next)
		}
	}
	return next
}

// Suspects returns the members that should have promises and have acknowledged nothing for
// the grace period.
func (g *grantor) Suspects() (list []machine.NodeID) {
	for _, p := range g.holders {
		if p.suspect {
			list = append(list, p.Member)
		}
	}
	return list
}
