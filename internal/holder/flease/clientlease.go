package flease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
)

// Acquire implements tenure.Leaser.
func (c *Client) Acquire(ctx context.Context, cl tenure.Claim) (tenure.Lease, error) {
	return holder.Admit(ctx, c.calls, clientEngine{c, cl.TTL == 0}, cl, false)
}

// TryAcquire implements tenure.Leaser. It waits some seconds at most, for its peer and for the
// others.
func (c *Client) TryAcquire(ctx context.Context, cl tenure.Claim) (tenure.Lease, error) {
	return holder.Admit(ctx, c.calls, clientEngine{c, cl.TTL == 0}, cl, true)
}

// clientEngine is a Client as a holder.Engine for one call.
type clientEngine struct {
	*Client
	anyTTL bool // the caller asks for no certain TTL
}

// Complete implements holder.Engine.
func (clientEngine) Complete(c tenure.Claim) (tenure.Claim, error) {
	c, err := c.Complete()
	if err == nil {
		err = wholeMilliseconds(c)
	}
	return c, err
}

// Patience implements holder.Engine.
func (clientEngine) Patience() time.Duration { return 2 * clientPatience }

// away is the error of a claim that has no connection, or whose connection has ended.
type away struct{ error }

func (a away) Unwrap() error { return a.error }

// Again implements holder.Engine: a claim is made again while the peer is away, and by Acquire
// while the peer is of no use.
func (clientEngine) Again(in holder.Call, err error) (time.Duration, bool) {
	switch {
	case errors.As(err, new(away)), !in.Try && errors.Is(err, tenure.ErrUnavailable) && in.Cut() == nil:
		return 50 * time.Millisecond, true
	}
	return 0, errors.Is(err, tenure.ErrLost) && in.Cut() == nil // before the caller knew of it
}

// Explain implements holder.Engine.
func (e clientEngine) Explain(_ holder.Call, c tenure.Claim, err error) error {
	return e.explain("acquire", c.Name, err)
}

// Contend implements holder.Engine.
func (e clientEngine) Contend(in holder.Call, c tenure.Claim) (holder.Claim, error) {
	if err := in.Cut(); err != nil {
		return nil, err
	}
	ctx, end := in.Context()
	defer end()
	n, err := e.connect(ctx)
	if err != nil {
		return nil, away{err}
	}
	r := request{
		Op: "acquire", Name: c.Name, Holder: c.Holder, Slots: c.Slots, Try: in.Try,
		TTLMS: c.TTL.Milliseconds(), LockDelayMS: roundUp(c.LockDelay).Milliseconds(),
	}
	if e.anyTTL {
		// It is 0 if the lock delay leaves no room, and the peer refuses it then.
		r.TTLMS = max(0, min(r.TTLMS, n.tmax.Milliseconds()-r.LockDelayMS))
	}
	l, err := n.acquire(ctx, r)
	switch {
	case err == nil:
		return l, nil
	case n.ctx.Err() != nil:
		return nil, away{err}
	}
	return nil, err
}

// acquire makes one claim over the connection.
func (n *clientConn) acquire(ctx context.Context, r request) (*clientLease, error) {
	l := &clientLease{Lease: holder.Make(&n.client.clocks, r.Name, r.Holder, nil), ttl: cmp.Or(time.Duration(r.TTLMS)*time.Millisecond, n.tmax)}
	id, answer, err := n.ask(r, l)
	if err != nil {
		n.unask(id)
		return nil, err
	}
	verdict := func(e event) (*clientLease, error) {
		if err := e.err(); err != nil {
			return nil, err
		}
		return l, nil
	}
	select {
	case e := <-answer:
		return verdict(e)
	case <-n.ctx.Done():
		n.unask(id)
		return nil, context.Cause(n.ctx)
	case <-ctx.Done():
	}
	n.leave(id)
	enough := time.NewTimer(2 * farewell)
	defer enough.Stop()
	select {
	case e := <-answer:
		err = e.err()
		if err == nil && l.Begun() { // it was admitted before the cancellation
			n.client.running.Go(func() { _ = l.Release(n.client.ctx) })
		}
	case <-enough.C:
	case <-n.ctx.Done():
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
	}
	return nil, context.Cause(ctx)
}

// clientLease is the holder's side of a client's lease.
type clientLease struct {
	holder.Lease
	conn   *clientConn
	id     uint64
	ttl    time.Duration
	answer <-chan event // to the release
	asked  error        // why it could not be sent
}

var _ tenure.Lease = (*clientLease)(nil)

// begin begins the tenure that the peer has admitted.
func (l *clientLease) begin(e event) {
	l.Begin(e.Token, e.Until, 0)
	l.conn.client.running.Go(func() {
		if errors.Is(l.Watch(), tenure.ErrLost) {
			l.conn.forget(l.id)
		}
	})
}

// Release implements tenure.Lease.
func (l *clientLease) Release(ctx context.Context) error { return holder.Release(ctx, l) }

// GiveBack implements holder.Claim.
func (l *clientLease) GiveBack() {
	l.conn.forget(l.id)
	_, answer, err := l.conn.ask(request{Op: "release", ID: l.id}, nil)
	l.conn.mu.Lock()
	defer l.conn.mu.Unlock()
	l.answer, l.asked = answer, err
}

// Abandon implements holder.Claim: the peer frees a lost lease without a message.
func (l *clientLease) Abandon(context.Context) {}

// AwaitFreed implements holder.Claim. The first call gets the answer.
func (l *clientLease) AwaitFreed(ctx context.Context, left time.Duration) error {
	n := l.conn
	n.mu.Lock()
	answer, err := l.answer, l.asked
	l.answer = nil
	n.mu.Unlock()
	if answer == nil {
		return nil // a second call
	}
	if err == nil {
		enough := time.NewTimer(max(left, time.Second))
		defer enough.Stop()
		select {
		case e := <-answer:
			return e.err()
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-enough.C:
			err = errors.New("the peer does not answer")
		case <-n.ctx.Done():
			err = context.Cause(n.ctx)
		}
	}
	n.unask(l.id)
	return holder.Unconfirmed(0, fmt.Errorf("%w: %w", tenure.ErrUnavailable, err))
}
