package redis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/tenure-lease/tenure/internal/host/register"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
	"github.com/tenure-lease/tenure/internal/machine"
)

// How a server keeps what it acknowledges.
var (
	inMemory = []string{"--appendonly", "no", "--save", ""}
	everysec = []string{"--appendonly", "yes", "--appendfsync", "everysec", "--save", ""}
	always   = []string{"--appendonly", "yes", "--appendfsync", "always", "--save", ""}
)

// server is a redis-server process, with the data needed to start it again.
type server struct {
	tb   testing.TB
	addr string
	dir  string
	cmd  *exec.Cmd
}

// start runs a server with a directory of its own, for as long as the test.
func start(tb testing.TB, how ...string) *server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		tb.Skip("no redis-server on PATH: install Debian's package redis-server to run this test")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{tb: tb, addr: l.Addr().String(), dir: tb.TempDir()}
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	s.start(how...)
	tb.Cleanup(s.kill)
	return s
}

// start starts the process over what the directory holds, and waits for it.
func (s *server) start(how ...string) {
	s.tb.Helper()
	host, port, _ := net.SplitHostPort(s.addr)
	args := append([]string{"--bind", host, "--port", port, "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log")}, how...)
	s.cmd = exec.Command("redis-server", args...)
	dieWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if s.run("PING") == nil {
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.tb.Fatalf("redis-server does not answer:\n%s", bytes.TrimSpace(log))
		}
	}
}

// kill ends the process as a power cut does, but for the system's page cache.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

func (s *server) signal(sig syscall.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Fatal(err)
	}
}

// run performs a command over a connection of its own.
func (s *server) run(args ...any) error {
	c := goredis.NewClient(&goredis.Options{Addr: s.addr, MaxRetries: -1, DisableIdentity: true})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.Do(ctx, args...).Err()
}

func (s *server) must(args ...any) {
	s.tb.Helper()
	if err := s.run(args...); err != nil {
		s.tb.Fatalf("%v: %v", args, err)
	}
}

func header(index, of int) register.Header {
	return register.Header{
		Set: machine.ID{1, 2, 3}, Of: of, Index: index,
		Term: time.Second, Delay: 20 * time.Millisecond, Drift: 200,
	}
}

// base is a server with a store.
func base(tb testing.TB, index, of int, how ...string) (*server, *redis.Store) {
	tb.Helper()
	s := start(tb, how...)
	if err := redis.Init(context.Background(), redis.Options{Addr: s.addr}, header(index, of)); err != nil {
		tb.Fatal(err)
	}
	return s, open(tb, s)
}

func open(tb testing.TB, s *server) *redis.Store {
	tb.Helper()
	store, err := redis.Open(context.Background(), redis.Options{Addr: s.addr})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { store.Close() })
	return store
}

// bases are the servers of a set, and a way to open it as one more process does.
func bases(tb testing.TB, n int, how ...string) (servers []*server, opened func() *register.Set) {
	tb.Helper()
	for i := range n {
		s, _ := base(tb, i, n, how...)
		servers = append(servers, s)
	}
	return servers, func() *register.Set {
		tb.Helper()
		var stores []register.Store
		for _, s := range servers {
			if store, err := redis.Open(context.Background(), redis.Options{Addr: s.addr}); err == nil {
				stores = append(stores, store)
			} else {
				tb.Logf("goes on without: %v", err)
			}
		}
		set, err := register.NewSet(stores)
		if err != nil {
			tb.Fatal(fmt.Errorf("open the set: %w", err))
		}
		tb.Cleanup(func() { _ = set.Close() })
		return set
	}
}
