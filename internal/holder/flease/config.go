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

// Config describes one peer. Self and Membership are required. All peers of a cluster
// must have the same Cluster, TMax, Epsilon, Replicas and members; they compare when they
// meet, and refuse each other with what to change.
type Config struct {
	// Cluster is the cluster's name, so that peers of two clusters do not mix. It may be
	// empty.
	Cluster string
	// Self is this peer's address as the others know it, one of the members'.
	Self string
	// Membership says who the members are; Fixed, FromFile or your own.
	Membership Membership

	// TMax is t_max: how long a lease may last at most, with its lock delay. A peer that
	// was restarted is silent for as long, and 3ε. Default DefaultTMax.
	TMax time.Duration
	// Epsilon is ε: by how much the clocks of two peers differ at most. Who does not know
	// should not be optimistic: exclusion rests on it. It is also what a successor waits in addition
	// to a dead holder's lease. Default DefaultEpsilon.
	Epsilon time.Duration
	// RoundTimeout is how long a round trip to a majority takes at most, in ordinary
	// times; no lease is shorter than four of them. Default: TMax/40, between 5 ms and
	// 500 ms.
	RoundTimeout time.Duration
	// Guard is how much earlier than its lease a holder stops, for drift and for the time
	// between a look at the clock and the act. Default: a twentieth of each lease.
	Guard time.Duration
	// Replicas is how many peers coordinate each resource: its cell. Default three, or
	// all if there are fewer.
	Replicas int

	// MaxClaims is how many claims there may be at this peer, held ones included.
	// Default 4,194,304. More are refused with an error that wraps ErrBusy.
	MaxClaims int

	// TLS encrypts and authenticates between peers, see package peer. Nil means plain
	// TCP.
	TLS *tls.Config
	// Listen is the address to listen at if it is another than Self, such as
	// 0.0.0.0:7000.
	Listen string
	// Listener is used instead of listening at Listen or Self. The peer owns it.
	Listener net.Listener

	// State is a directory in which Close leaves what the next life needs to begin without
	// quarantine. Only one peer may use it. Empty: every start costs the quarantine.
	State string
	// CheckClock has the kernel asked for how wrong its clock may be, and the peer fall
	// silent while that is more than ε/2: then ε may not hold. It needs a kernel clock that
	// NTP or PTP disciplines; one that does not know how wrong it is passes for wrong.
	CheckClock bool

	// Clock counts suspend. Deadlines go by it, and clients on this machine have to read the
	// same one. Default clock.System.
	Clock clock.Clock
	// Wall reads the synchronized clock, machine.Wall. Default time.Now.
	Wall func() time.Time
	// Dial connects to the other peers. Default TCP.
	Dial peer.DialFunc
	// FS holds State. Default wal.OS.
	FS wal.FS
	// Rand is where this life's incarnation comes from: 32 bits that no earlier life of the
	// peer has drawn. Default crypto/rand.Reader.
	Rand io.Reader
	// Logger is told about peers and clocks. Default slog.Default.
	Logger *slog.Logger

	// fresh says that no peer of the cluster has ever run, so that there is nothing to be
	// silent for. Only tests can know that.
	fresh bool
	// kernel says why the kernel does not vouch for the clock within a limit. Tests have one of
	// their own.
	kernel func(limit time.Duration) error
	// sessions is sessionsMax, but for tests that fill all places.
	sessions int
	// tap stands between the peer and the others, in tests that cut it off: it calls
	// forward, now or later or not at all.
	tap func(sending bool, forward func())
}

// ErrConfig is a configuration that no peer can work with; the error says what to
// change.
var ErrConfig = errors.New("flease: bad configuration")

// ErrBusy says that there are too many claims, or that renewals are late so that no new
// ones are taken. Errors that wrap it wrap tenure.ErrUnavailable, too.
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

// glance is for those who compare each clock with a deadline of its own.
func (c Config) glance() machine.Now {
	return machine.Now{Mono: c.Clock.Now(), Wall: machine.Wall(c.Wall().UnixNano())}
}

// clocks reads both clocks at one moment: had the thread to wait in between, it would look
// as if one of them had jumped.
func (c Config) clocks() machine.Now {
	for {
		now := c.glance()
		if c.Clock.Now().Sub(now.Mono) < 200*time.Microsecond {
			return now
		}
	}
}
