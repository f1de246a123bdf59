package main

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Connections at any of the listeners are taken in, errors are passed on, and after the end there is nothing left of them.
func TestManyListeners(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var all []net.Listener
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	if got := listenMany(all[:1]); got != all[0] {
		t.Errorf("one listener alone becomes %T", got)
	}
	m := listenMany(all)
	if m.Addr() != all[0].Addr() {
		t.Errorf("the address is %v, want that of the first, %v", m.Addr(), all[0].Addr())
	}
	for _, l := range []net.Listener{all[1], all[0], all[2], all[1]} {
		out, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		in, err := m.Accept()
		if err != nil || in.LocalAddr().String() != l.Addr().String() {
			t.Fatalf("a connection to %v: %v, %v", l.Addr(), in, err)
		}
		in.Close()
	}
	unheard, err := net.Dial("tcp", all[2].Addr().String()) // nobody accepts it
	if err != nil {
		t.Fatal(err)
	}
	defer unheard.Close()
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Errorf("the end: %v", err)
	}
	if _, err := m.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v, want %v", err, net.ErrClosed)
	}
	for _, l := range all {
		if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
			c.Close()
			t.Errorf("after the end %v takes connections", l.Addr())
		}
	}
	odd := listenMany([]net.Listener{oddListener{make(chan struct{})}, oddListener{make(chan struct{})}})
	if _, err := odd.Accept(); !errors.Is(err, errDescriptors) {
		t.Errorf("a listener that fails: %v, want %v", err, errDescriptors)
	}
	odd.Close()
}

var errDescriptors = errors.New("too many open files")

// oddListener fails until it is closed.
type oddListener struct{ closed chan struct{} }

func (l oddListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
		return nil, errDescriptors
	}
}
func (l oddListener) Close() error { close(l.closed); return nil }
func (oddListener) Addr() net.Addr { return &net.TCPAddr{} }

// A member may listen for others at several URLs of one scheme, and is reached at each. For others it has one.
func TestServeListensForPeersAtManyURLs(t *testing.T) {
	config := func(args ...string) (net.Listener, error) {
		t.Helper()
		o, err := parse(t, append([]string{"--data-dir", t.TempDir(), "--listen-client-urls", "http://127.0.0.1:0"}, args...), nil)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := o.config(slog.New(slog.DiscardHandler), func(error) {})
		if err != nil {
			return nil, err
		}
		if len(cfg.Clients) != 1 || len(cfg.HTTPOnly) != 0 {
			t.Errorf("%q: %d listeners are for clients and %d for HTTP, want 1 and 0", args, len(cfg.Clients), len(cfg.HTTPOnly))
		}
		cfg.Clients[0].Close()
		return cfg.Node.PeerListener, nil
	}
	addr := freeAddresses(t, 2)
	l, err := config("--listen-peer-urls", "http://"+addr[0]+",http://"+addr[1])
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, at := range addr {
		out, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatalf("the member does not listen at %s: %v", at, err)
		}
		defer out.Close()
		if in, err := l.Accept(); err != nil || in.LocalAddr().String() != at {
			t.Errorf("a connection to %s: %v, %v", at, in, err)
		}
	}
	for _, tt := range []struct{ listen, advertise, want string }{
		{"http://127.0.0.1:0,https://127.0.0.1:0", "http://localhost:2380", "either all of them https or none"},
		{"http://127.0.0.1:0", "http://a:1,http://b:1", "--initial-advertise-peer-urls http://a:1,http://b:1: a member has one URL for the others"},
		{"", "http://a:1", "--listen-peer-urls: want a URL"},
		{"https://127.0.0.1:0,http://127.0.0.1:0", "https://a:1", "either all of them https or none"},
	} {
		_, err := config("--listen-peer-urls="+tt.listen, "--initial-advertise-peer-urls", tt.advertise)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("listening at %q as %s: %v, want %q", tt.listen, tt.advertise, err, tt.want)
		}
	}
}
