package flease

import (
	"sync/atomic"
	"time"
)

// punctuality is a histogram of when leases were renewed, in parts of their TTL. The
// goroutine that steps the machine writes it, anyone may read.
type punctuality struct {
	count atomic.Uint64
	parts [512]atomic.Uint32
}

// note counts a renewal that was confirmed when passed of the ttl had passed since the
// one before was asked for.
func (h *punctuality) note(ttl, passed time.Duration) {
	n := int64(len(h.parts))
	i := min(max(int64(passed)*n/max(int64(ttl), 1), 0), n-1)
	h.parts[i].Add(1)
	if h.count.Add(1)%(1<<20) == 0 { // what is long ago counts less and less
		for i := range h.parts {
			h.parts[i].Store(h.parts[i].Load() / 2)
		}
	}
}

// quantiles returns the parts of the TTL within which the given shares were renewed; 0 if
// there were none.
func (h *punctuality) quantiles(shares ...float64) (at [3]float64) {
	var total, sum uint64
	var parts [len(h.parts)]uint64
	for i := range parts {
		parts[i] = uint64(h.parts[i].Load())
		total += parts[i]
	}
	for i, n := range parts {
		sum += n
		for j, share := range shares {
			if n > 0 && at[j] == 0 && float64(sum) >= share*float64(total) {
				at[j] = float64(i+1) / float64(len(parts))
			}
		}
	}
	return at
}

// guard is by how much a holder stops before its lease ends, see Config.Guard.
func guard(configured, ttl time.Duration) time.Duration {
	if configured > 0 {
		return min(configured, ttl/4)
	}
	return ttl / 20
}
