package flease

import (
	"sync/atomic"
	"time"
)

// Punctuality says when leases were renewed: element i counts those that were confirmed
// when i of PunctualityParts parts of their TTL had passed, since the renewal before was
// asked for. A half is on time. It counts from the start of the peer, so that two of
// them tell what was between.
type Punctuality [PunctualityParts]uint64

// PunctualityParts is in how many parts a TTL is divided.
const PunctualityParts = 512

// Total is how many renewals there were.
func (h *Punctuality) Total() (n uint64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Since takes away what was counted before.
func (h Punctuality) Since(before Punctuality) Punctuality {
	for i := range h {
		h[i] -= before[i]
	}
	return h
}

// Quantile returns the part of the TTL within which a share of the leases was renewed, from
// 0 for none to 1; 0 if there were no renewals.
func (h *Punctuality) Quantile(share float64) float64 {
	total, sum := float64(h.Total()), 0.0
	for i, n := range h {
		if sum += float64(n); n > 0 && sum >= share*total {
			return float64(i+1) / PunctualityParts
		}
	}
	return 0
}

// punctuality counts renewals. The goroutine that steps the machine writes it, anyone may
// read.
type punctuality struct {
	parts [PunctualityParts]atomic.Uint64
	count atomic.Uint64
	// what there was one and two times recentRenewals ago
	older, old atomic.Pointer[Punctuality]
}

// recentRenewals is of how many renewals a Status tells at least, if there were as many.
const recentRenewals = 1 << 20

// note counts a renewal that was confirmed when passed of the ttl had passed since the
// one before was asked for.
func (h *punctuality) note(ttl, passed time.Duration) {
	i := min(max(int64(passed)*PunctualityParts/max(int64(ttl), 1), 0), PunctualityParts-1)
	h.parts[i].Add(1)
	if h.count.Add(1)%recentRenewals == 0 {
		all := h.all()
		h.older.Store(h.old.Load())
		h.old.Store(&all)
	}
}

func (h *punctuality) all() (p Punctuality) {
	for i := range p {
		p[i] = h.parts[i].Load()
	}
	return p
}

// recent leaves out what was long ago.
func (h *punctuality) recent() Punctuality {
	all := h.all()
	if before := h.older.Load(); before != nil {
		return all.Since(*before)
	}
	return all
}

// Punctuality tells when leases were renewed through the peer.
func (p *Peer) Punctuality() Punctuality { return p.renewals.all() }

// guard is by how much a holder stops before its lease ends, see Config.Guard.
func guard(configured, ttl time.Duration) time.Duration {
	if configured > 0 {
		return min(configured, ttl/4)
	}
	return ttl / 20
}
