package server

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenure-lease/tenure/internal/lab/golden"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/metrics"
	"github.com/tenure-lease/tenure/internal/member/tracing"
)

// shown is what there is behind a value, field by field, as deep as the packages go that a server is wired of.
type shown struct {
	lines []string
	seen  map[uintptr]string
}

// wired are the packages whose types are looked into.
var wired = regexp.MustCompile(`/internal/member/(server|etcdapi|httpapi|login|tracing)$|^net/http$|^google.golang.org/grpc(/keepalive)?$|^crypto/tls$|/internal/host/peer$`)

// unwired are fields that change by themselves, or belong to the insides of other packages.
var unwired = regexp.MustCompile(`\.(Node|clusterID|memberID|numServerWorkers|mu|server\.TLSConfig|TLSNextProto|inShutdown|waiting|serverWorkerChannel|serverWorkerChannelClose|channelzRemoveOnce|bufferPool|quit|serve|drain|once|work|done|calls|cancel|ctx|live|listeners|activeConn|mux|events|channelz|cv|serveWG|handlersWG|lis|conns|inflight|self|ended|children|guests|inside|greeted|mutex|autoSessionTicketKeys|sessionTicketKeys|secrets?|at|key|rand|statsHandlers?|dopts|codec|services|Observer|onShutdown|listenerGroup|nextProtoOnce|nextProtoErr|Certificates|ClientCAs|RootCAs)$`)

func (s *shown) look(path string, v reflect.Value, depth int) {
	put := func(format string, args ...any) {
		s.lines = append(s.lines, path+" = "+addresses.ReplaceAllString(fmt.Sprintf(format, args...), "#"))
	}
	if unwired.MatchString(path) || depth > 9 {
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		put("%v", v.Bool())
	case reflect.Int64:
		if v.Type() == reflect.TypeFor[time.Duration]() {
			put("%v", time.Duration(v.Int()))
			return
		}
		put("%d", v.Int())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32:
		put("%d", v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		put("%d", v.Uint())
	case reflect.Float64:
		put("%v", v.Float())
	case reflect.String:
		put("%q", v.String())
	case reflect.Func, reflect.Chan, reflect.Map, reflect.UnsafePointer:
		if v.IsNil() {
			put("nil")
		} else {
			put("a %s", v.Kind())
		}
	case reflect.Interface:
		if v.IsNil() {
			put("nil")
		} else {
			s.look(path, v.Elem(), depth)
		}
	case reflect.Pointer:
		if v.IsNil() {
			put("nil")
			return
		}
		if at, again := s.seen[v.Pointer()]; again {
			put("that of %s", at)
			return
		}
		s.seen[v.Pointer()] = path
		if e := v.Elem(); e.Kind() == reflect.Struct && wired.MatchString(e.Type().PkgPath()) {
			s.look(path, e, depth+1)
		} else {
			put("a %s", v.Type())
		}
	case reflect.Slice, reflect.Array:
		put("%d of them", v.Len())
		for i := range min(v.Len(), 6) {
			if k := v.Index(i).Kind(); k != reflect.Uint8 {
				s.look(fmt.Sprintf("%s[%d]", path, i), v.Index(i), depth)
			}
		}
	case reflect.Struct:
		if !wired.MatchString(v.Type().PkgPath()) {
			put("a %s", v.Type())
			return
		}
		foreign := !strings.Contains(v.Type().PkgPath(), "/internal/")
		for i := range v.NumField() {
			if foreign && v.Field(i).IsZero() {
				continue // another version of it may have other fields
			}
			s.look(path+"."+v.Type().Field(i).Name, v.Field(i), depth+1)
		}
	}
}

// addresses are of sockets and directories.
var addresses = regexp.MustCompile(`127\.0\.0\.1:\d+|/[^"]*/Test[^"]*`)

// Each field of a configuration arrives where it has to: a server that has a value of its own in each, one that has none, and one
// for HTTP alone, show these parts.
func TestWhereFieldsArrive(t *testing.T) {
	const file = "testdata/wired.txt"
	var got strings.Builder
	for _, tt := range []struct {
		name string
		edit func(*Config)
	}{
		{"no field is set", func(*Config) {}},
		{"each field is set", func(c *Config) {
			c.API = etcdapi.Config{
				MaxRequestBytes: 101_000, MaxTxnOps: 102, MaxConcurrentStreams: 103, ReadLeaseChanges: 1, QuotaBytes: 104 << 20, Short: func() bool { return false },
				AnswerBytes: 105 << 20, AnswerPatience: 106 * time.Second, BackupDir: t.TempDir(), SnapshotPatience: 107 * time.Second,
				WatchProgressInterval: 108 * time.Second, ElectionTimeout: 109 * time.Second, CertificateUsers: true,
				KeepAliveMinTime: 110 * time.Second, KeepAliveInterval: 111 * time.Second, KeepAliveTimeout: 112 * time.Second, WarnCall: 113 * time.Second,
				Logger: slog.New(slog.DiscardHandler),
			}
			c.Plain, c.HTTPOnly, c.Metrics = []net.Listener{listen(t)}, []net.Listener{listen(t), listen(t)}, []net.Listener{listen(t), listen(t), listen(t)}
			c.ClientTLS = &tls.Config{Certificates: certified(t).Certificates, MinVersion: tls.VersionTLS13, ServerName: "its own"}
			c.Logins = login.Config{Cost: 5, TTL: 114 * time.Second}
			c.Figures = metrics.Config{Register: prometheus.NewRegistry()}
			c.Tracing = tracing.Config{Address: "127.0.0.1:1", Service: "traced", PerMillion: 115}
			c.HTTP = HTTP{NoGateway: true, Hosts: []string{"host"}, Origins: []string{"http://origin"}, Profiles: true}
			c.MemoryLimit, c.History = 2<<30, Retention{Period: 116 * time.Hour}
			c.strangers, c.handshake = 117, 118*time.Second
		}},
	} {
		listeners := 0
		servers, _ := startWith(t, 1, func(c *Config) {
			c.MemoryLimit = 1 << 30
			tt.edit(c)
			listeners = len(c.Clients) + len(c.Plain) + len(c.HTTPOnly) + len(c.Metrics)
		})
		s := servers[0]
		until(t, "each listener has a port", func() bool {
			open := 0
			for _, p := range s.ports {
				p.mu.Lock()
				open += len(p.open)
				p.mu.Unlock()
			}
			return open == listeners
		})
		s.Stop() // nothing changes any more
		all := &shown{seen: map[uintptr]string{}}
		all.look("server", reflect.ValueOf(s), 0)
		slices.Sort(all.lines)
		fmt.Fprintf(&got, "== %s\n%s\n", tt.name, strings.Join(all.lines, "\n"))
	}
	golden.Lines(t, file, got.String())
}
