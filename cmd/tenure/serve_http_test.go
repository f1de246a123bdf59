package main

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/member/server"
)

// configured is the configuration of a command line, with its listeners closed.
func configured(t *testing.T, args ...string) (server.Config, error) {
	t.Helper()
	o, err := parse(t, append([]string{"--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0"}, args...), nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := o.config(slog.New(slog.DiscardHandler), nil)
	if err == nil {
		for _, l := range slices.Concat(cfg.Clients, cfg.Metrics) {
			l.Close()
		}
		cfg.Node.PeerListener.Close()
	}
	return cfg, err
}

// The flags of HTTP reach the member, and their defaults are etcd's.
func TestServeFlagsOfHTTP(t *testing.T) {
	whatever := []string{"*"}
	for _, c := range []struct {
		args      []string
		want      server.HTTP
		extensive bool
	}{
		{nil, server.HTTP{Hosts: whatever, Origins: whatever}, false},
		{[]string{"--metrics", "extensive"}, server.HTTP{Hosts: whatever, Origins: whatever}, true},
		{[]string{"--enable-grpc-gateway=false"}, server.HTTP{NoGateway: true, Hosts: whatever, Origins: whatever}, false},
		{[]string{"--host-whitelist", "a,b", "--cors=http://x", "--enable-pprof"}, server.HTTP{Hosts: []string{"a", "b"}, Origins: []string{"http://x"}, Profiles: true}, false},
	} {
		cfg, err := configured(t, c.args...)
		if err != nil || !reflect.DeepEqual(cfg.HTTP, c.want) || cfg.Figures.Extensive != c.extensive {
			t.Errorf("%q: %+v, extensive %v, %v; want %+v, %v", c.args, cfg.HTTP, cfg.Figures.Extensive, err, c.want, c.extensive)
		}
	}
	for _, c := range []struct{ flag, value, want string }{
		{"--metrics", "all", "want basic or extensive"},
		{"--listen-metrics-urls", "https://127.0.0.1:0", "--cert-file"},
		{"--listen-metrics-urls", "127.0.0.1", "no URL to listen on"},
	} {
		if _, err := configured(t, c.flag, c.value); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.flag, c.value, err, c.want)
		}
	}
}

// Metrics of https have the certificate for clients, those of http none.
func TestListenMetrics(t *testing.T) {
	_, cert, key := certificates(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, scheme := range []string{"http", "https"} {
		l, err := (listenOptions{}).listenMetrics(scheme+"://127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
		if err != nil {
			t.Fatal(err)
		}
		go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }))
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		c := &http.Client{Transport: tr, Timeout: 10 * time.Second}
		r, err := c.Get(scheme + "://" + l.Addr().String())
		if err != nil {
			t.Errorf("metrics by %s: %v", scheme, err)
		} else {
			r.Body.Close()
		}
		tr.CloseIdleConnections()
		l.Close()
	}
}
