package server

import (
	"crypto/tls"
	"github.com/tenure-lease/tenure/internal/member/tracing"
	"go.opentelemetry.io/otel/trace/noop"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/metrics"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/server"
)

// TestOptionsReachTheMember: each field of a Config is passed on, and to the right place.
func TestOptionsReachTheMember(t *testing.T) {
	peers, clients, logger := &net.TCPListener{}, []net.Listener{&net.TCPListener{}}, slog.New(slog.DiscardHandler)
	peerTLS, clientTLS := &tls.Config{ServerName: "peers"}, &tls.Config{ServerName: "clients"}
	cluster, urls := map[string]string{"a": "http://a:1"}, []string{"http://a:2"}
	failed, registry, traces := false, prometheus.NewRegistry(), noop.NewTracerProvider()
	cfg := Config{
		Name: "a", DataDir: "dir", InitialCluster: cluster, ClusterToken: "token", Existing: true,
		PeerListener: peers, PeerTLS: peerTLS, ClientListeners: clients, ClientTLS: clientTLS, AdvertiseClientURLs: urls,
		HeartbeatInterval: 1, ElectionTimeout: 2,
		MaxRequestBytes: 4, QuotaBytes: 6, MemoryLimit: 7, KeepHistory: 8, KeepRevisions: 9,
		ReadLease: "all", ReadLeaseTTL: 10, ReadLeaseChanges: "none",
		OnFail: func(error) { failed = true }, Logger: logger,
		Limits:  Limits{MaxLeases: 11},
		Metrics: registry, ExtensiveMetrics: true, DisableGateway: true,
		AuthToken: "jwt,x", AuthTokenTTL: 12, BcryptCost: 13, CertificateUsers: true,
		Traces: traces,
	}
	want := server.Config{
		Node: node.Config{
			Name: "a", DataDir: "dir", Peers: cluster, ClusterToken: "token", Existing: true,
			PeerListener: peers, PeerTLS: peerTLS, ClientURLs: urls,
			HeartbeatInterval: 1, ElectionTimeout: 2, ReadLease: "all", ReadLeaseTTL: 10, Logger: logger,
			MaxLeases: 11,
		},
		API: etcdapi.Config{
			MaxRequestBytes: 4, QuotaBytes: 6, ReadLeaseChanges: etcdapi.ChangeNothing,
			ElectionTimeout: 2, Logger: logger, CertificateUsers: true,
		},
		Logins:  login.Config{Tokens: "jwt,x", TTL: 12, Cost: 13},
		Figures: metrics.Config{Extensive: true, Register: registry}, HTTP: server.HTTP{NoGateway: true},
		Tracing: tracing.Config{Provider: traces},
		Clients: clients, ClientTLS: clientTLS, MemoryLimit: 7, History: server.Retention{Period: 8, Revisions: 9},
	}
	for v, i := reflect.ValueOf(cfg), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the test says nothing of Config.%s", v.Type().Field(i).Name)
		}
	}
	got, err := cfg.member()
	if err != nil {
		t.Fatal(err)
	}
	if got.Node.Fail == nil {
		t.Error("OnFail is not passed on")
	} else if got.Node.Fail(nil); !failed {
		t.Error("another function than OnFail is called")
	}
	got.Node.Fail = nil // functions cannot be compared
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the member is configured as %+v, want %+v", got, want)
	}
	if got, err := (Config{}).member(); err != nil || !reflect.DeepEqual(got, server.Config{}) {
		t.Errorf("an empty Config configures %+v, %v; want the defaults", got, err)
	}
}

// TestStartFails: the listeners are closed, wherever it fails.
func TestStartFails(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"here":          {Config{Name: "a", DataDir: t.TempDir(), ReadLeaseChanges: "all"}, `ReadLeaseChanges "all": want policy, order or none`},
		"its logins":    {Config{Name: "a", DataDir: t.TempDir(), AuthToken: "other"}, `"other": want simple`},
		"at the member": {Config{Name: "a", ReadLeaseTTL: time.Second}, "DataDir"},
	} {
		t.Run(name, func(t *testing.T) {
			var listeners []net.Listener
			for range 2 {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				listeners = append(listeners, l)
			}
			c.cfg.PeerListener, c.cfg.ClientListeners = listeners[0], listeners[1:]
			if s, err := Start(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want %s", s, err, c.want)
			}
			for _, l := range listeners {
				if err := l.Close(); err == nil {
					t.Errorf("the listener at %s was left open", l.Addr())
				}
			}
		})
	}
}

// TestHistoryThatCannotBeKept: a negative amount is refused, as it would compact all history.
func TestHistoryThatCannotBeKept(t *testing.T) {
	for _, cfg := range []Config{{KeepHistory: -1}, {KeepRevisions: -1}} {
		if m, err := cfg.member(); err == nil || !strings.Contains(err.Error(), "leave both 0 to keep it") {
			t.Errorf("KeepHistory %v, KeepRevisions %d: the member is to keep %+v, %v; want it refused", cfg.KeepHistory, cfg.KeepRevisions, m.History, err)
		}
	}
}
