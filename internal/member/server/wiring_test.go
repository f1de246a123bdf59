package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/net/http2"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/member/tracing"
)

// everywhere is a member with all kinds of ports: for clients, for HTTP alone, and for metrics.
func everywhere(t *testing.T, edit func(*Config)) (s *Server, clients, plain, probes string) {
	t.Helper()
	alone, metrics := listen(t), listen(t)
	servers, endpoints := startWith(t, 1, func(c *Config) {
		c.HTTPOnly, c.Metrics = []net.Listener{alone}, []net.Listener{metrics}
		edit(c)
	})
	return servers[0], endpoints[0], alone.Addr().String(), metrics.Addr().String()
}

// All ports have the limits of the configuration, and each serves what it is for. Ports for metrics have no TLS.
func TestPortsHaveTheLimits(t *testing.T) {
	s, clients, plain, probes := everywhere(t, func(c *Config) {
		c.ClientTLS, c.API.MaxConcurrentStreams, c.handshake, c.strangers = certified(t), 7, 3*time.Second, 5
	})
	for i, w := range []*web{s.web, s.plain, s.probes} {
		if got := w.server; got.HTTP2.MaxConcurrentStreams != 7 || got.ReadHeaderTimeout != 3*time.Second || got.MaxHeaderBytes != headerBytes {
			t.Errorf("server %d of HTTP has %d calls in flight, %v and %d bytes for headers, want 7, 3 s and %d",
				i, got.HTTP2.MaxConcurrentStreams, got.ReadHeaderTimeout, got.MaxHeaderBytes, headerBytes)
		}
	}
	for i, p := range s.ports {
		if p.patience != 3*time.Second || p.strangers != &s.strangers || (p.tls != nil) != (i == 0 || i == 2) {
			t.Errorf("port %d: patience %v, strangers of its own %v, TLS %v; want 3 s, the member's, and TLS for clients and for HTTP alone", i, p.patience, p.strangers != &s.strangers, p.tls != nil)
		}
	}
	for _, p := range s.ports[:2] {
		if p.streams != 7 || p.firstCall != firstCall || p.http != nil {
			t.Errorf("the port of gRPC tells %d calls in flight, waits %v for the first, serves HTTP %v; want 7, %v and no", p.streams, p.firstCall, p.http != nil, firstCall)
		}
	}
	if s.strangers.most != 5 {
		t.Errorf("%d strangers may be inside, want 5", s.strangers.most)
	}
	if none := newWeb(http.NotFoundHandler(), nil, time.Second, 0, slog.New(slog.DiscardHandler)).server; none.HTTP2.MaxConcurrentStreams != math.MaxInt32 {
		t.Errorf("without a bound %d calls may be in flight", none.HTTP2.MaxConcurrentStreams)
	}
	both := webClient(t, func(p *http.Protocols) { p.SetHTTP1(true); p.SetHTTP2(true) })
	if r, body := get(t, both, "https://"+plain+"/version"); r.StatusCode != 200 || !strings.Contains(body, "etcdserver") {
		t.Errorf("the port for HTTP alone: %d %q", r.StatusCode, body)
	}
	if r, _ := get(t, both, "http://"+probes+"/livez"); r.StatusCode != 200 {
		t.Errorf("the port for metrics: %d", r.StatusCode)
	}
	if r, err := both.Get("https://" + clients + "/version"); err == nil {
		r.Body.Close()
		t.Errorf("the port of gRPC answers HTTP by %d", r.StatusCode)
	}
	req, err := http.NewRequest(http.MethodPost, "https://"+plain+"/etcdserverpb.KV/Range", strings.NewReader(framed("\x0a\x01k")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	r, err := both.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if isGRPC(r.Header.Get("Content-Type")) {
		t.Errorf("the port for HTTP alone answers a call of gRPC: %v", r.Header)
	}
}

// A member that leaves takes no more connections of clients, answers the request by HTTP that is under way, at whichever
// port, and tells its figures until the end. Idle connections are closed then.
func TestShutdownAnswersHTTP(t *testing.T) {
	for _, alone := range []bool{false, true} {
		open := listen(t)
		s, clients, plain, probes := everywhere(t, func(c *Config) { c.Plain = []net.Listener{open} })
		w := s.web
		if alone {
			w = s.plain
		}
		come, release, next := make(chan struct{}), make(chan struct{}), w.server.Handler
		var cut atomic.Bool
		w.server.Handler = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			close(come)
			select {
			case <-release:
			case <-r.Context().Done():
				cut.Store(true)
			}
			next.ServeHTTP(out, r)
		})
		here, there := net.Pipe()
		go io.WriteString(there, "GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		answered := make(chan string, 1)
		go func() {
			all, _ := io.ReadAll(there)
			answered <- string(all)
		}()
		w.lane.pass(&guest{Conn: here})
		<-come
		idle := silent(t, probes)
		io.WriteString(idle, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
		if n, err := idle.Read(make([]byte, 1000)); err != nil || n == 0 {
			t.Fatalf("a probe: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		left := make(chan struct{})
		go func() {
			defer close(left)
			s.Shutdown(ctx)
		}()
		for name, at := range map[string]string{"gRPC": clients, "gRPC without TLS": open.Addr().String(), "HTTP alone": plain} {
			for deadline := time.Now().Add(5 * time.Second); ; {
				conn, err := net.Dial("tcp", at)
				if err != nil {
					break
				}
				if conn.Close(); time.Now().After(deadline) {
					t.Errorf("a member that leaves takes connections at the port of %s", name)
					break
				}
			}
		}
		time.Sleep(100 * time.Millisecond) // a member that does not wait for requests has ended by then
		fresh := webClient(t, func(p *http.Protocols) { p.SetHTTP1(true) })
		if r, err := fresh.Get("http://" + probes + "/metrics"); err != nil || r.StatusCode != 200 {
			t.Errorf("figures of a member that leaves: %v, want them until the end", err)
		} else {
			r.Body.Close()
		}
		close(release)
		if got := <-answered; cut.Load() || !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("HTTP alone %v: a request that was under way is answered by %.40q, cut %v, want 200", alone, got, cut.Load())
		}
		if <-left; ctx.Err() != nil {
			t.Error("the shutdown waited for all of its time")
		}
		wantPutOut(t, idle, "an idle connection of a member that stopped")
	}
}

// HTTP is served as configured: hosts, origins, profiles, and the size of bodies. Refusals are logged.
func TestHTTPIsAsConfigured(t *testing.T) {
	var log lines
	_, endpoints := startWith(t, 1, func(c *Config) {
		c.HTTP = HTTP{Hosts: []string{"here"}, Origins: []string{"http://pages"}, Profiles: true}
		c.API.MaxRequestBytes, c.Node.Logger = 1000, log.logger()
	})
	ask := func(method, host, origin, path, body string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequest(method, "http://"+endpoints[0]+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Origin", origin)
		c := webClient(t, func(p *http.Protocols) { p.SetHTTP1(true) })
		r, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		all, _ := io.ReadAll(r.Body)
		return r, string(all)
	}
	if r, _ := ask("GET", "here", "", "/version", ""); r.StatusCode != 200 {
		t.Errorf("for a host that may be asked: %d", r.StatusCode)
	}
	if r, _ := ask("GET", "elsewhere", "", "/version", ""); r.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("for another host: %d, want 421", r.StatusCode)
	}
	if !log.has("an HTTP request for a host that is not whitelisted") {
		t.Error("the member's log does not tell of a host that is not whitelisted")
	}
	for origin, want := range map[string]string{"http://pages": "http://pages", "here": "", "http://others": ""} {
		if r, _ := ask("GET", "here", origin, "/version", ""); r.Header.Get("Access-Control-Allow-Origin") != want {
			t.Errorf("pages of %s may ask: %q, want %q", origin, r.Header.Get("Access-Control-Allow-Origin"), want)
		}
	}
	if r, _ := ask("GET", "here", "", "/debug/pprof/", ""); r.StatusCode != 200 {
		t.Errorf("profiles: %d, want them", r.StatusCode)
	}
	long := strings.Repeat("A", 2*(1000+etcdapi.WireOverhead))
	if r, body := ask("POST", "here", "", "/v3/kv/put", `{"key":"`+long+`"}`); r.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, "the body is larger than") {
		t.Errorf("a body twice as large as requests may be, and more: %d %.80q", r.StatusCode, body)
	}
}

// The limits of the gateway follow from those of the API.
func TestGatewayLimits(t *testing.T) {
	none := newMemory(0, slog.Default())
	const large = 100 << 20
	got := Config{API: etcdapi.Config{MaxRequestBytes: large, AnswerBytes: 9}}.gatewayLimits(none)
	if body := int64(2 * (large + etcdapi.WireOverhead)); got.BodyBytes != body || got.BodiesBytes != 2*body || got.AnswersBytes != 9 {
		t.Errorf("with large requests: %+v, want bodies of %d bytes, two of them, and answers of 9", got, body)
	}
	if got := (Config{}).gatewayLimits(none); got.BodyBytes != 0 || got.BodiesBytes != bodiesBytes {
		t.Errorf("by default: %+v", got)
	}
}

// Answers by JSON may be larger than gRPC's clients take by default.
func TestLargeAnswersByJSON(t *testing.T) {
	_, endpoints := start(t, 1)
	c, g := dial(t, endpoints[0]), gatewayOf(t, endpoints[0])
	for _, key := range []string{"a", "b", "c", "d"} {
		if _, err := c.Put(t.Context(), key, strings.Repeat("x", 1400<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if kvs, _ := g.want("/v3/kv/range", `{"key":"`+b64("a")+`","range_end":"`+b64("z")+`"}`)["kvs"].([]any); len(kvs) != 4 {
		t.Errorf("an answer of 5.6 MB has %d keys, want 4", len(kvs))
	}
}

// Figures that go by memory and by calls are the member's: the quota without an operator's, calls that the API refuses,
// sizes with history and without, bytes from clients and to them, and a shortage.
func TestFiguresOfAMember(t *testing.T) {
	servers, endpoints := startWith(t, 1, func(c *Config) { c.MemoryLimit, c.Logins.Cost = 100<<30, bcrypt.MinCost })
	s, c := servers[0], dial(t, endpoints[0])
	for range 3 {
		if _, err := c.Put(t.Context(), "k", strings.Repeat("x", 100_000)); err != nil {
			t.Fatal(err)
		}
	}
	quota := int64(100<<30) / 10 * quotaTenths
	of := source{s.Node, s, 5}
	if of.Quota() != 5 || s.room.quota != quota {
		t.Errorf("the quotas are %d and %d, want 5 and %d", of.Quota(), s.room.quota, quota)
	}
	if size, inUse := of.Size(), of.SizeInUse(); size < 300_000 || inUse > 200_000 || inUse < 100_000 {
		t.Errorf("the size is %d, of which %d are in use; want three versions, and one", size, inUse)
	}
	if received, sent := of.Traffic(); received < 300_000 || sent > 100_000 {
		t.Errorf("%d bytes from clients and %d to them, want three puts and their answers", received, sent)
	}
	enableUsers(t, c)
	if _, err := c.Get(t.Context(), "k"); err == nil {
		t.Error("nobody's call is answered")
	}
	s.memory.short.Store(true)
	if !of.Short() {
		t.Error("memory is short, and the figures do not tell")
	}
	_, body := get(t, webClient(t, func(p *http.Protocols) { p.SetHTTP1(true) }), "http://"+endpoints[0]+"/metrics")
	for _, line := range []string{
		`grpc_server_handled_total{grpc_code="InvalidArgument",grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"} 1`,
		"etcd_server_quota_backend_bytes 6.44245",
		`etcd_server_apply_duration_seconds_count{op="Put",success="true",version="v3"} 3`,
		"etcd_disk_wal_write_bytes_total 3", // three times 100,000 and more
	} {
		if !strings.Contains(body, line) {
			t.Errorf("the figures lack %q", line)
		}
	}
}

// A program that measures syncs, writes and requests at the state itself goes on to do so.
func TestSyncsAreToldToTheProgram(t *testing.T) {
	var told, wrote, applied atomic.Int32
	_, endpoints := startWith(t, 1, func(c *Config) {
		c.Node.Synced = func(time.Duration) { told.Add(1) }
		c.Node.WAL.Wrote = func(int, time.Duration) { wrote.Add(1) }
		c.Node.Applied = func(string, bool, time.Duration) { applied.Add(1) }
	})
	if _, err := dial(t, endpoints[0]).Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	if told.Load() == 0 {
		t.Error("the program was told of no sync")
	}
	if wrote.Load() == 0 || applied.Load() == 0 {
		t.Errorf("the program was told of %d writes and %d requests, want some", wrote.Load(), applied.Load())
	}
}

// Traces that no collector takes are lost when the member stops, and its log tells.
func TestLostTracesAreTold(t *testing.T) {
	var log lines
	servers, endpoints := startWith(t, 1, func(c *Config) {
		c.Tracing, c.Node.Logger = tracing.Config{Address: "127.0.0.1:1", Service: "s", PerMillion: tracing.MaxPerMillion}, log.logger()
	})
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if servers[0].Stop(); !log.has("traces are lost") {
		t.Error("the member's log does not tell that traces are lost")
	}
}

// Snapshots are put together in the data directory, unless the configuration says where, or the files are not the host's. A
// quota beyond the memory is told.
func TestWhereAPIsFindRoom(t *testing.T) {
	none := newMemory(0, slog.Default())
	for _, tt := range []struct {
		own  string
		fs   wal.FS
		want string
	}{{"", nil, "data"}, {"own", nil, "own"}, {"", wal.OS{}, ""}, {"own", wal.OS{}, "own"}} {
		cfg := Config{API: etcdapi.Config{BackupDir: tt.own}, Node: node.Config{DataDir: "data"}}
		cfg.Node.WAL.FS = tt.fs
		if got := cfg.api(none).BackupDir; got != tt.want {
			t.Errorf("with %q and files %v snapshots are put together in %q, want %q", tt.own, tt.fs, got, tt.want)
		}
	}
	for quota, want := range map[int64]string{5000: "quota=5000 holds=600", 600: "", 500: "", 0: ""} {
		var log bytes.Buffer
		Config{API: etcdapi.Config{QuotaBytes: quota}}.api(newMemory(1000, slog.New(slog.NewTextHandler(&log, nil))))
		if got := log.String(); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("quota %d in 1000 bytes of memory: told %q, want %q", quota, got, want)
		}
	}
}

// Protocols are negotiated by a copy of the configuration, once each, also by one that is chosen for a client.
func TestNegotiating(t *testing.T) {
	chosen := &tls.Config{NextProtos: []string{"other"}}
	given := &tls.Config{NextProtos: []string{protocolHTTP1}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return chosen, nil }}
	got := negotiating(given)
	if want := []string{protocolHTTP1, protocolHTTP2}; !slices.Equal(got.NextProtos, want) {
		t.Errorf("protocols %q, want %q", got.NextProtos, want)
	}
	its, err := got.GetConfigForClient(nil)
	if want := []string{"other", protocolHTTP2, protocolHTTP1}; err != nil || !slices.Equal(its.NextProtos, want) {
		t.Errorf("protocols for a client %q, %v, want %q", its.NextProtos, err, want)
	}
	if len(given.NextProtos) != 1 || len(chosen.NextProtos) != 1 {
		t.Errorf("the caller's configurations were changed: %q and %q", given.NextProtos, chosen.NextProtos)
	}
	chosen = nil // then the first counts
	if its, err := got.GetConfigForClient(nil); err != nil || its != nil {
		t.Errorf("no configuration for a client: %v, %v", its, err)
	}
}

// Further settings of a client are passed on: only the acknowledgment of the port's own is kept back.
func TestSettingsArePassedOn(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	go io.Copy(io.Discard, there)
	go func() {
		framer := http2.NewFramer(there, nil)
		framer.WriteSettings()
		framer.WriteSettingsAck()
		framer.WriteSettingsAck()
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true})
	}()
	c := &guest{Conn: here}
	if is, err := c.callsGRPC(0, 10*time.Second); is || err != nil {
		t.Errorf("a request of HTTP is taken for gRPC: %v, %v", is, err)
	}
	if want := 9 + 9 + 9; len(c.head) != want {
		t.Errorf("%d bytes are passed on, want %d: settings, an acknowledgment that is not the first, and headers", len(c.head), want)
	}
}

// A client that has called, and acknowledges no settings, is none of gRPC's, however long it waits: only one that has not
// called is taken for that.
func TestAClientThatAcknowledgesNothing(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	go io.Copy(io.Discard, there)
	go http2.NewFramer(there, nil).WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true})
	if is, err := (&guest{Conn: here}).callsGRPC(0, 50*time.Millisecond); is || err == nil {
		t.Errorf("taken for gRPC: %v, %v, want an error", is, err)
	}
}
