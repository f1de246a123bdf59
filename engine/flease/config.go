package flease

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/holder/flease"
)

// Config describes one peer. Self and the members are required. All peers of a cluster must have
// the same Cluster, TMax, Epsilon, Replicas and members. Peers compare these when they meet, and
// refuse each other with an error that names the difference.
type Config struct {
	// Cluster is the cluster's name, so that peers of two clusters do not mix. It may be empty.
	Cluster string
	// Self is this peer's address as the others know it, one of the members'.
	Self string
	// Members are the addresses at which the peers listen for each other, host:port, for good. Peers
	// get their indices from the order of their addresses, so that lists in any order agree; or each
	// is given as INDEX=host:port. The index is part of every ballot and token.
	Members []string
	// MembersFile is the path of a list of members that may change, instead of Members. The peer
	// looks at it every second. Its lines are
	//
	//	epoch 2              # raise it by one with every change
	//	1 a.example:7000     # the index of a peer, and its address
	//	3 c.example:7000
	//	was 1 a.example:7000 # those of the epoch before, until the change is complete
	//	was 2 b.example:7000
	//
	// A newcomer that starts without lines with "was" takes the epoch for an old one. It asks the
	// others, and does not start if one of them disagrees. A peer does not start either if its lines
	// with "was" are of an epoch that is not active yet, or differ from the members of that epoch.
	//
	// Remove the lines with "was" when every peer has logged that the view is active;
	// `tenure peer status` shows it, too. Only then may the next change come, with the next epoch. A
	// peer whose file skips an epoch stays as it is and logs that.
	//
	// Write a new file beside the old one and rename it, so that no peer reads half a list. Destroy
	// old lists: peers that start with one, and reach no peer with the new one, give out leases a
	// second time.
	MembersFile string

	// TMax is t_max: the longest time that a lease may last, its lock delay included. A peer that
	// was restarted is silent for TMax and 3ε. Default 30 s.
	TMax time.Duration
	// Epsilon is ε: the largest difference between the clocks of two peers. Exclusion rests on it,
	// so choose it too large rather than too small. A successor waits for ε in addition to the
	// lease of a holder that died. Default 250 ms.
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
}

// peer is the same for the peer behind the Leaser.
func (c Config) peer() (flease.Config, error) {
	cfg := flease.Config{
		Cluster: c.Cluster, Self: c.Self,
		TMax: c.TMax, Epsilon: c.Epsilon, RoundTimeout: c.RoundTimeout, Guard: c.Guard, Replicas: c.Replicas,
		MaxClaims: c.MaxClaims, TLS: c.TLS, Listen: c.Listen, Listener: c.Listener,
		State: c.State, CheckClock: c.CheckClock, Logger: c.Logger,
	}
	switch {
	case len(c.Members) > 0 && c.MembersFile != "":
		return cfg, fmt.Errorf("%w: there are Members and a MembersFile: give one of them", ErrConfig)
	case c.MembersFile != "":
		cfg.Membership = flease.FromFile(c.MembersFile)
	case len(c.Members) > 0:
		m, err := flease.ParseMembers(strings.Join(c.Members, ","))
		if err != nil && !errors.Is(err, ErrConfig) {
			err = fmt.Errorf("%w: %w", ErrConfig, err)
		}
		if err != nil {
			return cfg, err
		}
		cfg.Membership = flease.Fixed(m)
	}
	return cfg, nil // without members, Open says so
}
