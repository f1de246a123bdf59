package server

import (
	"context"
	"time"
)

// room raises the alarm when this member holds more than it may, however that came about: its own
// requests are refused before, but those of other members are in the log.
type room struct {
	size  func() int64              // bytes of the state
	quota int64                     // bytes that it may have; 0: no bound
	raise func(ctx context.Context) // raises the alarm, if it does not stand
}

// quotaTenths is the part of the memory that the state may have. The rest is for the log, for answers and
// events that clients have not read, and for garbage. It is less than shortTenths, so that the alarm
// comes before reads are refused.
const quotaTenths = 6

// roomPatience bounds an attempt to raise the alarm. The next one follows.
const roomPatience = 5 * time.Second

// quotaOf returns how many bytes the state may have: as the operator says, but never more than the memory
// has room for. 0 means that there is no bound, for neither is known.
func quotaOf(configured, limit int64) int64 {
	fits := limit / 10 * quotaTenths
	if configured <= 0 || fits > 0 && configured > fits {
		return fits
	}
	return configured
}

// run looks as often as the memory is looked at.
func (r *room) run(ctx context.Context, m *memory) {
	tick := time.NewTicker(memoryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !r.full(m) {
				continue
			}
			attempt, cancel := context.WithTimeout(ctx, roomPatience)
			r.raise(attempt)
			cancel()
		case <-ctx.Done():
			return
		}
	}
}

// full reports whether the state has more than its quota, or most of the memory that is short. If clients
// that do not read have it, the shortage ends with them, and is no reason for an alarm that an
// operator has to disarm.
func (r *room) full(m *memory) bool {
	size := r.size()
	return r.quota > 0 && size > r.quota || m.short.Load() && size > m.live.Load()/2
}
