package flease_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/flease"
	inner "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestOpen: a peer alone takes a lease, and is closed with its Leaser.
func TestOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	self := l.Addr().String()
	file := filepath.Join(t.TempDir(), "members")
	if err := os.WriteFile(file, []byte("epoch 1\n1 "+self+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	leaser, err := flease.Open(t.Context(), flease.Config{
		Self: self, MembersFile: file, Listener: l,
		TMax: 400 * time.Millisecond, Epsilon: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := leaser.Acquire(t.Context(), tenure.Claim{Name: "x"})
	if err != nil || lease.Name() != "x" {
		t.Errorf("a free lease: %v, %v", lease, err)
	}
	if err := leaser.Close(); err != nil {
		t.Errorf("Close returns %v", err)
	}
	if conn, err := net.Dial("tcp", self); err == nil {
		conn.Close()
		t.Error("the peer listens though its Leaser is closed")
	}
}

// TestOpenFails: a failure comes with no Leaser, and with an error that callers can compare.
func TestOpenFails(t *testing.T) {
	if l, err := flease.Open(t.Context(), flease.Config{}); l != nil || !errors.Is(err, flease.ErrConfig) {
		t.Errorf("an empty Config opens %v, %v; want nil and %v", l, err, flease.ErrConfig)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if l, err := flease.Dial(ctx, filepath.Join(t.TempDir(), "none")); l != nil || !errors.Is(err, tenure.ErrUnavailable) {
		t.Errorf("where no peer listens: %v, %v; want nil and %v", l, err, tenure.ErrUnavailable)
	}
}

// TestDial: a Leaser of a socket asks the peer that listens there.
func TestDial(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peer, err := inner.Start(t.Context(), inner.Config{
		Self: tcp.Addr().String(), Listener: tcp, TMax: 400 * time.Millisecond, Epsilon: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Membership: inner.Fixed(inner.Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: tcp.Addr().String()}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	path := filepath.Join(t.TempDir(), "s")
	l, err := inner.ListenSocket(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- peer.Serve(l) }()
	defer func() { l.Close(); <-served }()
	c, err := flease.Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Acquire(t.Context(), tenure.Claim{Name: "x", Holder: "h"}); err != nil {
		t.Fatal(err)
	}
	s, err := c.Observe(context.Background(), "x")
	if err != nil || len(s.Holders) != 1 || s.Holders[0].Holder != "h" {
		t.Errorf("the peer shows %+v, %v; want the lease of h", s, err)
	}
}
