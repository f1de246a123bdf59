package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// The limits of HTTP that hold before anything is known of a client.
const (
	headerBytes  = 64 << 10
	idlePatience = 2 * time.Minute
	// webMost is how many connections of HTTP there may be. A gateway's clients have one each.
	webMost = 10_000
)

// web is the HTTP side of a member: the same handler at all of its ports.
type web struct {
	server *http.Server
	lane   *lane

	cancel context.CancelFunc // of all calls: the server does not close websockets

	mu    sync.Mutex
	ended bool
	calls sync.WaitGroup // that are being answered
}

// guestKey is where a request's context has the connection.
type guestKey struct{}

// newWeb serves a handler, and calls of gRPC that come on a connection whose first call was
// another, as proxies mix them.
func newWeb(handler http.Handler, calls *grpc.Server, handshake time.Duration, streams uint32, logger *slog.Logger) *web {
	base, cancel := context.WithCancel(context.Background())
	w := &web{lane: newLane(), cancel: cancel}
	w.server = &http.Server{
		ReadHeaderTimeout: handshake, IdleTimeout: idlePatience, MaxHeaderBytes: headerBytes,
		ErrorLog:    slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // mistakes are mostly the clients'
		Protocols:   new(http.Protocols),
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: math.MaxInt32},
		BaseContext: func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, guestKey{}, c) },
		Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if !w.begin() {
				return
			}
			defer w.calls.Done()
			if c, ok := r.Context().Value(guestKey{}).(*counted); ok {
				r.TLS = c.guest.tls
			}
			if calls != nil && r.ProtoMajor == 2 && isGRPC(r.Header.Get("Content-Type")) {
				calls.ServeHTTP(out, r)
				return
			}
			handler.ServeHTTP(out, r)
		}),
	}
	if streams > 0 {
		w.server.HTTP2.MaxConcurrentStreams = int(min(streams, math.MaxInt32))
	}
	w.server.Protocols.SetHTTP1(true)
	w.server.Protocols.SetUnencryptedHTTP2(true) // the port has undone the encryption
	return w
}

// serve serves the connections that ports find to be HTTP's.
func (w *web) serve() error {
	err := w.server.Serve(&bounded{lane: w.lane, most: webMost})
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// begin notes that a call is being answered, unless the server has ended.
func (w *web) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.calls.Add(1)
	}
	return !w.ended
}

// end closes all connections, and waits for what was done for them.
func (w *web) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.server.Close()
	w.cancel()
	w.calls.Wait()
}

// A bounded listener closes connections beyond a number.
type bounded struct {
	*lane
	most int

	mu     sync.Mutex
	inside int
}

// Accept returns the next connection for which there is room.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.lane.Accept()
		if err != nil {
			return nil, err
		}
		if b.enter() {
			return &counted{guest: c.(*guest), leave: sync.OnceFunc(b.leave)}, nil
		}
		c.Close()
	}
}

func (b *bounded) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inside >= b.most {
		return false
	}
	b.inside++
	return true
}

func (b *bounded) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside--
}

// counted is a connection that gives its room back when it is closed.
type counted struct {
	*guest
	leave func()
}

// Close closes the connection.
func (c *counted) Close() error {
	c.leave()
	return c.guest.Close()
}
