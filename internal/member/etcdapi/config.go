package etcdapi

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Config holds the limits and intervals of a Server. A zero field means its
// default, which is etcd's where etcd has one.
type Config struct {
	// MaxRequestBytes bounds a request that is to be replicated, and sizes the
	// parts in which long ranges are streamed and watch responses fragmented.
	// Default 1.5 MiB. Messages may be larger by 512 KiB on the wire.
	MaxRequestBytes int
	// MaxTxnOps bounds each list of a transaction. Default 128.
	MaxTxnOps int
	// maxTxnKeys bounds the keys that a transaction looks at. Default 10,000,000.
	maxTxnKeys int
	// MaxConcurrentStreams bounds the calls in flight on one connection.
	// Default no bound.
	MaxConcurrentStreams uint32
	// ReadLeaseChanges is what clients may change of read leases. Default ChangePolicy.
	ReadLeaseChanges ReadLeaseChanges
	// QuotaBytes bounds the state, history included (kv.Stats.Bytes). A request that would make it larger
	// than that is refused with NoSpace, and the alarm is raised, as by etcd. Default no bound
	// but that of Short.
	QuotaBytes int64
	// Short, if set, reports whether the process is short of memory. While it is, whatever
	// makes the state larger is refused as if by the quota, and so are large answers, with
	// TooManyRequests. Each such request asks for it, so it must be cheap.
	Short func() bool
	// AnswerBytes bounds what is encoded of large answers that clients have not yet read, on
	// all connections together; an answer that is larger than all of that is sent alone. One
	// that does not fit waits for AnswerPatience and is then refused with TooManyRequests.
	// Defaults 256 MiB and 5 s.
	AnswerBytes    int64
	AnswerPatience time.Duration
	// BackupDir is where a snapshot is put together before it is sent, one at a time. It needs
	// as much room as the state. Default os.TempDir().
	BackupDir string
	// SnapshotPatience is for how long a client may read nothing of a snapshot that it gets. Default 1 min.
	SnapshotPatience time.Duration
	// WatchProgressInterval is the time without events after which a watch that
	// wants progress reports gets one; up to a tenth is added at random, so that
	// streams do not report all at once. Default 10 minutes, at least 100 ms.
	WatchProgressInterval time.Duration
	// ElectionTimeout is raft's. A stream whose client requires a leader is cut
	// when there was none for three of them. Default 1 s.
	ElectionTimeout time.Duration
	// Logins recognises users. Without it nobody can log in, and no token counts.
	Logins *login.Authority
	// CertificateUsers lets the common name of a client's verified certificate count as its user,
	// if it shows no token.
	CertificateUsers bool
	// KeepAliveMinTime is how often a client may ping, KeepAliveInterval and
	// KeepAliveTimeout how the server pings idle clients. Defaults 5 s, 2 h, 20 s.
	KeepAliveMinTime, KeepAliveInterval, KeepAliveTimeout time.Duration
	// WarnCall is how long a call with one answer may take until a line in the log tells of it, without
	// its keys and values. Default never.
	WarnCall time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// ReadLeaseChanges is what clients may change of read leases, at the member that they ask. To
// give up etcd's order of revisions affects all clients, even those that know nothing of it,
// so the operator has to permit it.
type ReadLeaseChanges uint8

const (
	ChangePolicy  ReadLeaseChanges = iota // the policy and its cells, but not from strict to key order
	ChangeOrder                           // all of it
	ChangeNothing                         // none of it
)

// ParseReadLeaseChanges reads one of policy, order and none.
func ParseReadLeaseChanges(s string) (ReadLeaseChanges, error) {
	switch s {
	case "policy":
		return ChangePolicy, nil
	case "order":
		return ChangeOrder, nil
	case "none":
		return ChangeNothing, nil
	}
	return 0, fmt.Errorf("%q: want policy, order or none", s)
}

// DefaultAnswerBytes is Config.AnswerBytes unless something else is said.
const DefaultAnswerBytes = 256 << 20

// noLeaderTimeouts is for how many election timeouts there may be no leader
// before streams are cut: to open a stream anew costs more than a refused call.
const noLeaderTimeouts = 3

// WireOverhead is what a message may be larger on the wire than MaxRequestBytes.
const WireOverhead = 512 << 10

const minProgressInterval = 100 * time.Millisecond

func (c Config) withDefaults() Config {
	set := func(field *time.Duration, value time.Duration) {
		if *field == 0 {
			*field = value
		}
	}
	if c.MaxRequestBytes == 0 {
		c.MaxRequestBytes = 3 << 19
	}
	if c.MaxTxnOps == 0 {
		c.MaxTxnOps = kv.DefaultMaxTxnOps
	}
	if c.maxTxnKeys == 0 {
		c.maxTxnKeys = defaultMaxTxnKeys
	}
	if c.Short == nil {
		c.Short = func() bool { return false }
	}
	if c.AnswerBytes == 0 {
		c.AnswerBytes = DefaultAnswerBytes
	}
	set(&c.AnswerPatience, 5*time.Second)
	set(&c.SnapshotPatience, time.Minute)
	set(&c.WatchProgressInterval, 10*time.Minute)
	c.WatchProgressInterval = max(c.WatchProgressInterval, minProgressInterval)
	set(&c.ElectionTimeout, time.Second)
	set(&c.KeepAliveMinTime, 5*time.Second)
	set(&c.KeepAliveInterval, 2*time.Hour)
	set(&c.KeepAliveTimeout, 20*time.Second)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c *Config) progressInterval() time.Duration {
	return c.WatchProgressInterval + rand.N(c.WatchProgressInterval/10)
}
