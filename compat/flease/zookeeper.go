package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// zooKeeper is an ensemble of Debian's.
type zooKeeper struct {
	servers  []*exec.Cmd
	addrs    []string
	conns    []*zk.Conn
	sessions []*zkSession
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

func (z *zooKeeper) caller(_ context.Context, i int) (map[string]call, error) {
	conn, err := z.connect(i % members)
	if err != nil {
		return nil, err
	}
	z.conns = append(z.conns, conn)
	session := &zkSession{addr: z.addrs[i%members]}
	z.sessions = append(z.sessions, session)
	own := fmt.Sprintf("/touched-%d", i)
	create := func(path string) error {
		_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		return err
	}
	if err := create(own); err != nil {
		return nil, err
	}
	return map[string]call{
		"turn": func(_ context.Context, name string) error {
			if err := create("/" + name); err != nil {
				return err
			}
			return conn.Delete("/"+name, -1)
		},
		"take":  func(_ context.Context, name string) error { return create("/" + name) },
		"renew": func(context.Context, string) error { return session.ping() },
		"touch": func(context.Context, string) error {
			_, err := conn.Set(own, nil, -1)
			return err
		},
	}, nil
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
	for _, s := range z.sessions {
		s.close()
	}
	for _, s := range z.servers {
		_ = s.Process.Kill()
		_ = s.Wait()
		if f, ok := s.Stderr.(io.Closer); ok {
			f.Close()
		}
	}
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
