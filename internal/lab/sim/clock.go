package sim

import "time"

// clock is a faulty clock: it shows some time and goes at a rate of its own.
type clock struct {
	since time.Duration // the true time since when it goes at this rate
	shown time.Duration // its reading then
	rate  float64       // how much faster than true time it goes: 1e-4 is 100 ppm
}

func (c *clock) read(now time.Duration) time.Duration {
	passed := now - c.since
	return c.shown + passed + time.Duration(c.rate*float64(passed))
}

// set lets the clock show what it shows, and step from here on.
func (c *clock) set(now, step time.Duration, rate float64) {
	*c = clock{since: now, shown: c.read(now) + step, rate: rate}
}

// epoch is what a right wall clock shows at the beginning of a world, since 1970.
const epoch = 20454 * 24 * time.Hour // 1 January 2026
