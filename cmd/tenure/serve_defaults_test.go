package main

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
)

// A flag that is not set is as in etcd, and one that etcd does not have makes the safe choice.
func TestServeDefaults(t *testing.T) {
	var o serveOptions
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.register(f)
	for name, want := range map[string]string{
		"name": "default", "data-dir": "", "listen-peer-urls": "[http://localhost:2380]", "listen-client-urls": "[http://localhost:2379]",
		"initial-advertise-peer-urls": "[http://localhost:2380]", "advertise-client-urls": "[]", "initial-cluster": "",
		"initial-cluster-state": "new", "initial-cluster-token": "etcd-cluster", "max-learners": "1", "heartbeat-interval": "100",
		"election-timeout": "1000", "max-txn-ops": "128", "max-request-bytes": "1572864", "max-concurrent-streams": "0",
		"quota-backend-bytes": "0", "grpc-keepalive-min-time": "5s", "grpc-keepalive-interval": "2h0m0s", "grpc-keepalive-timeout": "20s",
		"watch-progress-notify-interval": "10m0s", "auto-compaction-mode": "periodic", "auto-compaction-retention": "0",
		"read-lease": "leader", "read-lease-order": "", "read-lease-ttl": "200ms", "read-lease-changes": "policy",
		"auth-token": "simple", "auth-token-ttl": "300", "bcrypt-cost": "10",
		"client-cert-auth": "false", "peer-client-cert-auth": "false", "peer-skip-client-san-verification": "false",
		"tls-min-version": "TLS1.2", "tls-max-version": "", "cipher-suites": "[]", "log-level": "info", "log-format": "auto",
		"unsafe-no-fsync": "false", "log-outputs": "[default]", "enable-log-rotation": "false", "warning-unary-request-duration": "300ms", "warning-apply-duration": "100ms",
	} {
		if got := f.Lookup(name); got == nil || got.DefValue != want {
			t.Errorf("--%s is %v by default, want %q", name, got, want)
		}
	}
}

// Each flag reaches its place.
func TestServeFlagsReachTheirEnds(t *testing.T) {
	o, err := parse(t, []string{
		"--name", "a", "--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0",
		"--initial-advertise-peer-urls", "http://127.0.0.1:7", "--advertise-client-urls", "http://x:1,http://y:2", "--initial-cluster-token", "tok",
		"--max-learners", "3", "--heartbeat-interval", "70", "--election-timeout", "900", "--max-txn-ops", "5", "--max-request-bytes", "6",
		"--max-concurrent-streams", "7", "--quota-backend-bytes", "8", "--grpc-keepalive-min-time", "9s", "--grpc-keepalive-interval", "10s",
		"--grpc-keepalive-timeout", "11s", "--watch-progress-notify-interval", "12s", "--read-lease-ttl", "300ms", "--read-lease-changes", "none",
		"--warning-unary-request-duration", "13s", "--warning-apply-duration", "14s", "--unsafe-no-fsync", "--wal-dir", "/fast",
		"--auth-token", "jwt,x", "--auth-token-ttl", "13", "--bcrypt-cost", "14",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := o.config(slog.New(slog.DiscardHandler), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Node.PeerListener.Close()
	cfg.Clients[0].Close()
	n, api := cfg.Node, cfg.API
	for name, tt := range map[string]struct{ got, want any }{
		"name": {n.Name, "a"}, "token": {n.ClusterToken, "tok"}, "learners": {n.MaxLearners, 3}, "existing": {n.Existing, false},
		"heartbeat": {n.HeartbeatInterval, 70 * time.Millisecond}, "election": {n.ElectionTimeout, 900 * time.Millisecond},
		"client URLs": {len(n.ClientURLs), 2}, "peer": {n.Peers["a"], "http://127.0.0.1:7"}, "TTL": {n.ReadLeaseTTL, 300 * time.Millisecond},
		"ops": {api.MaxTxnOps, 5}, "request": {api.MaxRequestBytes, 6}, "streams": {api.MaxConcurrentStreams, uint32(7)}, "quota": {api.QuotaBytes, int64(8)},
		"min time": {api.KeepAliveMinTime, 9 * time.Second}, "interval": {api.KeepAliveInterval, 10 * time.Second}, "timeout": {api.KeepAliveTimeout, 11 * time.Second},
		"tokens": {cfg.Logins.Tokens, "jwt,x"}, "time of tokens": {cfg.Logins.TTL, 13 * time.Second}, "cost": {cfg.Logins.Cost, 14},
		"certificates": {api.CertificateUsers, false},
		"progress":     {api.WatchProgressInterval, 12 * time.Second}, "changes": {api.ReadLeaseChanges, etcdapi.ChangeNothing},
		"log": {n.WAL.LogDir, "/fast"}, "no sync": {n.UnsafeNoSync, true}, "slow calls": {api.WarnCall, 13 * time.Second}, "slow writes": {n.WarnApply, 14 * time.Second},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want what the flag says, %v", name, tt.got, tt.want)
		}
	}
	for state, want := range map[string]bool{"new": false, "existing": true} {
		o, err := parse(t, []string{
			"--name", "a", "--data-dir", t.TempDir(), "--listen-peer-urls", "http://127.0.0.1:0", "--listen-client-urls", "http://127.0.0.1:0",
			"--initial-cluster-state", state, "--initial-cluster", "a=http://localhost:2380,b=http://localhost:1",
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := o.config(slog.New(slog.DiscardHandler), func(error) {})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Node.PeerListener.Close()
		cfg.Clients[0].Close()
		if cfg.Node.Existing != want {
			t.Errorf("--initial-cluster-state %s: existing %v, want what the flag says", state, cfg.Node.Existing)
		}
	}
	if _, err := o.log.Logger(os.Stderr); err != nil {
		t.Error(err)
	}
}
