package flease

import (
	"sync/atomic"
	"time"
)

// Punctuality counts renewals by the time that they took. Element i counts the renewals that were
// confirmed when i of punctualityParts parts of the TTL had passed since the one before was asked
// for. A half is on time. It counts from the start of the peer; see Since.
type Punctuality [punctualityParts]uint64

// punctualityParts is the number of parts that a TTL is divided into.
const punctualityParts = 512

// Total returns the number of renewals.
func (h *Punctuality) Total() (n uint64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Since returns the renewals after those of an earlier Punctuality.
func (h Punctuality) Since(before Punctuality) Punctuality {
	for i := range h {
		h[i] -= before[i]
	}
	return h
}

// Quantile returns the part of the TTL, from 0 to 1, within which a share of the renewals was
// confirmed; 0 if there were no renewals.
func (h *Punctuality) Quantile(share float64) float64 {
	total, sum := float64(h.Total()), 0.0
	for i, n := range h {
		if sum += float64(n); n > 0 && sum >= share*total {
			return float64(i+1) / punctualityParts
		}
	}
	return 0
}

// punctuality counts renewals. The goroutine that steps the machine writes it, and any goroutine
// may read it.
type punctuality struct {
	parts [punctualityParts]atomic.Uint64
	count atomic.Uint64
	// the counts of one and two times recentRenewals ago
	older, old atomic.Pointer[Punctuality]
}

// recentRenewals is the least number of renewals that a Status covers, if there were as many.
const recentRenewals = 1 << 20

// note counts a renewal that was confirmed when a part of the ttl had passed since the one before
// was asked for.
func (h *punctuality) note(ttl, passed time.Duration) {
	i := min(max(int64(passed)*punctualityParts/max(int64(ttl), 1), 0), punctualityParts-1)
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

// recent returns the counts of the last one or two times recentRenewals.
func (h *punctuality) recent() Punctuality {
	all := h.all()
	if before := h.older.Load(); before != nil {
		return all.Since(*before)
	}
	return all
}

// Punctuality returns the counts of all renewals through the peer.
func (p *Peer) Punctuality() Punctuality { return p.renewals.all() }
