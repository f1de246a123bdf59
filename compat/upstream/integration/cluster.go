package integration

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// RequestWaitTimeout is how long tests wait for what should not take long.
const RequestWaitTimeout = 5 * time.Second

// ThroughProxy is whether a grpc proxy stands between: never here.
const ThroughProxy = false

// KindVariable is the environment variable that names the server's kind.
const KindVariable = "TENURE_UPSTREAM_KIND"

func kind() server.Kind {
	if k := os.Getenv(KindVariable); k != "" {
		return server.Kind(k)
	}
	return server.Etcd
}

// ClusterConfig has the fields that the tests set. Members always listen on TCP.
type ClusterConfig struct {
	Size                                               int
	UseBridge                                          bool // a Bridge between each client and its member
	UseTCP                                             bool
	ClientMaxCallSendMsgSize, ClientMaxCallRecvMsgSize int

	// Not passed on; the tests that need them are left out.
	EnableLeaseCheckpoint, LeaseCheckpointPersist bool
	LeaseCheckpointInterval                       time.Duration
}

// Cluster is a set of members with a client to each.
type Cluster struct {
	Members []*Member

	cluster *server.Cluster
	dir     string
	clients []*clientv3.Client
}

// BeforeTest prepares a test; nothing is needed for servers that are processes.
func BeforeTest(t testing.TB) { t.Helper() }

// NewCluster starts a cluster; t may be nil.
func NewCluster(t testing.TB, cfg *ClusterConfig) *Cluster {
	fail := func(err error) {
		if t == nil {
			panic(err)
		}
		t.Helper()
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "upstream")
	if err != nil {
		fail(err)
	}
	c := &Cluster{dir: dir}
	c.cluster, err = server.Start(context.Background(), server.Config{
		Kind: kind(), Members: cfg.Size, Dir: dir,
		Args: []string{"--heartbeat-interval=10", "--election-timeout=100"},
	})
	if err != nil {
		os.RemoveAll(dir)
		fail(err)
	}
	for _, m := range c.cluster.Members {
		member := &Member{process: m, GRPCURL: "http://" + m.Endpoint, Name: m.Name}
		if cfg.UseBridge {
			if member.bridge, err = newBridge(m.Endpoint); err != nil {
				fail(err)
			}
			member.GRPCURL = "http://" + member.bridge.Addr()
		}
		c.Members = append(c.Members, member)
		member.Client, err = clientv3.New(clientv3.Config{
			Endpoints:          []string{member.GRPCURL},
			DialTimeout:        5 * time.Second,
			MaxCallSendMsgSize: cfg.ClientMaxCallSendMsgSize,
			MaxCallRecvMsgSize: cfg.ClientMaxCallRecvMsgSize,
			Logger:             zap.NewNop(),
		})
		if err != nil {
			fail(err)
		}
		c.clients = append(c.clients, member.Client)
	}
	return c
}

// Client is the client to one member.
func (c *Cluster) Client(i int) *clientv3.Client { return c.clients[i] }

// RandClient is the client to some member.
func (c *Cluster) RandClient() *clientv3.Client { return c.clients[rand.IntN(len(c.clients))] }

// TakeClient leaves it to the caller to close a client.
func (c *Cluster) TakeClient(i int) { c.clients[i] = nil }

// Endpoints are the members' client addresses.
func (c *Cluster) Endpoints() (endpoints []string) {
	for _, m := range c.Members {
		endpoints = append(endpoints, m.GRPCURL)
	}
	return endpoints
}

// WaitLeader waits until a member leads and all that run know it, and returns
// its index.
func (c *Cluster) WaitLeader(t testing.TB) int { return c.WaitMembersForLeader(t, c.Members) }

// WaitMembersForLeader waits until the running ones of some members know of the
// same leader, and returns its index among them.
func (c *Cluster) WaitMembersForLeader(t testing.TB, members []*Member) int {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if i, ok := agreedLeader(members); ok {
			return i
		}
	}
	t.Fatal("no leader that all members know")
	return 0
}

func agreedLeader(members []*Member) (index int, ok bool) {
	leader, index := uint64(0), -1
	for i, m := range members {
		if !m.process.Running() {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		status, err := m.process.Status(ctx)
		cancel()
		if err != nil || status.Leader == 0 || leader != 0 && leader != status.Leader {
			return 0, false
		}
		leader = status.Leader
		if status.Header.MemberId == leader {
			index = i
		}
	}
	return index, index >= 0
}

// Terminate ends all; t may be nil.
func (c *Cluster) Terminate(t testing.TB) {
	for _, cli := range c.clients {
		if cli == nil {
			continue
		}
		if err := cli.Close(); err != nil && t != nil && err != context.Canceled {
			t.Error(err)
		}
	}
	c.cluster.Stop()
	for _, m := range c.Members {
		if m.bridge != nil {
			m.bridge.close()
		}
	}
	os.RemoveAll(c.dir)
}

// NewClient opens a client of the test's own configuration.
func NewClient(t testing.TB, cfg clientv3.Config) (*clientv3.Client, error) {
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return clientv3.New(cfg)
}

// WaitClientV3 waits until a client is answered.
func WaitClientV3(t testing.TB, kv clientv3.KV) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_, err := kv.Get(ctx, "/")
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatal("the client is not answered")
}

// MakeSingleNodeClients makes clients to the first member and notes them.
func MakeSingleNodeClients(t testing.TB, c *Cluster, clients *[]*clientv3.Client) func() *clientv3.Client {
	return makeClients(t, c, clients, func() int { return 0 })
}

// MakeMultiNodeClients makes clients to any member and notes them.
func MakeMultiNodeClients(t testing.TB, c *Cluster, clients *[]*clientv3.Client) func() *clientv3.Client {
	return makeClients(t, c, clients, func() int { return rand.IntN(len(c.Members)) })
}

func makeClients(t testing.TB, c *Cluster, clients *[]*clientv3.Client, choose func() int) func() *clientv3.Client {
	return func() *clientv3.Client {
		cli, err := NewClient(t, clientv3.Config{
			Endpoints: []string{c.Members[choose()].GRPCURL}, DialTimeout: 5 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		*clients = append(*clients, cli)
		return cli
	}
}

// CloseClients closes what a test made.
func CloseClients(t testing.TB, clients []*clientv3.Client) {
	for _, cli := range clients {
		if err := cli.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// NewClientV3 opens another client to a member, and connects it: tests call
// below the methods that would try again.
func NewClientV3(m *Member) (*clientv3.Client, error) {
	cli, err := clientv3.New(clientv3.Config{
		Endpoints: []string{m.GRPCURL}, DialTimeout: 5 * time.Second, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err = cli.Get(ctx, "/")
	return cli, err
}

// ClusterClient opens a client to all members.
func (c *Cluster) ClusterClient(t testing.TB) (*clientv3.Client, error) {
	return NewClient(t, clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: 5 * time.Second})
}
