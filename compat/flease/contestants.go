package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/compat/server"
	engine "github.com/tenure-lease/tenure/engine/flease"
	"github.com/tenure-lease/tenure/machine"
)

const (
	members = 3
	ttl     = 30 * time.Second
)

// ownCPU is what this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peers are flease's, in this process as in any that embeds the engine.
type peers struct {
	all     []*engine.Peer
	leasers []*engine.Leaser
}

func startFlease(ctx context.Context, _ string) (contestant, error) {
	p := &peers{}
	m := engine.Members{Epoch: 1, Addrs: map[machine.NodeID]string{}}
	var listeners []net.Listener
	for i := range members {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		m.Addrs[machine.NodeID(i+1)] = l.Addr().String()
	}
	for _, l := range listeners {
		one, err := engine.Start(ctx, engine.Config{
			Self: l.Addr().String(), Listener: l, Membership: engine.Fixed(m), TMax: ttl, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			p.close()
			return nil, err
		}
		p.all, p.leasers = append(p.all, one), append(p.leasers, one.Leaser())
	}
	for _, one := range p.all { // t_max and 3ε of silence
		if err := one.Ready(ctx); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

func (p *peers) caller(i int) (turn, take func(context.Context, string) error, err error) {
	l := p.leasers[i%len(p.leasers)]
	turn = func(ctx context.Context, name string) error {
		lease, err := l.Acquire(ctx, tenure.Claim{Name: name, TTL: ttl})
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
	take = func(ctx context.Context, name string) error {
		_, err := l.Acquire(ctx, tenure.Claim{Name: name, TTL: ttl})
		return err
	}
	return turn, take, nil
}

func (p *peers) cpu() time.Duration { return 0 }

func (p *peers) close() {
	for _, one := range p.all {
		_ = one.Close()
	}
}

// etcd is a cluster of stock members.
type etcd struct {
	cluster *server.Cluster
	clients []*clientv3.Client
}

func startEtcd(ctx context.Context, dir string) (contestant, error) {
	c, err := server.Start(ctx, server.Config{Kind: server.Etcd, Members: members, Dir: dir})
	if err != nil {
		return nil, err
	}
	return &etcd{cluster: c}, nil
}

func (e *etcd) caller(i int) (turn, take func(context.Context, string) error, err error) {
	cli, err := e.cluster.Client(i % members)
	if err != nil {
		return nil, nil, err
	}
	e.clients = append(e.clients, cli)
	session, err := concurrency.NewSession(cli, concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		return nil, nil, err
	}
	turn = func(ctx context.Context, name string) error {
		m := concurrency.NewMutex(session, name)
		if err := m.Lock(ctx); err != nil {
			return err
		}
		return m.Unlock(ctx)
	}
	take = func(ctx context.Context, _ string) error {
		_, err := cli.Grant(ctx, int64(ttl.Seconds()))
		return err
	}
	return turn, take, nil
}

func (e *etcd) cpu() (sum time.Duration) {
	for _, m := range e.cluster.Members {
		sum += m.CPU()
	}
	return sum
}

func (e *etcd) close() {
	for _, c := range e.clients {
		c.Close()
	}
	e.cluster.Close()
}

// zooKeeper is an ensemble of Debian's.
type zooKeeper struct {
	servers []*exec.Cmd
	addrs   []string
	conns   []*zk.Conn
}

const zooKeeperJar = "/usr/share/java/zookeeper.jar"

func startZooKeeper(ctx context.Context, dir string) (contestant, error) {
	if _, err := os.Stat(zooKeeperJar); err != nil {
		return nil, fmt.Errorf("%w: apt-get install zookeeper", err)
	}
	z := &zooKeeper{}
	var lines strings.Builder
	var clients []string
	for i := range members {
		ports, err := ports(3)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&lines, "server.%d=127.0.0.1:%s:%s\n", i+1, ports[0], ports[1])
		clients = append(clients, ports[2])
		z.addrs = append(z.addrs, "127.0.0.1:"+ports[2])
	}
	for i, port := range clients {
		data := filepath.Join(dir, fmt.Sprint(i))
		cfg := fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=%s\nmaxClientCnxns=0\nadmin.enableServer=false\n%s", data, port, lines.String())
		err := errors.Join(os.Mkdir(data, 0o700),
			os.WriteFile(filepath.Join(data, "myid"), []byte(fmt.Sprint(i+1)), 0o600),
			os.WriteFile(filepath.Join(data, "zoo.cfg"), []byte(cfg), 0o600))
		if err != nil {
			z.close()
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "java", "-Xmx1g", "-cp", "/etc/zookeeper/conf:"+zooKeeperJar+":/usr/share/java/*",
			"-Dzookeeper.root.logger=WARN,CONSOLE", "org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(data, "zoo.cfg"))
		if cmd.Stderr, err = os.Create(filepath.Join(dir, fmt.Sprint(i, ".log"))); err == nil {
			err = cmd.Start()
		}
		if err != nil {
			z.close()
			return nil, err
		}
		z.servers = append(z.servers, cmd)
	}
	conn, err := z.connect(0)
	if err != nil {
		z.close()
		log, _ := os.ReadFile(filepath.Join(dir, "0.log"))
		return nil, fmt.Errorf("%w: %.2000s", err, log)
	}
	z.conns = append(z.conns, conn)
	return z, nil
}

// connect returns a session once the ensemble has a leader.
func (z *zooKeeper) connect(i int) (*zk.Conn, error) {
	conn, events, err := zk.Connect(z.addrs[i:i+1], ttl, zk.WithLogger(quiet{}))
	if err != nil {
		return nil, err
	}
	late := time.After(time.Minute)
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return conn, nil
			}
		case <-late:
			conn.Close()
			return nil, errors.New("no session within a minute")
		}
	}
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func (z *zooKeeper) caller(i int) (turn, take func(context.Context, string) error, err error) {
	conn, err := z.connect(i % members)
	if err != nil {
		return nil, nil, err
	}
	z.conns = append(z.conns, conn)
	create := func(name string) error {
		_, err := conn.Create("/"+name, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return err
	}
	turn = func(_ context.Context, name string) error {
		if err := create(name); err != nil {
			return err
		}
		return conn.Delete("/"+name, -1)
	}
	take = func(_ context.Context, name string) error { return create(name) }
	return turn, take, nil
}

func (z *zooKeeper) cpu() (sum time.Duration) {
	for _, s := range z.servers {
		sum += processCPU(s.Process.Pid)
	}
	return sum
}

func (z *zooKeeper) close() {
	for _, c := range z.conns {
		c.Close()
	}
	for _, s := range z.servers {
		_ = s.Process.Kill()
		_ = s.Wait()
		if f, ok := s.Stderr.(io.Closer); ok {
			f.Close()
		}
	}
}

// processCPU is what another process has used.
func processCPU(pid int) time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	var user, system int64
	_, _ = fmt.Sscan(f[11], &user)
	_, _ = fmt.Sscan(f[12], &system)
	return time.Duration(user+system) * time.Second / 100 // USER_HZ
}

// ports finds free ones.
func ports(n int) (found []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		found = append(found, port)
	}
	return found, nil
}
