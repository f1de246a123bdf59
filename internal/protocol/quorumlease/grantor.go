package quorumlease

import (
	"cmp"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Grantor keeps the promises that a voter has made. They live in memory only; for a
// while after a restart it counts as bound to everyone (R14).
type Grantor struct {
	cfg      Config
	promises []promise // by holder
	forgot   machine.Mono
	revived  bool // forgot was, by Doubt
}

type promise struct {
	Lifetime
	made    machine.Mono // last
	until   machine.Mono
	revived bool // it had run out, by a clock that was in doubt
	stamp   Stamp
	seq     uint64 // the highest that was answered, or given back
}

// NewGrantor returns a Grantor that starts now.
func NewGrantor(cfg Config, now machine.Mono) *Grantor {
	return &Grantor{cfg: cfg, forgot: cfg.Forgotten(now)}
}

// Doubt reports that the grantor's clock may have jumped ahead since then, or is still too
// fast. Promises of that time last twice their length, and those that have run out since
// are made anew, once each. So a dead holder delays writes for up to three times a
// promise's length, however long the doubt lasts.
func (g *Grantor) Doubt(since, now machine.Mono) {
	for i := range g.promises {
		p := &g.promises[i]
		if p.until <= since {
			continue
		}
		if p.until <= now && !p.revived {
			p.until, p.revived = now.Add(bound(g.cfg.TTL)), true
		}
		p.until = max(p.until, p.made.Add(2*bound(g.cfg.TTL)))
	}
	if g.forgot > since && !g.revived {
		g.forgot, g.revived = max(g.forgot, now).Add(bound(max(g.cfg.TTL, g.cfg.EarlierTTL))), true
	}
}

func (g *Grantor) find(holder machine.NodeID) (int, bool) {
	return slices.BinarySearchFunc(g.promises, holder, func(p promise, id machine.NodeID) int { return cmp.Compare(p.Member, id) })
}

// Grant answers a request that arrived before now with a promise. The log is as log says:
// later entries are reported with the new holder (R3). The grantor decides whether the
// promise is fresh (R5). No promise is given for the request of an earlier life (R15), and
// none for one that comes late: its holder may have died since, or given back what it asked
// for.
func (g *Grantor) Grant(now machine.Mono, from machine.NodeID, r Request, log Log) (p Promise, ok bool) {
	i, known := g.find(from)
	if !known {
		g.promises = slices.Insert(g.promises, i, promise{Lifetime: Lifetime{from, r.Boot}})
	}
	at := &g.promises[i]
	switch {
	case r.Boot < at.Boot || r.Boot == at.Boot && r.Seq <= at.seq:
		return Promise{}, false
	case r.Boot > at.Boot: // the earlier life reads no more
		*at = promise{Lifetime: Lifetime{from, r.Boot}}
	}
	if at.until <= now || at.revived { // reports may have left it out
		at.stamp = Stamp{Term: log.Term, Index: log.Last}
	}
	at.until = max(at.until, now.Add(bound(g.cfg.TTL)))
	at.made, at.revived, at.seq = now, false, r.Seq
	return Promise{Boot: r.Boot, Seq: r.Seq, TTL: g.cfg.TTL, Stamp: at.stamp}, true
}

// Returned ends promises that their holder has given up. It may arrive after a request that
// was sent later; a promise that answers that request stays.
func (g *Grantor) Returned(from machine.NodeID, r Return) {
	i, known := g.find(from)
	if !known || g.promises[i].Boot != r.Boot {
		return
	}
	if p := &g.promises[i]; p.seq <= r.Seq {
		p.seq, p.until = r.Seq, 0
	}
}

// Shortened reports that the log was cut and now ends at last. The entries cut off were
// never committed, so no holder needs them. Otherwise a promise with a stamp beyond last
// would not count until the log got there again.
func (g *Grantor) Shortened(last uint64) {
	for i := range g.promises {
		s := &g.promises[i].stamp
		s.Index = min(s.Index, last)
	}
}

// Holders returns the lives that the grantor is bound to now; everyone reports that there
// may be others. Together with the entries that are in the log already they make a Report
// (R3).
func (g *Grantor) Holders(now machine.Mono) (holders []Lifetime, everyone bool) {
	for _, p := range g.promises {
		if p.until > now {
			holders = append(holders, p.Lifetime)
		}
	}
	return holders, now < g.forgot
}

// Due returns when the next promise runs out, Never if there is none.
func (g *Grantor) Due(now machine.Mono) machine.Mono {
	due := machine.Never
	if g.forgot > now {
		due = g.forgot
	}
	for _, p := range g.promises {
		if p.until > now {
			due = min(due, p.until)
		}
	}
	return due
}
