package flease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// Client is a tenure.Leaser through the peer that listens at a socket of this machine; see
// Peer.Serve. Its leases last while it keeps its connection and names them in time. It is a
// tenure.Awaiter as well.
type Client struct {
	cfg    ClientConfig
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	close  sync.Once
	closed error
	clocks holder.Clocks
	calls  *holder.Calls

	mu      sync.Mutex
	conn    *clientConn   // the newest; nil before the first
	conns   []*clientConn // open ones, and ended ones whose leases may not have run out
	dialing chan struct{} // holds a token while a caller dials
	running sync.WaitGroup
}

var (
	_ tenure.Leaser  = (*Client)(nil)
	_ tenure.Awaiter = (*Client)(nil)
)

// ClientConfig describes a Client. Only Socket is required.
type ClientConfig struct {
	// Socket is the path at which the peer listens.
	Socket string
	// Dial connects to it. Default: net.Dialer, as a unix socket.
	Dial func(ctx context.Context, path string) (net.Conn, error)
	// Clock counts suspend. It has to be the clock that the peer reads. Default clock.System.
	Clock clock.Clock
}

// Dial connects to the peer that listens at the path, or is about to, see Await.
func Dial(ctx context.Context, path string) (*Client, error) {
	return Await(ctx, ClientConfig{Socket: path})
}

// awaitLimit is how long a caller without a deadline waits for a peer to listen.
const awaitLimit = 5 * time.Second

// Await is Connect for a peer that may be about to start: while nobody listens at the socket, it waits
// until ctx ends, and no longer than some seconds if ctx has no deadline.
func Await(ctx context.Context, cfg ClientConfig) (*Client, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, awaitLimit, holder.ErrPatience)
		defer cancel()
	}
	var absent error
	for {
		c, err := Connect(ctx, cfg)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
			absent = err
		case absent == nil || ctx.Err() == nil: // nobody is awaited, or nobody else
			return c, err
		case err == nil:
			return c, nil
		}
		if cut := wait(ctx, 50*time.Millisecond); cut != nil {
			return nil, fmt.Errorf("%w: %w", absent, cut)
		}
	}
}

// Connect connects to a peer.
func Connect(ctx context.Context, cfg ClientConfig) (*Client, error) {
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context, path string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System
	}
	c := &Client{
		cfg: cfg, dialing: make(chan struct{}, 1),
		clocks: holder.Clocks{Mono: cfg.Clock}, calls: holder.NewCalls(context.Background(), nil),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if _, err := c.connect(ctx); err != nil {
		c.cancel()
		return nil, err
	}
	return c, nil
}

// connect returns the connection, a new one if there is none.
func (c *Client) connect(ctx context.Context) (*clientConn, error) {
	select {
	case c.dialing <- struct{}{}:
		defer func() { <-c.dialing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil && conn.ctx.Err() == nil {
		return conn, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Second, holder.ErrPatience)
	defer cancel()
	path := c.cfg.Socket
	raw, err := c.cfg.Dial(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("%w: no peer listens at %s: %w (`tenure peer --listen %s` starts one)", tenure.ErrUnavailable, path, err, path)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })
	conn = &clientConn{
		client: c, lines: newLines(raw, answerBytesMax), asked: map[uint64]*question{}, leases: map[uint64]*clientLease{},
		more: make(chan struct{}, 1),
	}
	err = conn.greet()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("%w: the peer at %s: %w", tenure.ErrUnavailable, path, err)
	}
	// It outlives c's context: Close releases leases over it.
	conn.ctx, conn.end = context.WithCancelCause(context.Background())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		raw.Close()
		return nil, tenure.ErrClosed
	}
	c.conn = conn
	c.conns = append(slices.DeleteFunc(c.conns, (*clientConn).gone), conn)
	c.running.Go(conn.read)
	c.running.Go(conn.live)
	return conn, nil
}

// call asks and waits for the answer. It connects anew if the connection has ended, and asks again
// if the peer was busy, until ctx ends.
func (c *Client) call(ctx context.Context, r request) (event, error) {
	for {
		n, err := c.connect(ctx)
		if err == nil {
			var id uint64
			var answer <-chan event
			if id, answer, err = n.ask(r, nil); err == nil {
				select {
				case e := <-answer:
					if err = e.err(); !errors.Is(err, ErrBusy) {
						return e, err
					}
				case <-n.ctx.Done():
					err = context.Cause(n.ctx)
				case <-ctx.Done():
					err = context.Cause(ctx)
					if r.Op == "await" {
						_ = n.say(request{Op: "cancel", ID: id})
					}
				}
			}
			n.unask(id)
		}
		if ctx.Err() != nil {
			return event{}, err
		}
		if cut := wait(ctx, 50*time.Millisecond); cut != nil {
			return event{}, fmt.Errorf("%w: %w", cut, err)
		}
	}
}

// final is the error of a call that the peer did not answer.
func (c *Client) final(outer context.Context, verb, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case outer.Err() == nil && c.ctx.Err() != nil:
		return tenure.ErrClosed
	case errors.Is(err, tenure.ErrUnavailable) && outer.Err() != nil && !errors.Is(err, context.Cause(outer)):
		return fmt.Errorf("%s %q: %w: %w", verb, name, context.Cause(outer), err)
	}
	return c.explain(verb, name, err)
}

// explain is the error of a call that neither Close nor its caller has ended.
func (c *Client) explain(verb, name string, err error) error {
	switch {
	case errors.As(err, new(tenure.HeldError)), errors.As(err, new(told)):
		return err
	case errors.Is(err, tenure.ErrUnavailable):
		return fmt.Errorf("%s %q: %w", verb, name, err)
	}
	return fmt.Errorf("%s %q: %w: the peer at %s: %w", verb, name, tenure.ErrUnavailable, c.cfg.Socket, err)
}

// Observe implements tenure.Leaser. It waits for an answer no longer than some seconds.
func (c *Client) Observe(outer context.Context, name string) (tenure.State, error) {
	if err := tenure.CheckName(name); err != nil {
		return tenure.State{Name: name}, err
	}
	ctx, end, err := c.calls.Begin(outer)
	if err != nil {
		return tenure.State{Name: name}, err
	}
	defer end()
	ctx, cancel := context.WithTimeoutCause(ctx, 2*clientPatience, holder.ErrPatience)
	defer cancel()
	return c.look(outer, ctx, name)
}

// clientPatience is somewhat longer than a peer's patience.
const clientPatience = 6 * time.Second

func (c *Client) look(outer, ctx context.Context, name string) (tenure.State, error) {
	e, err := c.call(ctx, request{Op: "observe", Name: name})
	if err != nil || e.State == nil {
		return tenure.State{Name: name}, c.final(outer, "observe", name, err)
	}
	return *e.State, nil
}

// Status returns the peer's status.
func (c *Client) Status(outer context.Context) (Status, error) {
	ctx, end, err := c.calls.Begin(outer)
	if err != nil {
		return Status{}, err
	}
	defer end()
	e, err := c.call(ctx, request{Op: "status"})
	if err != nil || e.Status == nil {
		return Status{}, c.final(outer, "status", c.cfg.Socket, err)
	}
	return *e.Status, nil
}

// Close implements tenure.Leaser. It waits some seconds at most for releases to be confirmed.
// Leases of connections that had ended end for this process; at the peer they run out.
func (c *Client) Close() error {
	c.close.Do(func() {
		c.cancel() // a connection that is made now comes too late
		c.calls.Close()
		c.mu.Lock() // so does one for a caller that has left
		conns := c.conns
		c.mu.Unlock()
		for _, conn := range conns {
			c.closed = errors.Join(c.closed, conn.releaseAll())
			conn.end(tenure.ErrClosed)
		}
		c.running.Wait()
	})
	return c.closed
}
