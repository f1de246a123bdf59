package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	leases "github.com/tenure-lease/tenure/compat/storage"
	"github.com/tenure-lease/tenure/internal/host/register/redis"
)

var errNoRedis = errors.New("redis-server is not installed: Debian's package redis-server has it")

// redises are servers with a set of stores on them.
type redises struct {
	procs []*exec.Cmd
	addrs []string
}

// startRedis starts n servers that keep what they acknowledge, below dir.
func startRedis(ctx context.Context, dir string, n int, term, delay time.Duration) (*redises, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoRedis
	}
	r := &redises{}
	h := leases.Header(n, term, delay)
	for i := range n {
		h.Index = i
		if err := r.start(ctx, binary, filepath.Join(dir, fmt.Sprintf("redis%d-%d", n, i))); err != nil {
			r.stop()
			return nil, err
		}
		if err := redis.Init(ctx, redis.Options{Addr: r.addrs[i]}, h); err != nil {
			r.stop()
			return nil, err
		}
	}
	return r, nil
}

func (r *redises) start(ctx context.Context, binary, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.CommandContext(ctx, binary, "--bind", "127.0.0.1", "--port", port, "--dir", dir,
		"--logfile", filepath.Join(dir, "log"), "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if err := cmd.Start(); err != nil {
		return err
	}
	r.procs, r.addrs = append(r.procs, cmd), append(r.addrs, addr)
	for range 1000 {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("redis-server at %s does not answer", addr)
}

func (r *redises) pids() (pids []int) {
	for _, p := range r.procs {
		pids = append(pids, p.Process.Pid)
	}
	return pids
}

func (r *redises) stop() {
	for _, p := range r.procs {
		p.Process.Kill()
		p.Wait()
	}
}
