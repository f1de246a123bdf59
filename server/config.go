package server

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/metrics"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/server"
	"github.com/tenure-lease/tenure/internal/member/tracing"
)

// Config describes a member. A zero field means its default, which is etcd's where etcd has
// one.
type Config struct {
	// Name is this member's, one of those in InitialCluster. Required.
	Name string
	// DataDir keeps this member's log and snapshots, and is no other member's. Required.
	DataDir string
	// InitialCluster are the members at the first start: name to peer URL, this member
	// included. It has to be the same at all of them. Required.
	InitialCluster map[string]string
	// ClusterToken tells clusters with equal URLs apart. It has to be the same at all members.
	ClusterToken string
	// Existing states that the cluster runs already and that this member was added to it. A member
	// without data then asks the others in InitialCluster for its own ID.
	Existing bool

	// PeerListener takes the other members' connections. A cluster of one needs none. The
	// Server closes it, also when Start fails.
	PeerListener net.Listener
	// PeerTLS authenticates and encrypts between members: its Certificates at both ends, RootCAs
	// to check the members that are dialed, ClientCAs and ClientAuth to check those that dial.
	// Nil means plain TCP. The peer URLs are https with it, and http without.
	PeerTLS *tls.Config
	// ClientListeners take clients' connections, at least one. The Server closes them, also
	// when Start fails.
	ClientListeners []net.Listener
	// ClientTLS is for the ClientListeners. Nil means plain TCP.
	ClientTLS *tls.Config
	// Metrics is a registry of the program, which gets the member's figures until the member ends.
	// /metrics shows them in any case. Two members of a process need labels of their own
	// (prometheus.WrapRegistererWith). Default none.
	Metrics prometheus.Registerer
	// ExtensiveMetrics adds the time that calls take, by method.
	ExtensiveMetrics bool
	// Traces makes spans of calls and of their parts, if it is set: those of a provider of OpenTelemetry that the program
	// has, and ends. Default none.
	Traces trace.TracerProvider
	// DisableGateway leaves out the API in JSON.
	DisableGateway bool
	// AdvertiseClientURLs are the addresses that clients get when they ask for the members.
	AdvertiseClientURLs []string

	// HeartbeatInterval is the time between two heartbeats of the leader. Default 100 ms.
	// It has to be the same at all members.
	HeartbeatInterval time.Duration
	// ElectionTimeout is how long members wait for a heartbeat until they elect another leader:
	// at least five HeartbeatIntervals, 50 s at most. Default 1 s. It has to be the same at all
	// members.
	ElectionTimeout time.Duration

	// MaxRequestBytes bounds a request that is to be replicated. Default 1.5 MiB.
	MaxRequestBytes int
	// QuotaBytes bounds the state, history included. Beyond it the member raises etcd's alarm NOSPACE:
	// all members refuse what would make the state larger until the alarm is disarmed. Default, and
	// at most, six tenths of MemoryLimit.
	QuotaBytes int64
	// MemoryLimit is how many bytes this process may use. Near it writes and large reads are
	// refused with etcd's errors. Default GOMEMLIMIT, if that is set.
	MemoryLimit int64
	// KeepHistory and KeepRevisions make the leader compact automatically. It keeps this much time
	// of history, or this many revisions; if both are set, KeepRevisions counts. If neither is, it
	// keeps all history until a client compacts.
	KeepHistory   time.Duration
	KeepRevisions int64

	// Limits bound what clients may have and use. The zero value means the defaults.
	Limits Limits

	// ReadLease is the policy of read leases that a new cluster begins with: see the package
	// comment. Default leader.
	ReadLease string
	// ReadLeaseTTL is how long this member's promises to readers last, and so how long writes
	// may wait for a reader that died: from 20 ms to 10 s. Default 200 ms.
	ReadLeaseTTL time.Duration
	// ReadLeaseChanges limits the changes of read leases that clients may make at this member:
	// "policy" permits all but the change from strict to key order, "order" permits that, too, and
	// "none" permits nothing. Default policy.
	ReadLeaseChanges string

	// AuthToken is the kind of tokens that users get, as etcd's --auth-token has it: simple, or
	// jwt,sign-method=METHOD,priv-key=FILE,pub-key=FILE,ttl=DURATION. It has to be the same at all
	// members. Default simple.
	AuthToken string
	// AuthTokenTTL is how long a simple token lasts that is not used, from a second on. Default 300 s.
	AuthTokenTTL time.Duration
	// BcryptCost is that of new hashes of passwords, from 4 to 31. Default 10.
	BcryptCost int
	// CertificateUsers lets the common name of a client's certificate, which ClientTLS has verified,
	// be its user, as etcd's --client-cert-auth does.
	CertificateUsers bool

	// OnFail is called once, on a goroutine of its own, if the member cannot go on. Then a write
	// to disk failed, the log holds entries that this version does not know, the other members
	// refuse this one, or its data directory has lost earlier promises. The process should end, or
	// call Close. Nil means panic.
	OnFail func(error)
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// member is the same for the member behind the Server.
func (c Config) member() (server.Config, error) {
	changes, err := etcdapi.ParseReadLeaseChanges(cmp.Or(c.ReadLeaseChanges, "policy"))
	if err != nil {
		return server.Config{}, fmt.Errorf("server: ReadLeaseChanges %w", err)
	}
	if err := c.Limits.check(c); err != nil {
		return server.Config{}, err
	}
	if c.KeepHistory < 0 || c.KeepRevisions < 0 {
		return server.Config{}, fmt.Errorf("server: KeepHistory %v, KeepRevisions %d: a negative one would compact all history; leave both 0 to keep it", c.KeepHistory, c.KeepRevisions)
	}
	m := server.Config{
		Node: node.Config{
			Name: c.Name, DataDir: c.DataDir, Peers: c.InitialCluster, ClusterToken: c.ClusterToken, Existing: c.Existing,
			PeerListener: c.PeerListener, PeerTLS: c.PeerTLS, ClientURLs: c.AdvertiseClientURLs,
			HeartbeatInterval: c.HeartbeatInterval, ElectionTimeout: c.ElectionTimeout,
			ReadLease: c.ReadLease, ReadLeaseTTL: c.ReadLeaseTTL,
			Fail: c.OnFail, Logger: c.Logger,
		},
		API: etcdapi.Config{
			MaxRequestBytes: c.MaxRequestBytes, QuotaBytes: c.QuotaBytes, ReadLeaseChanges: changes,
			ElectionTimeout: c.ElectionTimeout, Logger: c.Logger, CertificateUsers: c.CertificateUsers,
		},
		Logins:  login.Config{Tokens: c.AuthToken, TTL: c.AuthTokenTTL, Cost: c.BcryptCost},
		Clients: c.ClientListeners, ClientTLS: c.ClientTLS, MemoryLimit: c.MemoryLimit,
		History: server.Retention{Period: c.KeepHistory, Revisions: c.KeepRevisions},
	}
	m.Figures = metrics.Config{Extensive: c.ExtensiveMetrics, Register: c.Metrics}
	m.Tracing = tracing.Config{Provider: c.Traces}
	m.HTTP = server.HTTP{NoGateway: c.DisableGateway}
	c.Limits.setIn(&m)
	return m, nil
}
