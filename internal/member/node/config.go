package node

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// Config is what a Node is made from. Fields without a default must be set.
type Config struct {
	// Name is this member's, one of those in Peers.
	Name string
	// DataDir keeps this member's log and snapshots, and is no other member's.
	DataDir string
	// Peers are the members of the cluster: name to URL, this member included.
	// All members must be given the same. IDs are derived from it and from
	// ClusterToken.
	Peers        map[string]string
	ClusterToken string
	// Existing says that the cluster runs already, and that this member was added to
	// it. Without data it asks the others in Peers for its identity.
	Existing bool
	// ForceNewCluster makes this member the only one of another cluster, which begins with what the data
	// directory knows: see the package comment. A directory that has begun so once starts as usual.
	ForceNewCluster bool
	// ClientURLs are told to clients that ask for the members.
	ClientURLs []string

	// PeerListener takes the other members' connections. Not needed by a
	// cluster of one. The Node closes it, also when Start fails.
	PeerListener net.Listener
	// PeerTLS, if set, authenticates and encrypts between members.
	PeerTLS *tls.Config
	// Dial connects to other members; nil means by TCP.
	Dial peer.DialFunc

	// HeartbeatInterval and ElectionTimeout are raft's; the timeout must be at
	// least five intervals. Defaults 100 ms and 1 s. They must be the same on all
	// members.
	HeartbeatInterval, ElectionTimeout time.Duration
	// RequestTimeout bounds how long a request waits for its outcome. Default
	// 5 s and two election timeouts.
	RequestTimeout time.Duration
	// MaxPendingBytes bounds the requests that wait to be replicated, those
	// whose callers have gone included; beyond it new ones are refused. Default
	// 64 MiB.
	MaxPendingBytes int64
	// MaxLeases bounds the leases that exist. Default 5,000,000.
	MaxLeases int64
	// MaxLearners bounds the members that learn and do not vote. Default 1.
	MaxLearners int
	// MaxTailBytes bounds the log in memory; half of it makes a snapshot.
	// Default 128 MiB.
	MaxTailBytes int

	// ReadLease is the policy of read leases that a new cluster begins with; see
	// package quorumlease. Default leader.
	ReadLease string
	// ReadLeaseTTL is how long this member's promises to readers last, and so how
	// long writes may wait for a reader that died. Default 200 ms.
	ReadLeaseTTL time.Duration

	// CorruptCheck is how often the leader compares the members' data, and raises an alarm for
	// those that differ. 0 means never.
	CorruptCheck time.Duration
	// LooseReconfig permits changes of the membership that leave no majority of members that are
	// connected, when this member leads: see package replica.
	LooseReconfig bool

	// Older makes this member one of an older version, to test upgrades: see package replica.
	Older bool

	// Synced, if set, is told how long each forced write of the log took. The member's writes
	// wait for it.
	Synced func(took time.Duration)
	// Applied, if set, is told of each request that was applied to the state: etcd's name for the operation, empty if etcd has none,
	// whether it succeeded, and how long it took. All later requests wait for it.
	Applied func(operation string, success bool, took time.Duration)

	// Watch holds the limits of watches.
	Watch watch.Config
	// WAL holds the log's options.
	WAL wal.Options
	// Now reads the clocks; nil means the host's. For tests. Look reads those that it is
	// judged by; with a Now of one's own nil means none.
	Now  func() machine.Now
	Look func() clock.Evidence

	// Assigned is called for each token that a user is given, at all members, before anybody
	// is told of it. It must not block. Nil means that nobody wants to know.
	Assigned func(replica.Token)

	// UnsafeNoSync leaves out all syncs of the disk. A machine that crashes may take acknowledged writes and this
	// member's votes with it.
	UnsafeNoSync bool
	// WarnApply is how long an entry of the log may take to be applied until a line in the log tells of it,
	// one a second. Default never.
	WarnApply time.Duration

	// Abort, if closed, ends a Start that waits, by ErrAborted: with ForceNewCluster for read leases to run out, and with Existing for
	// another member that knows this one.
	Abort <-chan struct{}

	// Fail is called once, on a goroutine of its own, if the node cannot go on. Then a
	// write to disk failed, the log holds an entry that this version does not know, the
	// other members refuse this one, or its data directory has lost earlier promises. The
	// process should end, or call Stop. Nil means panic.
	Fail func(error)
	// Logger defaults to slog.Default().
	Logger *slog.Logger

	mono func() machine.Mono // of Now
}

// Check returns an error if a member cannot be started by c, whatever its directory and the others are.
func (c Config) Check() error { return c.setDefaults() }

func (c *Config) setDefaults() error {
	if c.HeartbeatInterval == 0 {
		c.HeartbeatInterval = 100 * time.Millisecond
	}
	if c.ElectionTimeout == 0 {
		c.ElectionTimeout = time.Second
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 5*time.Second + 2*c.ElectionTimeout
	}
	if c.MaxPendingBytes == 0 {
		c.MaxPendingBytes = 64 << 20
	}
	if c.MaxLeases == 0 {
		c.MaxLeases = 5_000_000
	}
	if c.ReadLease == "" {
		c.ReadLease = string(quorumlease.Leader)
	}
	if c.ReadLeaseTTL == 0 {
		c.ReadLeaseTTL = 200 * time.Millisecond
	}
	if c.WAL.FS == nil {
		c.WAL.FS = wal.OS{}
	}
	if c.UnsafeNoSync {
		c.WAL.FS = wal.Unsynced{FS: c.WAL.FS}
	}
	c.mono = clock.Now
	if c.Now == nil {
		c.Now = hostNow
		if c.Look == nil {
			c.Look = clock.Look
		}
	} else {
		c.mono = func() machine.Mono { return c.Now().Mono }
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Assigned == nil {
		c.Assigned = func(replica.Token) {}
	}
	if c.Fail == nil {
		c.Fail = func(err error) { panic(err) }
	}
	if _, err := quorumlease.ParsePolicy(c.ReadLease); err != nil {
		return fmt.Errorf("node: ReadLease: %w", err)
	}
	switch {
	case c.ReadLeaseTTL < quorumlease.MinTTL || c.ReadLeaseTTL > quorumlease.MaxTTL:
		return fmt.Errorf("node: a read lease of %v: it must be from %v to %v", c.ReadLeaseTTL, quorumlease.MinTTL, quorumlease.MaxTTL)
	case c.DataDir == "":
		return errors.New("node: DataDir is empty")
	case c.Peers[c.Name] == "":
		return fmt.Errorf("node: member %q is not among the initial cluster's %d members: --name and --initial-cluster must agree", c.Name, len(c.Peers))
	case c.ElectionTimeout < 5*c.HeartbeatInterval:
		return fmt.Errorf("node: an election timeout of %v is too short for heartbeats every %v: it should be at least 5 times, better 10 times as long", c.ElectionTimeout, c.HeartbeatInterval)
	case c.ElectionTimeout > 50*time.Second:
		return fmt.Errorf("node: an election timeout of %v is too long: 50 s at most", c.ElectionTimeout)
	case len(c.Peers) > 1 && c.PeerListener == nil:
		return errors.New("node: PeerListener is nil, but there are other members")
	}
	return nil
}

// minTTL is the shortest lease that is granted, in seconds: a shorter one could
// not survive an election.
func (c *Config) minTTL() int64 {
	return int64((c.ElectionTimeout*3/2 + time.Second - 1) / time.Second)
}
