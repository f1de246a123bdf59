package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/tenure-lease/tenure/internal/host/peer/peertest"
)

// Config says what cluster to start.
type Config struct {
	Kind    Kind
	Members int      // 1 when zero
	Dir     string   // holds a data directory and a log per member; must exist
	Env     []string // added to the environment of each member: "GOGC=400"
	Args    []string // added to the command line of each member
	Links   bool     // has the members talk to each other through Links
	TLS     bool     // has URLs of members and for clients be https: Args name the certificates

	// ArgsOf, if set, adds to the command line of the i-th member when it is
	// started for the n-th time, from 0 on.
	ArgsOf func(i, n int) []string
	// EnvOf does so for the environment.
	EnvOf func(i, n int) []string

	// Binary overrides the program of a kind, for a mutant of it or an older version.
	Binary string
}

// Cluster is a running set of members.
type Cluster struct {
	Kind    Kind
	Members []*Member
	Links   *peertest.Links // nil without Config.Links; members by index

	ports net.Listener // keeps its ports from other clusters
}

// Start starts a new, empty cluster and waits until each member is ready.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	binary := cfg.Binary
	if binary == "" {
		var err error
		if binary, err = Binary(cfg.Kind); err != nil {
			return nil, err
		}
	}
	members := max(cfg.Members, 1)
	reserved, port, err := reservePorts(2 * members)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Kind: cfg.Kind, ports: reserved}
	scheme := "http://"
	if cfg.TLS {
		scheme = "https://"
	}
	var initial []string
	for i := range members {
		m := &Member{
			Name:     fmt.Sprintf("m%d", i),
			Endpoint: fmt.Sprintf("127.0.0.1:%d", port+2*i),
			PeerURL:  fmt.Sprintf("%s127.0.0.1:%d", scheme, port+2*i+1),
			Log:      filepath.Join(cfg.Dir, fmt.Sprintf("m%d.log", i)),
			DataDir:  filepath.Join(cfg.Dir, fmt.Sprintf("m%d.data", i)),
			kind:     cfg.Kind,
			binary:   binary,
			env:      cfg.Env,
		}
		m.listen = m.PeerURL
		if cfg.ArgsOf != nil {
			m.argsOf = func(n int) []string { return cfg.ArgsOf(i, n) }
		}
		if cfg.EnvOf != nil {
			m.envOf = func(n int) []string { return cfg.EnvOf(i, n) }
		}
		if cfg.Kind == Tenure {
			m.args = []string{"serve"}
		}
		c.Members = append(c.Members, m)
	}
	if cfg.Links {
		if err := c.link(); err != nil {
			c.Close()
			return nil, err
		}
	}
	for _, m := range c.Members {
		initial = append(initial, m.Name+"="+m.PeerURL)
	}
	token := fmt.Sprintf("compat-%d", os.Getpid())
	for _, m := range c.Members {
		m.args = append(m.args,
			"--name="+m.Name, "--data-dir="+m.DataDir,
			"--listen-client-urls="+scheme+m.Endpoint, "--advertise-client-urls="+scheme+m.Endpoint,
			"--listen-peer-urls="+m.listen, "--initial-advertise-peer-urls="+m.PeerURL,
			"--initial-cluster="+strings.Join(initial, ","), "--initial-cluster-state=new",
			"--initial-cluster-token="+token)
		m.args = append(m.args, cfg.Args...)
	}
	if err := c.startAll(ctx); err != nil {
		c.Close()
		return nil, err
	}
	if c.Links != nil {
		ids, err := c.ids(ctx)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.Links.Know(ids)
	}
	return c, nil
}

// link puts links between the members, which have not started.
func (c *Cluster) link() error {
	c.Links = peertest.New()
	if c.Kind == Tenure {
		for i, m := range c.Members {
			at, err := c.Links.Proxy(i, "127.0.0.1:0", m.peerAddress())
			if err != nil {
				return err
			}
			m.PeerURL = "http://" + at
		}
		return nil
	}
	// Etcd dials through a proxy if it has one, unless what it dials is this machine. So
	// members have addresses that are nowhere (RFC 5737), and a proxy each.
	var members []peertest.Target
	for i, m := range c.Members {
		address := fmt.Sprintf("192.0.2.%d:2380", i+1)
		members = append(members, peertest.Target{Address: address, Real: m.peerAddress()})
		m.PeerURL = "http://" + address
	}
	for i, m := range c.Members {
		at, err := c.Links.Socks(i, members)
		if err != nil {
			return err
		}
		m.env = append(slices.Clone(m.env), "HTTP_PROXY=socks5://"+at, "NO_PROXY=", "no_proxy=")
	}
	return nil
}

// ids asks the members for theirs.
func (c *Cluster) ids(ctx context.Context) (ids []uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, m := range c.Members {
		status, err := m.Status(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask %s for its id: %w", m.Name, err)
		}
		ids = append(ids, status.Header.MemberId)
	}
	return ids, nil
}

// startAll starts members at once: the first is not ready before a majority is.
func (c *Cluster) startAll(ctx context.Context) error {
	errs := make(chan error)
	for _, m := range c.Members {
		go func() { errs <- m.Start(ctx) }()
	}
	var all error
	for range c.Members {
		all = errors.Join(all, <-errs)
	}
	return all
}

// Restart starts all members again, over their data; they must have stopped.
func (c *Cluster) Restart(ctx context.Context) error { return c.startAll(ctx) }

// Stop kills every member. The data stays.
func (c *Cluster) Stop() {
	for _, m := range c.Members {
		m.Kill()
	}
}

// Close stops every member, and the links between them, for good.
func (c *Cluster) Close() {
	c.Stop()
	if c.Links != nil {
		c.Links.Stop()
	}
	c.ports.Close()
}

// Endpoints are the client addresses, as host:port, in the order of Members.
func (c *Cluster) Endpoints() []string {
	var endpoints []string
	for _, m := range c.Members {
		endpoints = append(endpoints, m.Endpoint)
	}
	return endpoints
}

// Client opens a client to the given members, or to all.
func (c *Cluster) Client(members ...int) (*clientv3.Client, error) {
	endpoints := c.Endpoints()
	if len(members) > 0 {
		endpoints = nil
		for _, i := range members {
			endpoints = append(endpoints, c.Members[i].Endpoint)
		}
	}
	return Client(endpoints...)
}

// Client opens a quiet client to endpoints.
func Client(endpoints ...string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: 5 * time.Second,
		Logger:      zap.NewNop(),
	})
}

// Leader asks the members until one answers that it leads, and returns its index. It fails if all
// have ended by themselves, so that none ever will.
func (c *Cluster) Leader(ctx context.Context) (int, error) {
	for {
		for i, m := range c.Members {
			if m.leads(ctx) {
				return i, nil
			}
		}
		if why := c.ended(); why != nil {
			return 0, fmt.Errorf("no member leads: %w", why)
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("no member leads: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ended is why all members have ended by themselves; nil if one has not. One that was ended is
// perhaps to be started again.
func (c *Cluster) ended() (why error) {
	for _, m := range c.Members {
		if !m.collapsed() {
			return nil
		}
		why = errors.Join(why, fmt.Errorf("%s has ended by itself\n%s", m.Name, m.tail()))
	}
	return why
}

// portBlock is how many ports a block has. The first is listened on for as long as the
// block is reserved.
const portBlock = 32

// reservePorts finds n TCP ports that nobody listens on, below the range from which
// systems draw the ports of outgoing connections, and returns the first. Until the
// listener is closed, no other cluster is given them, whichever process starts it: packages
// are tested at once, and members bind their ports only after they were chosen.
func reservePorts(n int) (reserved net.Listener, first int, err error) {
	if n >= portBlock {
		return nil, 0, fmt.Errorf("a cluster has %d ports at most, not %d", portBlock-1, n)
	}
	for range 1000 {
		block := 10000 + portBlock*rand.IntN(22000/portBlock)
		reserved, err := listen(block)
		if err != nil {
			continue
		}
		if free(block+1, n) {
			return reserved, block + 1, nil
		}
		reserved.Close()
	}
	return nil, 0, errors.New("no free TCP ports between 10000 and 32000")
}

// free reports whether nobody listens on the n ports from first on.
func free(first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := listen(port)
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
