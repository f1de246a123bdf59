package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/member/server"
)

// startServe starts a member of one in this process, by the flags of a command line.
func startServe(t *testing.T, args ...string) *server.Server {
	t.Helper()
	o, err := parse(t, append([]string{"--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0"}, args...), nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := o.config(slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// puts returns the error of a put by gRPC.
func puts(t *testing.T, cfg clientv3.Config, patience time.Duration) error {
	t.Helper()
	c, err := clientv3.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = c.Put(ctx, "k", "v")
	return err
}

// Clients can be served at a path, and HTTP at a port of its own: then the others are for gRPC alone.
func TestServeAtAPathAndHTTPApart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients.sock")
	at := freeAddresses(t, 2)
	startServe(t, "--listen-client-urls", "unix://"+path+",http://"+at[0], "--advertise-client-urls", "unix://"+path, "--listen-client-http-urls", "http://"+at[1])
	for _, endpoint := range []string{"unix://" + path, "http://" + at[0]} {
		if err := puts(t, clientv3.Config{Endpoints: []string{endpoint}}, time.Minute); err != nil {
			t.Errorf("a put at %s: %v", endpoint, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v; want it for this user alone", info, err)
	}
	health := func(at string) (string, error) {
		resp, err := http.Get("http://" + at + "/health")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	if text, err := health(at[1]); err != nil || !strings.Contains(text, `"health":"true"`) {
		t.Errorf("health at the port for HTTP: %q, %v", text, err)
	}
	if text, err := health(at[0]); err == nil {
		t.Errorf("health at a port for gRPC alone: %q, want no answer", text)
	}
	if err := puts(t, clientv3.Config{Endpoints: []string{"http://" + at[1]}}, time.Second); err == nil {
		t.Error("the port for HTTP alone took a put by gRPC")
	}
}

// A socket takes the place of one whose process has ended, and of nothing else.
func TestServeTakesAPathOver(t *testing.T) {
	var o listenOptions
	path := filepath.Join(t.TempDir(), "s")
	l, err := o.listen("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.listen("unix://" + path); err == nil || !strings.Contains(err.Error(), "another server is running there") {
		t.Errorf("a second one at the same path: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if l, err = o.listen("unix://" + path); err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	l.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := o.listen("unix://" + path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("over a file: %v, want it refused", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file is now %q, %v", text, err)
	}
	if _, err := o.listen("unix://"); err == nil || !strings.Contains(err.Error(), "want unix:///path") {
		t.Errorf("no path: %v", err)
	}
	if _, err := parse(t, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// Two processes share a port if both say so, and only then.
func TestServeSharesPorts(t *testing.T) {
	for _, shared := range []bool{false, true} {
		o := listenOptions{reusePort: shared, reuseAddress: true}
		first, err := o.listen("http://127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		second, err := o.listen("http://" + first.Addr().String())
		if (err == nil) != shared {
			t.Errorf("a second listener, with --socket-reuse-port=%v: %v", shared, err)
		}
		if err == nil {
			second.Close()
		}
		first.Close()
	}
}

// A secure socket needs a certificate, as a port does, and none is served beside one without TLS where HTTP has URLs of its own.
func TestServeSecuresPaths(t *testing.T) {
	for want, urls := range map[string]string{"needs --cert-file": "unixs:///x", "either all of them": "unixs:///x,unix:///y"} {
		clients, http, _ := strings.Cut(urls, ",")
		o, err := parse(t, []string{"--data-dir", t.TempDir(), "--listen-client-urls", clients, "--listen-client-http-urls", http}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.config(slog.New(slog.DiscardHandler), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", urls, err, want)
		}
	}
	_, cert, key := certificates(t)
	path := filepath.Join(t.TempDir(), "s")
	startServe(t, "--listen-client-urls", "unixs://"+path, "--cert-file", cert, "--key-file", key)
	secure, err := (&tlsOptions{cert: cert, key: key}).load(tlsLimits{minVersion: "TLS1.2"}, []string{"unixs://"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	secure.InsecureSkipVerify = true
	if err := puts(t, clientv3.Config{Endpoints: []string{"unixs://" + path}, TLS: secure}, time.Minute); err != nil {
		t.Errorf("a put at a secure path: %v", err)
	}
	if err := puts(t, clientv3.Config{Endpoints: []string{"unix://" + path}}, time.Second); err == nil {
		t.Error("a put without TLS was taken")
	}
}
