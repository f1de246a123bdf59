package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// beginning is how a connection of HTTP/2 begins, with a first call of a content type.
func beginning(t *testing.T, contentType string) []byte {
	var b, headers bytes.Buffer
	b.WriteString(http2.ClientPreface)
	frames := http2.NewFramer(&b, nil)
	pack := hpack.NewEncoder(&headers)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/"}, {Name: "content-type", Value: contentType}} {
		if err := pack.WriteField(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(frames.WriteSettings(), frames.WriteSettingsAck(),
		frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers.Bytes(), EndHeaders: true})); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The first bytes of a connection show its server. As soon as they show the protocol, the client is no stranger any more. A
// connection that ends before that has no server.
func TestWhichServerAConnectionIsFor(t *testing.T) {
	grpc, http := newLane(), newLane()
	name := map[*lane]string{grpc: "gRPC", http: "HTTP", nil: "none"}
	for _, tt := range []struct {
		what       string
		port       *port
		sends      []byte
		lane       *lane
		told, ends bool
	}{
		{"HTTP/1", &port{grpc: grpc, http: http}, []byte("GET / HTTP/1.1\r\n"), http, true, false},
		{"HTTP/1 that begins as HTTP/2", &port{grpc: grpc, http: http}, []byte("PRI / HTTP/1.1\r\n\r\n"), http, true, false},
		{"a call of gRPC", &port{grpc: grpc, http: http}, beginning(t, "application/grpc+proto"), grpc, true, false},
		{"a call of HTTP/2", &port{grpc: grpc, http: http}, beginning(t, "application/json"), http, true, false},
		{"nothing behind HTTP/2's beginning", &port{grpc: grpc, http: http}, []byte(http2.ClientPreface), grpc, true, false},
		{"the end before any byte", &port{grpc: grpc, http: http}, nil, nil, false, true},
		{"the end within HTTP/2's beginning", &port{grpc: grpc, http: http}, []byte(http2.ClientPreface[:9]), nil, false, true},
		{"the end behind HTTP/2's beginning", &port{grpc: grpc, http: http}, []byte(http2.ClientPreface), nil, true, true},
		{"HTTP/1 at a port of gRPC", &port{grpc: grpc}, []byte("GET / HTTP/1.1\r\n"), nil, true, false},
		{"HTTP/2 at a port of gRPC", &port{grpc: grpc}, beginning(t, "text/plain"), nil, true, false},
		{"anything at a port of HTTP", &port{http: http}, nil, http, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			defer here.Close()
			defer there.Close()
			go io.Copy(io.Discard, there)
			go func() {
				there.Write(tt.sends)
				if tt.ends {
					there.Close()
				}
			}()
			p, told := tt.port, 0
			p.firstCall = time.Second
			c := &guest{Conn: here}
			got, err := p.lane(c, func() { told++ })
			if got != tt.lane || (err == nil) != (tt.lane != nil) || (told == 1) != tt.told || told > 1 {
				t.Errorf("%s: the server is %s, %v, and the protocol was told %d times; want %s and %v", tt.what, name[got], err, told, name[tt.lane], tt.told)
			}
		})
	}
}

// failing is a listener that fails as it is told to, and notes when it was asked.
type failing struct {
	net.Listener
	accepts []bool // whether a connection comes
	asked   []time.Duration
	began   time.Time
	closed  bool
}

func (f *failing) Accept() (net.Conn, error) {
	if len(f.asked) == len(f.accepts) {
		return nil, net.ErrClosed
	}
	f.asked = append(f.asked, time.Since(f.began))
	if f.accepts[len(f.asked)-1] {
		here, there := net.Pipe()
		there.Close()
		return here, nil
	}
	return nil, passing{}
}

func (f *failing) Close() error { f.closed = true; return nil }

type passing struct{}

func (passing) Error() string   { return "out of file descriptors" }
func (passing) Temporary() bool { return true }

// A port that can take no connection pauses, longer each time up to a second, and begins anew behind one that it took. One that has
// ended closes what it was to serve.
func TestPausesOfAPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{accepts: make([]bool, 15), began: time.Now()}
		f.accepts[3] = true
		p := &port{strangers: &strangers{most: 9}, patience: time.Second, grpc: newLane(), http: newLane()}
		if err := p.serve(f); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a listener that breaks ends with %v", err)
		}
		var pauses []time.Duration
		for i := 1; i < len(f.asked); i++ {
			pauses = append(pauses, f.asked[i]-f.asked[i-1])
		}
		ms := time.Millisecond
		want := []time.Duration{5 * ms, 10 * ms, 20 * ms, 0, 5 * ms, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second, time.Second}
		if !slices.Equal(pauses, want) {
			t.Errorf("the pauses are %v, want %v", pauses, want)
		}
		p.end()
		late := &failing{}
		if err := p.serve(late); err != nil || !late.closed {
			t.Errorf("a listener that comes when the port has ended: %v, closed %v; want it closed", err, late.closed)
		}
		here, there := net.Pipe()
		p.take(here)
		there.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := there.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a connection that comes when the port has ended: %v, want it closed", err)
		}
	})
}
