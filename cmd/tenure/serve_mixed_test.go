package main

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/member/server"
)

// Clients are served with TLS at URLs with https and without it at the others, by gRPC and by HTTP, and a member warns
// of the others. Only those with https ask for a certificate.
func TestServeWithTLSAndWithout(t *testing.T) {
	ca, at, socket := newAuthority(t), freeAddresses(t, 2), t.TempDir()+"/s"
	own := ca.issue("member", "127.0.0.1")
	o, err := parse(t, []string{
		"--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0", "--advertise-client-urls", "https://" + at[0],
		"--listen-client-urls", "https://" + at[0] + ",http://" + at[1] + ",unix://" + socket,
		"--cert-file", own.cert, "--key-file", own.key, "--trusted-ca-file", ca.file, "--client-cert-auth",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cfg, err := o.config(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatalf("a member with both does not start: %v", err)
	}
	for _, plain := range []string{"url=http://" + at[1], "url=unix://" + socket} {
		if !strings.Contains(log.String(), plain) {
			t.Errorf("a member warns %q; want that it names %s, which has no TLS", log.String(), plain)
		}
	}
	if strings.Contains(log.String(), "url=https") {
		t.Errorf("a member warns %q of a URL with TLS", log.String())
	}
	cfg.Node.Logger = slog.New(slog.DiscardHandler) // the log is not for several at a time
	s, err := server.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	with := ca.caller(&own)
	without := ca.caller(nil)
	for endpoint, tt := range map[string]struct {
		tls *tls.Config
		ok  bool
	}{
		"https://" + at[0]: {with, true}, "https://" + at[0] + "/": {without, false},
		"http://" + at[1]: {nil, true}, "http://" + at[0]: {nil, false}, "unix://" + socket: {nil, true},
	} {
		patience := 20 * time.Second
		if !tt.ok {
			patience = time.Second
		}
		if err := puts(t, clientv3.Config{Endpoints: []string{strings.TrimSuffix(endpoint, "/")}, TLS: tt.tls}, patience); (err == nil) != tt.ok {
			t.Errorf("a put at %s, with TLS %v: %v; want that it succeeds: %v", endpoint, tt.tls != nil, err, tt.ok)
		}
	}
	resp, err := http.Get("http://" + at[1] + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `"health":"true"`) {
		t.Errorf("health without TLS is %q, %v", text, err)
	}
	s.Stop()
	if _, err := os.Stat(socket); err == nil {
		t.Error("a socket without TLS is left open when its member has ended")
	}
}
