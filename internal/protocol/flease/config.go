package flease

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Config describes one peer. Self, Incarnation, View, TMax and Epsilon are required. All
// peers of a cluster must have the same TMax, Epsilon and View; the transports between them
// check that when they connect.
type Config struct {
	// Self is this peer's index among the members, 1 to MaxMember. No two peers may
	// share one: they would draw the same ballots.
	Self machine.NodeID
	// Incarnation tells this life of the peer from earlier ones. It is not 0 and never
	// used again by this peer: the time of its start in seconds, say.
	Incarnation uint32
	// View names the members. It must be an active view, since the peer uses it at once.
	// One that was only decided comes by ChangeView, on top of the one before: the leases
	// of the old cells have to run out first.
	View View

	// TMax is t_max: how long a lease lasts at most, lock delay included, counted from
	// before it was asked for. A restarted peer is silent for as long, and 3ε.
	TMax time.Duration
	// Epsilon is ε: by how much the synchronized clocks of any two peers differ at
	// most. It is rounded up to milliseconds. If it does not hold, leases may overlap;
	// tokens still grow, as long as no acceptor forgets (see package doc).
	Epsilon time.Duration
	// RoundTimeout is how long a round trip to a majority takes at most, in ordinary
	// times. An attempt has two of them. Default: TMax/40, between 5 ms and 500 ms.
	RoundTimeout time.Duration
	// Guard is how much earlier than its lease a holder stops by its monotonic clock: for
	// drift between its two clocks and the time between a look and the act. Default: a
	// twentieth of each lease.
	Guard time.Duration

	// Trace, if set, is told of every operation on a register. It must do nothing else than
	// remember it.
	Trace func(Event)

	// Seed makes peers draw different random waits. Nothing else depends on it.
	Seed uint64

	// MaxClaims is how many claims there may be, held ones included. Default, and at
	// most, 4,194,304.
	MaxClaims int
	// MaxAttempts is how many attempts to acquire and to observe may be under way, how many
	// to renew besides, and how many looks of claims that wait; more wait for their turn.
	// Releases are not counted. Default 4096.
	MaxAttempts int
	// MaxQueued is how many claims and observations may wait for their turn before more are
	// refused. Default 65,536.
	MaxQueued int

	// Durable is the register of section 3.5 on stable storage: every promise is
	// persisted before it is answered, and a restart with Restore needs no
	// quarantine. Without it nothing is ever persisted.
	Durable bool
	// Restore is what an earlier life has left: all records of a Durable peer, in order,
	// or the one of a planned shutdown (see Shutdown), which must not be used twice. Nil for
	// none: then the peer is in quarantine, also at its first start, because nobody
	// can tell a first start.
	Restore []*Record
}

// ErrConfig is a configuration that no peer can work with.
var ErrConfig = errors.New("flease: bad configuration")

// Complete fills defaults in, or says what to change.
func (c Config) Complete() (Config, error) {
	given := c
	if c.RoundTimeout == 0 {
		c.RoundTimeout = min(max(c.TMax/40, 5*time.Millisecond), 500*time.Millisecond)
	}
	c.Epsilon = millis(c.Epsilon).duration()
	c.RoundTimeout = millis(c.RoundTimeout).duration()
	if c.MaxClaims == 0 {
		c.MaxClaims = 1 << attemptBits
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 4096
	}
	if c.MaxQueued == 0 {
		c.MaxQueued = 1 << 16
	}
	if err := c.View.Check(); err != nil {
		return c, err
	}
	switch {
	case c.Self < 1 || c.Self > MaxMember:
		return c, fmt.Errorf("%w: member index %d; give each peer one of 1 to %d", ErrConfig, c.Self, MaxMember)
	case c.Incarnation == 0:
		return c, fmt.Errorf("%w: incarnation 0; give each life of a peer a number of its own", ErrConfig)
	case given.Epsilon <= 0: // rounded up, some would be 0
		return c, fmt.Errorf("%w: ε = %v; say by how much clocks may differ, at least 1ms", ErrConfig, given.Epsilon)
	case c.TMax%time.Millisecond != 0:
		return c, fmt.Errorf("%w: t_max = %v is not in whole milliseconds; round it", ErrConfig, c.TMax)
	case c.TMax > 1000*time.Hour:
		return c, fmt.Errorf("%w: t_max = %v; at most 1000h", ErrConfig, c.TMax)
	case given.RoundTimeout < 0:
		return c, fmt.Errorf("%w: a round timeout of %v is negative; leave it out for %v", ErrConfig, given.RoundTimeout, min(max(c.TMax/40, 5*time.Millisecond), 500*time.Millisecond))
	case c.TMax <= c.minTMax():
		return c, fmt.Errorf("%w: t_max = %v is too short for ε = %v and a round timeout of %v: make it more than %v, or keep the clocks closer together",
			ErrConfig, c.TMax, c.Epsilon, c.RoundTimeout, c.minTMax())
	case c.Guard < 0 || c.Guard > c.TMax/4:
		return c, fmt.Errorf("%w: a guard of %v; want 0 for the default, at most a quarter of t_max = %v", ErrConfig, c.Guard, c.TMax)
	case c.MaxClaims < 1 || c.MaxClaims > 1<<attemptBits || c.MaxAttempts < 1 || c.MaxQueued < 1:
		return c, fmt.Errorf("%w: limits of %d claims, %d attempts, %d queued; each must be at least 1, and claims at most %d", ErrConfig, c.MaxClaims, c.MaxAttempts, c.MaxQueued, 1<<attemptBits)
	}
	return c, nil
}

// minTMax returns the bound that t_max must exceed: a lease has to live through two tries
// at renewing it, of two rounds each, and ε on both sides.
func (c Config) minTMax() time.Duration { return 4*c.Epsilon + 4*c.RoundTimeout }

// Advice returns a warning about an allowed but unwise setting; empty if there is none.
func (c Config) Advice() string {
	if c.TMax < 10*c.Epsilon {
		return fmt.Sprintf("t_max = %v is less than ten times ε = %v: much of each lease is lost to waiting for clocks", c.TMax, c.Epsilon)
	}
	return ""
}

// MinTTL is the shortest TTL of a claim: its half must hold an attempt.
func (c Config) MinTTL() time.Duration { return 4 * c.RoundTimeout }

// Quarantine returns W: for how long a peer that has forgotten its promises is silent (E3).
// A lease that it has forgotten is over at all clocks then, and a ballot that it has
// forgotten is too old to be accepted (see package doc).
func (c Config) Quarantine() time.Duration { return c.TMax + 3*c.Epsilon }

// attemptTimeout is how long an attempt may take: two rounds.
func (c Config) attemptTimeout() time.Duration { return 2 * c.RoundTimeout }

// poll is how often a claim that waits looks, about.
func (c Config) poll() time.Duration { return max(c.RoundTimeout, c.TMax/32) }

// guard is how much earlier than ttl its holder stops.
func (c Config) guard(ttl time.Duration) time.Duration {
	if c.Guard > 0 {
		return min(c.Guard, ttl/4)
	}
	return ttl / 20
}
