package flease

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Defaults of a Config.
const (
	DefaultTMax    = 30 * time.Second
	DefaultEpsilon = 250 * time.Millisecond
)

// Config describes one peer. Self and Membership are required. All peers of a cluster must have
// the same Cluster, TMax, Epsilon, Replicas and members. Peers compare these when they meet, and
// refuse each other with an error that names the difference.
type Config struct {
	// Cluster is the cluster's name, so that peers of two clusters do not mix. It may be empty.
	Cluster string
	// Self is this peer's address as the others know it, one of the members'.
	Self string
	// Membership names the members: Fixed, FromFile or your own.
	Membership Membership

	// TMax is t_max: the longest time that a lease may last, its lock delay included. A peer that
	// was restarted is silent for TMax and 3ε. Default DefaultTMax.
	TMax time.Duration
	// Epsilon is ε: the largest difference between the clocks of two peers. Exclusion rests on it,
	// so choose it too large rather than too small. A successor waits for ε in addition to the
	// lease of a holder that died. Default DefaultEpsilon.
	Epsilon time.Duration
	// RoundTimeout is the longest time that a round trip to a majority takes while all is well.
	// No lease is shorter than four of them. Default: TMax/40, between 5 ms and 500 ms.
	RoundTimeout time.Duration
	// Guard is how much earlier than its lease a holder stops. It covers drift, and the time
	// between a look at the clock and the act. Default: a twentieth of each lease.
	Guard time.Duration
	// Replicas is the number of peers that coordinate each resource: its cell. Default three, or
	// all if there are fewer.
	Replicas int

	// MaxClaims is the largest number of claims at this peer, held ones included. More are refused
	// with an error that wraps ErrBusy. Default 4,194,304.
	MaxClaims int

	// TLS encrypts and authenticates between peers: its Certificates at both ends, RootCAs to check
	// the peers that are dialed, ClientCAs and ClientAuth to check those that dial. Nil means plain
	// TCP.
	TLS *tls.Config
	// Listen is the address to listen at if it differs from Self, such as 0.0.0.0:7000.
	Listen string
	// Listener is used instead of listening at Listen or Self. The peer closes it.
	Listener net.Listener

	// State is a directory in which Close leaves all that the next start needs to begin without
	// silence. Only one peer may use it. If it is empty, the peer is silent after every start.
	State string
	// CheckClock asks the kernel for the error bound of its clock. The peer is silent while that
	// bound is more than ε/2, because ε may not hold then. The clock has to be disciplined by NTP
	// or PTP: a kernel that does not know its error bound counts as wrong.
	CheckClock bool

	// Logger is told about peers and clocks. Default slog.Default.
	Logger *slog.Logger

	// Clock counts suspend. Deadlines are readings of it, and clients on this machine have to read
	// the same clock. Default clock.System.
	Clock clock.Clock
	// Wall reads the synchronized clock, machine.Wall. Default time.Now.
	Wall func() time.Time
	// Dial connects to the other peers. Default TCP.
	Dial peer.DialFunc
	// FS holds State. Default wal.OS.
	FS wal.FS
	// Rand gives the incarnation of this start: 32 bits that no earlier start of the peer has
	// drawn. Default crypto/rand.Reader.
	Rand io.Reader

	// fresh says that no peer of the cluster has ever run, so that no silence is needed. Only tests
	// can know that.
	fresh bool
	// kernel returns why the kernel does not vouch for the clock within a limit. Tests replace it.
	kernel func(limit time.Duration) error
	// sessions replaces sessionsMax in tests that fill all places.
	sessions int
	// tap stands between the peer and the others in tests that cut it off. It calls forward now,
	// later or never.
	tap func(sending bool, forward func())
}

// ErrConfig says that no peer can work with a Config, and what to change.
var ErrConfig = errors.New("flease: bad configuration")

// ErrBusy says that there are too many claims, or that no new ones are taken because renewals are
// late. Errors that wrap it wrap tenure.ErrUnavailable, too.
var ErrBusy = fmt.Errorf("%w: the peer has too much to do; try again later", tenure.ErrUnavailable)

func (c Config) complete() (Config, error) {
	switch {
	case c.Self == "":
		return c, fmt.Errorf("%w: Self is empty; give this peer's address as the members list has it", ErrConfig)
	case c.Membership == nil:
		return c, fmt.Errorf("%w: Membership is missing; Fixed is for a list that does not change", ErrConfig)
	}
	if c.TMax == 0 {
		c.TMax = DefaultTMax
	}
	if c.Epsilon == 0 {
		c.Epsilon = DefaultEpsilon
	}
	if c.Clock == nil {
		c.Clock = clock.System
	}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.FS == nil {
		c.FS = wal.OS{}
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.kernel == nil {
		c.kernel = kernelClock
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Listen == "" {
		c.Listen = c.Self
	}
	return c, nil
}

// glance reads both clocks, for comparisons of each with a deadline of its own.
func (c Config) glance() machine.Now {
	return machine.Now{Mono: c.Clock.Now(), Wall: machine.Wall(c.Wall().UnixNano())}
}

// clocks reads both clocks at one moment. If the thread had to wait between the two, one of them
// would seem to have jumped.
func (c Config) clocks() machine.Now {
	for {
		now := c.glance()
		if c.Clock.Now().Sub(now.Mono) < 200*time.Microsecond {
			return now
		}
	}
}

// guard is how much earlier than its lease a holder stops, see Config.Guard.
func guard(configured, ttl time.Duration) time.Duration {
	if configured > 0 {
		return min(configured, ttl/4)
	}
	return ttl / 20
}
