package main

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A member that waits to begin a new cluster ends by a signal, at once and well.
func TestAStartByForceEndsByASignal(t *testing.T) {
	dir, addr := filepath.Join(t.TempDir(), "data"), freeAddresses(t, 2)
	start := func(args ...string) *served {
		s := &served{url: "http://" + addr[0]}
		s.cmd = exec.Command("tenure", append([]string{
			"serve", "--name", "one", "--data-dir", dir, "--listen-client-urls", s.url,
			"--listen-peer-urls", "http://" + addr[1], "--initial-advertise-peer-urls", "http://" + addr[1],
		}, args...)...)
		s.cmd.Stderr = &s.log
		if err := s.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.cmd.Process.Kill() })
		return s
	}
	first := start()
	first.await(t, "ready to serve client requests")
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := first.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	again := start("--force-new-cluster")
	again.await(t, "a new cluster begins from this member's data")
	began := time.Now()
	if err := again.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	again.await(t, "stopped before it served")
	if err := again.cmd.Wait(); err != nil {
		t.Errorf("a start that was told to end after %v: %v\n%s", time.Since(began), err, again.log.String())
	}
}

// A member that waits for another that knows it ends by a signal, at once and well.
func TestAMemberThatJoinsEndsByASignal(t *testing.T) {
	addr := freeAddresses(t, 3)
	l, err := net.Listen("tcp", addr[2]) // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &served{url: "http://" + addr[0]}
	s.cmd = exec.Command("tenure", "serve", "--name", "two", "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen-client-urls", s.url,
		"--listen-peer-urls", "http://"+addr[1], "--initial-advertise-peer-urls", "http://"+addr[1],
		"--initial-cluster-state", "existing", "--initial-cluster", "one=http://"+addr[2]+",two=http://"+addr[1])
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil || !strings.Contains(s.log.String(), "stopped before it served") {
		t.Errorf("a member that joins was told to end: %v\n%s", err, s.log.String())
	}
}
