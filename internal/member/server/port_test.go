package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// webClient speaks HTTP of one version, and trusts anybody.
func webClient(t *testing.T, set func(*http.Protocols)) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	set(protocols)
	tr := &http.Transport{Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

func get(t *testing.T, c *http.Client, url string) (r *http.Response, body string) {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	read, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, string(read)
}

// One port serves gRPC and HTTP in both versions, with TLS and without.
func TestAPortServesGRPCAndHTTP(t *testing.T) {
	versions := map[string]struct {
		set   func(*http.Protocols)
		major int
	}{
		"HTTP/1.1":           {func(p *http.Protocols) { p.SetHTTP1(true) }, 1},
		"HTTP/2":             {func(p *http.Protocols) { p.SetHTTP2(true); p.SetUnencryptedHTTP2(true) }, 2},
		"either, by choice,": {func(p *http.Protocols) { p.SetHTTP1(true); p.SetHTTP2(true) }, 0},
	}
	for scheme, edit := range map[string]func(*Config){
		"http":  func(*Config) {},
		"https": func(c *Config) { c.ClientTLS = certified(t) },
	} {
		_, endpoints := startWith(t, 1, edit)
		for name, version := range versions {
			r, body := get(t, webClient(t, version.set), scheme+"://"+endpoints[0]+"/version")
			if r.StatusCode != 200 || !strings.Contains(body, `"etcdserver":"3.7.`) || version.major > 0 && r.ProtoMajor != version.major {
				t.Errorf("%s by %s: %s %d %q, want the version", name, scheme, r.Proto, r.StatusCode, body)
			}
		}
		creds := insecure.NewCredentials()
		if scheme == "https" {
			creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
			for _, name := range []string{"h2", "http/1.1"} {
				c, err := tls.Dial("tcp", endpoints[0], &tls.Config{InsecureSkipVerify: true, NextProtos: []string{name}})
				if err != nil {
					t.Errorf("a client that offers %s alone: %v", name, err)
					continue
				}
				if got := c.ConnectionState().NegotiatedProtocol; got != name {
					t.Errorf("a client that offers %s alone gets %q", name, got)
				}
				c.Close()
			}
		}
		conn, err := grpc.NewClient(endpoints[0], grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte("k")}); err != nil {
			t.Errorf("gRPC by %s: %v", scheme, err)
		}
	}
}

// framed is a message of gRPC as it is on the wire.
func framed(payload string) string { return "\x00\x00\x00\x00" + string(rune(len(payload))) + payload }

// A proxy may send calls of gRPC on a connection that began with another request.
func TestGRPCBehindAnotherRequest(t *testing.T) {
	_, endpoints := start(t, 1)
	var dialed atomic.Bool
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialed.Swap(true) { // there is one connection, however busy it seems to the client
			<-t.Context().Done()
			return nil, t.Context().Err()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr, Timeout: 10 * time.Second}
	get(t, c, "http://"+endpoints[0]+"/version")
	req, err := http.NewRequest(http.MethodPost, "http://"+endpoints[0]+"/etcdserverpb.KV/Range", strings.NewReader(framed("\x0a\x01k")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if _, err := io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	if got := r.Trailer.Get("Grpc-Status"); got != "0" {
		t.Errorf("a call behind another request: status %q %v, want 0", got, r.Header)
	}
}

// A client of gRPC may be connected for long before it calls.
func TestGRPCThatCallsLate(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	grpcs, webs := newLane(), newLane()
	p := &port{strangers: &strangers{most: 1}, patience: 10 * time.Second, firstCall: 20 * time.Millisecond, grpc: grpcs, http: webs}
	defer p.end()
	go io.Copy(io.Discard, there)
	go func() {
		io.WriteString(there, http2.ClientPreface)
		http2.NewFramer(there, nil).WriteSettings()
	}()
	p.take(here)
	c, err := grpcs.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	head := make([]byte, len(http2.ClientPreface)+9)
	if _, err := io.ReadFull(c, head); err != nil || !strings.HasPrefix(string(head), http2.ClientPreface) {
		t.Errorf("the server reads %q, %v, want all that the client has sent", head, err)
	}
}

// A client learns how many calls it may have in flight before the first.
func TestCallsInFlightAreToldFirst(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	told := make(chan uint32, 1)
	go func() {
		defer there.Close()
		frame, err := http2.NewFramer(nil, there).ReadFrame()
		if settings, ok := frame.(*http2.SettingsFrame); err == nil && ok {
			n, _ := settings.Value(http2.SettingMaxConcurrentStreams)
			told <- n
		}
		close(told)
	}()
	(&guest{Conn: here}).callsGRPC(7, time.Second)
	if n := <-told; n != 7 {
		t.Errorf("the first settings permit %d calls in flight, want 7", n)
	}
}

// A client that sends without end before it calls is cut off.
func TestAHeadWithoutEndIsCut(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	sent := make(chan int, 1)
	go func() {
		go io.Copy(io.Discard, there)
		framer, n := http2.NewFramer(there, nil), 0
		for ; n < 1000 && framer.WriteData(1, false, make([]byte, 16<<10)) == nil; n++ {
		}
		sent <- n
	}()
	_, err := (&guest{Conn: here}).callsGRPC(0, 10*time.Second)
	here.Close()
	if n := <-sent; !errors.Is(err, errLongHead) && n >= 1000 {
		t.Errorf("%d KiB before a call were read, %v, want %v", 16*n, err, errLongHead)
	}
}

// Headers that a client has compressed have a bound too, as they are when unpacked: what stands behind it is not
// looked at. A few bytes may unpack to as much as a member has.
func TestHeadersAreBoundedUnpacked(t *testing.T) {
	for name, tt := range map[string]struct {
		times int // of a header of 4,000 bytes
		want  bool
	}{"a few headers": {4, true}, "many headers": {40, false}} {
		here, there := net.Pipe()
		go func() {
			go io.Copy(io.Discard, there)
			var block bytes.Buffer
			packed := hpack.NewEncoder(&block)
			for range tt.times {
				packed.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 4000)})
			}
			packed.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/grpc"})
			framer := http2.NewFramer(there, nil)
			framer.WriteSettings()
			framer.WriteSettingsAck()
			framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
		}()
		got, err := (&guest{Conn: here}).callsGRPC(0, 10*time.Second)
		here.Close()
		if got != tt.want {
			t.Errorf("%s of 4,000 bytes before the content type: taken for gRPC is %v, %v; want %v", name, got, err, tt.want)
		}
	}
}

// Calls find the client's certificate, as if gRPC had made the handshake.
func TestCallsFindTheCertificate(t *testing.T) {
	state := tls.ConnectionState{HandshakeComplete: true, ServerName: "s"}
	_, info, err := introduction{}.ServerHandshake(&guest{tls: &state})
	if known, ok := info.(credentials.TLSInfo); err != nil || !ok || known.State.ServerName != "s" || known.SecurityLevel != credentials.PrivacyAndIntegrity {
		t.Errorf("a call by TLS finds %#v, %v, want the state of its connection", info, err)
	}
	if _, info, err = (introduction{}).ServerHandshake(&guest{}); err != nil || info.AuthType() != "insecure" {
		t.Errorf("a call without TLS finds %#v, %v, want that it is insecure", info, err)
	}
	if _, ok := peer.FromContext(t.Context()); ok {
		t.Error("a context has a peer that nobody put there")
	}
}

// A port goes on when it runs out of file descriptors for a moment.
type exhausted struct {
	net.Listener
	left int
}

func (e *exhausted) Accept() (net.Conn, error) {
	if e.left--; e.left >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return e.Listener.Accept()
}

func TestAPortOutlastsExhaustion(t *testing.T) {
	_, endpoints := startWith(t, 1, func(c *Config) { c.Clients[0] = &exhausted{c.Clients[0], 3} })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := dial(t, endpoints[0]).Get(ctx, "k", clientv3.WithSerializable()); err != nil {
		t.Errorf("after file descriptors were short: %v", err)
	}
}

// A connection in its handshake does not keep a server from stopping.
func TestStopCutsHandshakes(t *testing.T) {
	servers, endpoints := startWith(t, 1, func(c *Config) { c.ClientTLS = certified(t) })
	c := silent(t, endpoints[0])
	s := &servers[0].strangers
	until(t, "the stranger is in", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.inside) == 1
	})
	begin := time.Now()
	stopInTime(t, servers[0])
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("a handshake kept the server for %v, want that it is cut", took)
	}
	wantPutOut(t, c, "a stranger of a server that stopped")
}

// HTTP has limits before anything is known of a client: the connections, and the size of headers
// and the time for them.
func TestHTTPIsBounded(t *testing.T) {
	servers, endpoints := startWith(t, 1, func(c *Config) { c.handshake = 100 * time.Millisecond })
	c := silent(t, endpoints[0])
	io.WriteString(c, "GET /version HTTP/1.1\r\nHost: a\r\nX-Slow: ")
	wantPutOut(t, c, "a client that does not end its headers")
	c = silent(t, endpoints[0])
	io.WriteString(c, "GET /version HTTP/1.1\r\nHost: a\r\nX-Long: "+strings.Repeat("x", headerBytes+8<<10)+"\r\n\r\n")
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	answer, _ := io.ReadAll(c)
	if !strings.Contains(string(answer), "431 ") {
		t.Errorf("long headers are answered by %.60q, want 431", answer)
	}
	if got := servers[0].web.server; got.IdleTimeout != idlePatience || got.ReadHeaderTimeout != 100*time.Millisecond {
		t.Errorf("idle connections stay %v and headers take %v, want %v and the handshake's time", got.IdleTimeout, got.ReadHeaderTimeout, idlePatience)
	}
	b := &bounded{lane: newLane(), most: 2}
	defer b.Close()
	var inside []net.Conn
	pass := func() net.Conn {
		here, there := net.Pipe()
		go b.pass(&guest{Conn: here})
		return there
	}
	for range 2 {
		pass()
		c, err := b.Accept()
		if err != nil {
			t.Fatal(err)
		}
		inside = append(inside, c)
	}
	third := pass()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := b.Accept()
		accepted <- c
	}()
	wantPutOut(t, third, "a connection for which there is no room")
	inside[0].Close()
	inside[0].Close() // once
	pass()
	if c := <-accepted; c == nil {
		t.Error("a connection that was closed leaves no room for another")
	}
	if b.inside != 2 {
		t.Errorf("%d connections count as open, want 2", b.inside)
	}
}

// A port for metrics tells health, and neither versions nor data.
func TestAPortForMetrics(t *testing.T) {
	metrics := listen(t)
	servers, _ := startWith(t, 1, func(c *Config) { c.Metrics = []net.Listener{metrics} })
	c := webClient(t, func(p *http.Protocols) { p.SetHTTP1(true) })
	at := "http://" + metrics.Addr().String()
	for path, want := range map[string]int{"/health": 200, "/livez": 200, "/readyz": 200, "/version": 404, "/v3/kv/range": 404} {
		if r, body := get(t, c, at+path); r.StatusCode != want {
			t.Errorf("%s at the port for metrics: %d %q, want %d", path, r.StatusCode, body, want)
		}
	}
	servers[0].Stop()
	if _, err := net.Dial("tcp", metrics.Addr().String()); err == nil {
		t.Error("the port for metrics is open after the server was stopped")
	}
}

// A connection that is passed to a server that has ended is closed.
func TestALaneThatHasEnded(t *testing.T) {
	l, c := newLane(), &shut{}
	l.Close()
	l.Close()
	if l.pass(c); !c.closed {
		t.Error("a connection for a server that has ended is left open")
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a lane that has ended accepts: %v, want %v", err, net.ErrClosed)
	}
}
