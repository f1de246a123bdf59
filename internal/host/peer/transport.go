package peer

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/host/quietlog"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Transport is one member's end of the streams to all others. All methods may be
// called by any goroutine.
type Transport struct {
	cfg      Config
	timing   timing
	instance uint64 // tells this process from another with the same id
	start    time.Time
	events   *events
	refusals quietlog.Log
	guests   Guests

	answering chan struct{} // has room for the questions that are being answered

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]struct{}     // all that are open, for Close
	dialing map[ticket]machine.NodeID // whom this process is dialing
	remotes map[machine.NodeID]*remote
	removed []machine.NodeID
}

// New starts listening and dialing.
func New(cfg Config) (*Transport, error) { return start(cfg, defaultTiming) }

func start(cfg Config, tm timing) (*Transport, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Transport{
		cfg:     cfg,
		timing:  tm,
		start:   time.Now(),
		remotes: map[machine.NodeID]*remote{},
		events:  newEvents(),
		conns:   map[net.Conn]struct{}{},
		dialing: map[ticket]machine.NodeID{},

		answering: make(chan struct{}, answersMax),
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	t.instance = le.Uint64(id[:])
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.wg.Go(t.events.run)
	err := t.SetPeers(cfg.Peers, nil)
	t.wg.Go(t.accept) // last: a peer that has dialed already must be known
	return t, err
}

// SetPeers sets the peers from now on, as Config.Peers does, and the removed members, which
// are told so when they dial. Streams of those that are no peers any
// more, or that are elsewhere now, end.
func (t *Transport) SetPeers(peers map[machine.NodeID]string, removed []machine.NodeID) error {
	cfg := t.cfg
	cfg.Peers = peers
	if err := cfg.validate(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return ErrClosed
	}
	t.removed = removed
	for id, r := range t.remotes {
		if peers[id] != r.addr {
			delete(t.remotes, id)
			r.leave()
		}
	}
	for id, addr := range peers {
		if id != t.cfg.Self && t.remotes[id] == nil {
			r := newRemote(t, id, addr)
			t.remotes[id] = r
			t.wg.Go(r.run)
		}
	}
	return nil
}

// remote is what is known of a peer, nil if it is none.
func (t *Transport) remote(id machine.NodeID) *remote {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.remotes[id]
}

// leave ends all streams: those of messages here, the others with the context.
func (r *remote) leave() {
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in != nil {
		r.in.replaced.Store(true)
		r.in.hangUp()
	}
}

// Send queues a message, which must not be changed any more. It never blocks and
// reports whether the message was queued; if not, or if the connection is lost
// later, the message is lost.
func (t *Transport) Send(to machine.NodeID, msg []byte) bool {
	r := t.remote(to)
	return r != nil && r.send(msg)
}

// Close ends all streams and waits for all goroutines, so also for Deliver,
// Stream and the other callbacks to return.
func (t *Transport) Close() error {
	t.cancel()
	err := t.cfg.Listener.Close()
	t.mu.Lock()
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.events.close()
	t.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// track remembers an open connection for Close, which may have come before.
func (t *Transport) track(c net.Conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		c.Close()
		return ErrClosed
	}
	t.conns[c] = struct{}{}
	return nil
}

// drop closes a connection.
func (t *Transport) drop(c net.Conn) {
	c.Close()
	t.mu.Lock()
	delete(t.conns, c)
	t.mu.Unlock()
}

// accept takes connections until the listener is closed.
func (t *Transport) accept() {
	for {
		c, err := t.cfg.Listener.Accept()
		switch {
		case t.ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return
		case err != nil: // out of file descriptors, or the like
			t.refusals.Warn(t.cfg.Logger, "peer: cannot accept connections", "error", err)
			if sleep(t.ctx, 100*time.Millisecond) != nil {
				return
			}
			continue
		}
		if t.track(c) != nil {
			return
		}
		in, out := t.guests.Enter(c, t.guestsMax())
		if out != nil {
			t.refusals.Warn(t.cfg.Logger, "peer: too many unfinished handshakes, connection dropped", "from", out.conn.RemoteAddr())
		}
		t.wg.Go(func() {
			defer t.drop(c)
			defer t.guests.Leave(in)
			t.serve(in)
		})
	}
}

// dial connects to a peer and introduces us. hangUp ends the connection.
func (t *Transport) dial(ctx context.Context, r *remote, kind streamKind) (c net.Conn, hangUp func(), err error) {
	ticket, done := t.draw(r)
	defer done()
	return t.dialWith(ctx, r, kind, ticket, t.timing.handshake)
}

func (t *Transport) dialWith(ctx context.Context, r *remote, kind streamKind, ticket ticket, within time.Duration) (c net.Conn, hangUp func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	raw, err := t.cfg.Dial(ctx, r.addr)
	if err != nil {
		return nil, nil, fmt.Errorf("peer: %w", err)
	}
	if err := t.track(raw); err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	c, err = t.greet(ctx, raw, r, hello{kind: kind, ticket: ticket})
	if !stop() && err == nil {
		err = fmt.Errorf("peer: handshake: %w", ctx.Err())
	}
	if err != nil {
		t.drop(raw)
		return nil, nil, err
	}
	return c, func() { t.drop(raw) }, nil
}

func (t *Transport) greet(ctx context.Context, c net.Conn, r *remote, h hello) (net.Conn, error) {
	c, err := secure(ctx, c, t.cfg.TLS, r.addr)
	if err != nil {
		return nil, err
	}
	h.cluster, h.from, h.to, h.instance = t.cfg.ClusterID, t.cfg.Self, r.id, t.instance
	return c, h.introduce(c)
}

// secure begins TLS, if there is a configuration for it.
func secure(ctx context.Context, c net.Conn, with *tls.Config, addr string) (net.Conn, error) {
	if with == nil {
		return c, nil
	}
	cfg := with.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(addr) // validated
	}
	tc := tls.Client(c, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("peer: TLS handshake with %s: %w", addr, err)
	}
	return tc, nil
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
