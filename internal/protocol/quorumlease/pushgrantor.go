package quorumlease

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// PushGrantor keeps the promises that a voter sends unasked (Figure 5). Each promise binds
// it from the sending on: at first for guard and lease, since the promise may be in transit
// for as long as the guard. Once the promise is acknowledged, it binds the voter for at
// most a lease from then, unless another is in transit.
type PushGrantor struct {
	cfg     Config
	lengths Lengths
	holders []pushed // by member
	forgot  machine.Mono
}

// pushed is a grantor's view of a holder.
type pushed struct {
	Lifetime // Boot 0: it has acknowledged nothing yet
	until    machine.Mono
	stamp    Stamp
	seq      uint64 // of what was sent last
	sent     []sent // promises that may be acknowledged yet, oldest first

	pushing bool         // it is to have promises
	guarded bool         // it has acknowledged something, and not too long ago
	suspect bool         // it has not, for as long as the grace period
	acked   uint64       // the latest that it has acknowledged
	ackedAt machine.Mono // when that was heard
	next    machine.Mono // when to send something
}

// NewPushGrantor returns a PushGrantor that starts now. Of cfg it uses all but TTL;
// EarlierTTL is the longest Wait of earlier lives.
func NewPushGrantor(cfg Config, lengths Lengths, now machine.Mono) *PushGrantor {
	return &PushGrantor{cfg: cfg, lengths: lengths, forgot: cfg.Forgotten(now)}
}

func (g *PushGrantor) find(holder machine.NodeID) (int, bool) {
	return slices.BinarySearchFunc(g.holders, holder, func(p pushed, id machine.NodeID) int { return cmp.Compare(p.Member, id) })
}

// Turn returns the messages to send now, so that the named members get promises, while the
// log is as log says (R3). Other members get no more promises. The promises count from now,
// so the messages must leave now or later.
func (g *PushGrantor) Turn(now machine.Mono, to []machine.NodeID, log Log) (list []Push) {
	for _, id := range to {
		if i, known := g.find(id); !known {
			g.holders = slices.Insert(g.holders, i, pushed{Lifetime: Lifetime{Member: id}})
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
			list = append(list, Push{p.Member, Guard{Boot: g.cfg.Boot, Seq: p.seq}})
			continue
		}
		list = append(list, Push{p.Member, g.promise(now, p, log)})
	}
	return list
}

// promise binds the grantor (lines 3 and 15).
func (g *PushGrantor) promise(now machine.Mono, p *pushed, log Log) Pushed {
	if p.until <= now {
		p.stamp = Stamp{Term: log.Term, Index: log.Last}
	}
	p.until = max(p.until, now.Add(bound(g.lengths.Wait())))
	for len(p.sent) > 0 && p.sent[0].at.Add(bound(g.lengths.Wait())) <= now {
		p.sent = p.sent[1:]
	}
	p.sent = append(p.sent, sent{p.seq, now})
	return Pushed{
		Boot: g.cfg.Boot, To: p.Boot, Seq: p.seq, Acked: p.acked,
		// The clocks may differ in rate meanwhile, and a smaller value is safe.
		Since: believed(now.Sub(p.ackedAt)), Guard: g.lengths.Guard, Lease: g.lengths.Lease, Stamp: p.stamp,
	}
}

// GuardAcked takes an acknowledgment of a guard. The next Turn sends a promise.
func (g *PushGrantor) GuardAcked(now machine.Mono, from machine.NodeID, m GuardAck) {
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

// Replied takes an acknowledgment of a promise, and returns how long it took. The
// acknowledgment ends all earlier promises, but not later ones that may still be in
// transit. Line 20 of Figure 5 overlooks those.
func (g *PushGrantor) Replied(now machine.Mono, from machine.NodeID, m PromiseReply) (took time.Duration, ok bool) {
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
	end := now.Add(bound(g.lengths.Lease))
	if n := len(p.sent); n > 0 {
		end = max(end, p.sent[n-1].at.Add(bound(g.lengths.Wait())))
	}
	p.until = min(p.until, end)
	p.acked, p.ackedAt, p.suspect = m.Seq, now, false
	return took, true
}

// Shortened does the same as Grantor.Shortened.
func (g *PushGrantor) Shortened(last uint64) {
	for i := range g.holders {
		s := &g.holders[i].stamp
		s.Index = min(s.Index, last)
	}
}

// Holders returns the same as Grantor.Holders.
func (g *PushGrantor) Holders(now machine.Mono) (holders []Lifetime, everyone bool) {
	for _, p := range g.holders {
		if p.until > now {
			holders = append(holders, p.Lifetime)
		}
	}
	return holders, now < g.forgot
}

// Due returns when the next promise runs out, as Grantor.Due does.
func (g *PushGrantor) Due(now machine.Mono) machine.Mono {
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
func (g *PushGrantor) Next() machine.Mono {
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
func (g *PushGrantor) Suspects() (list []machine.NodeID) {
	for _, p := range g.holders {
		if p.suspect {
			list = append(list, p.Member)
		}
	}
	return list
}
