package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"strings"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
)

// Request asks for a sub-lease, or gives one back.
type Request struct {
	Name, Client string
	TTL          time.Duration
	Token        uint64
}

// Reply is the answer: a sub-lease for some time, counted from the request, or why not.
type Reply struct {
	Token  uint64
	For    time.Duration
	Status string
}

// Locks is a table as clients see it.
type Locks struct{ table *Table }

// Grant is Table.Grant.
func (l Locks) Grant(r Request, reply *Reply) error {
	asked := clock.Now()
	h, err := l.table.Grant(r.Name, r.Client, r.TTL)
	if err != nil {
		reply.Status = err.Error()
		return nil
	}
	reply.Token, reply.For = h.token, h.until.Sub(asked)
	return nil
}

// Release is Table.Release.
func (l Locks) Release(r Request, _ *Reply) error {
	l.table.Release(r.Name, r.Token)
	return nil
}

// Serve answers clients until the listener is closed.
func Serve(listener net.Listener, table *Table) {
	server := rpc.NewServer()
	if err := server.Register(Locks{table}); err != nil {
		panic(err) // the methods above are no others than they are
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go server.ServeConn(conn)
	}
}

// Client takes sub-leases from the owner of the outer lease.
type Client struct {
	epochs Epochs
	drift  int
	id     string
	owner  *rpc.Client // nil if it has to be looked up
}

// NewClient returns a client. It is for one goroutine.
func NewClient(epochs Epochs, drift int) *Client {
	return &Client{epochs: epochs, drift: drift, id: rand.Text()}
}

// Close hangs up. A held lock stays held until it ends.
func (c *Client) Close() {
	if c.owner != nil {
		c.owner.Close()
		c.owner = nil
	}
}

// Sub is a sub-lease that this client holds.
type Sub struct {
	Name  string
	Token uint64
	until machine.Mono
}

// Check returns nil while it is held.
func (s Sub) Check() error {
	if clock.Now() >= s.until {
		return fmt.Errorf("the sub-lease of %q is over: %w", s.Name, tenure.ErrLost)
	}
	return nil
}

// Lock waits for the sub-lease of a name, for ttl at most. To prolong it, ask again.
func (c *Client) Lock(ctx context.Context, name string, ttl time.Duration) (Sub, error) {
	for why := error(nil); ; pause(ctx, 5*time.Millisecond) {
		if ctx.Err() != nil {
			return Sub{}, errors.Join(ctx.Err(), why)
		}
		if c.owner == nil {
			if why = c.dial(ctx); why != nil {
				continue
			}
		}
		asked := clock.Now() // before the owner is asked, so our lease ends before its own view of it
		var reply Reply
		reply, why = c.call(ctx, "Locks.Grant", Request{Name: name, Client: c.id, TTL: ttl})
		switch {
		case why != nil:
			c.Close()
		case reply.Status == ErrNotOwner.Error():
			c.Close()
			why = ErrNotOwner
		case reply.Status != "":
			why = errors.New(reply.Status)
		default:
			sub := Sub{name, reply.Token, asked.Add(Margin(reply.For, c.drift))}
			if why = sub.Check(); why == nil {
				return sub, nil
			}
		}
	}
}

// Margin is how much of an owner's span a client may use, whose clock may be too slow while
// the owner's is too fast.
func Margin(d time.Duration, drift int) time.Duration {
	rho := float64(drift) / 1e6
	return time.Duration(float64(d) * (1 - rho) / (1 + rho))
}

// Unlock gives it back before its time.
func (c *Client) Unlock(s Sub) {
	if c.owner == nil {
		return
	}
	if _, err := c.call(context.Background(), "Locks.Release", Request{Name: s.Name, Token: s.Token}); err != nil {
		c.Close()
	}
}

// patience is how long an owner may take to answer. One that is stopped takes longer.
const patience = time.Second

func (c *Client) call(ctx context.Context, method string, r Request) (Reply, error) {
	reply := new(Reply) // that of a call which we do not wait for is not ours
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case call := <-c.owner.Go(method, r, reply, make(chan *rpc.Call, 1)).Done:
		return *reply, call.Error
	case <-ctx.Done():
		return Reply{}, ctx.Err()
	}
}

// dial connects to the newest owner.
func (c *Client) dial(ctx context.Context) error {
	epoch, owner, err := c.epochs.Newest(ctx)
	if err != nil {
		return err
	}
	if epoch == 0 {
		return errors.New("nobody owns the locks yet")
	}
	network, at, _ := strings.Cut(owner.Address, ":")
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, at)
	if err == nil {
		c.owner = rpc.NewClient(conn)
	}
	return err
}
