package replica

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// demand is whether this member has use for a lease, and may trust it.
type demand struct {
	wanted  machine.Mono // somebody reads, until then
	doubted machine.Mono // this member's clock is not to be trusted, until then
}

// readFor notes that somebody reads here, so that a lease is wanted for so long.
func (d *demand) readFor(now machine.Mono, idle time.Duration) {
	if d.wanted != machine.Never {
		d.wanted = now.Add(idle)
	}
}

// doubt has this member rely on no promise: one may be over that it believes in.
func (d *demand) doubt(now, until machine.Mono) {
	d.doubted = max(d.doubted, until, now+1)
}

// live reports whether a lease is wanted, and may be trusted.
func (d *demand) live(now machine.Mono) bool { return now < d.wanted && now >= d.doubted }
