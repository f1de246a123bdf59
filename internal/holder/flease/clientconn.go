package flease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
)

// clientConn is a connection of a Client, with the callers that wait for its events.
type clientConn struct {
	client *Client
	lines  *lines
	tmax   time.Duration
	ctx    context.Context // ends with the connection; the cause says why
	end    context.CancelCauseFunc

	mu     sync.Mutex
	lastID uint64
	asked  map[uint64]*question    // by id: the requests that wait for an event
	leases map[uint64]*clientLease // held
	more   chan struct{}           // nudged when there is more to name
}

// question is a request that waits for its answer.
type question struct {
	answer chan event   // has room for it
	lease  *clientLease // to begin with the answer "acquired"; or nil
	left   bool         // no caller waits any more
	names  []string     // from earlier parts of the answer
}

// greet checks that both sides speak one version and read one clock.
func (n *clientConn) greet() error {
	c := n.client.cfg.Clock
	before := c.Now()
	if err := n.lines.send(request{Op: "hello", Version: socketVersion}); err != nil {
		return err
	}
	var e event
	if err := n.lines.receive(&e); err != nil {
		return fmt.Errorf("it does not welcome us: %w", err)
	}
	switch after := c.Now(); {
	case e.err() != nil:
		return e.err()
	case e.Event != "welcome" || e.Version != socketVersion:
		return fmt.Errorf("it answers with %q, version %d: run one version of the program", e.Event, e.Version)
	case e.At < before || e.At > after:
		return errors.New("it reads another clock (a time namespace, or the socket is of another machine): run a peer on this machine, in this namespace")
	}
	n.tmax = time.Duration(e.TMaxMS) * time.Millisecond
	return nil
}

// read takes events until the connection ends.
func (n *clientConn) read() {
	stop := context.AfterFunc(n.ctx, func() { n.lines.conn.Close() })
	defer stop()
	for {
		var e event
		err := n.lines.receive(&e)
		if err == nil && e.Event == "error" {
			err = e.err()
		}
		if err != nil {
			n.broken(err)
			return
		}
		n.take(e)
	}
}

// say sends a line. If it cannot, the connection has ended, and the error says why.
func (n *clientConn) say(r request) error {
	if err := n.lines.send(r); err != nil {
		n.broken(err)
		return context.Cause(n.ctx)
	}
	return nil
}

// broken ends the connection, if nothing has ended it before.
func (n *clientConn) broken(err error) {
	why := fmt.Errorf("%w: the connection to the peer at %s ended", tenure.ErrUnavailable, n.client.cfg.Socket)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = fmt.Errorf("%w: it did not read for %v", why, sendPatience)
	default:
		why = fmt.Errorf("%w: %w", why, err)
	}
	n.end(why)
	n.lines.conn.Close()
}

func (n *clientConn) take(e event) {
	switch e.Event {
	case "renewed":
		if l := n.lease(e.ID); l != nil {
			l.Extend(e.Until, 0) // false: it came too late, and the lease is named no more
		}
	case "lost":
		if l := n.lease(e.ID); l != nil {
			l.End(told{cmp.Or(e.Error, tenure.ErrLost.Error()), tenure.ErrLost})
			n.forget(e.ID)
		}
	default:
		n.answered(e)
	}
}

// lease returns a lease that is held, or nil.
func (n *clientConn) lease(id uint64) *clientLease {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leases[id]
}

// answered passes an answer to the caller that waits for it. An admitted claim begins, or is given
// back if no caller waits for it any more.
func (n *clientConn) answered(e event) {
	n.mu.Lock()
	q := n.asked[e.ID]
	back := e.Event == "acquired" && (q == nil || q.left)
	if q != nil && !e.More {
		delete(n.asked, e.ID)
		if e.Event == "acquired" && q.lease != nil && !back {
			q.lease.begin(e)
			n.leases[e.ID] = q.lease
		}
	}
	n.mu.Unlock()
	if back {
		// Another goroutine sends it, because this one must go on reading.
		n.client.running.Go(func() { _ = n.say(request{Op: "release", ID: e.ID}) })
	}
	if q == nil {
		return
	}
	if q.names = append(q.names, e.Names...); !e.More {
		e.Names = q.names
		q.answer <- e
	}
}

// forget drops a lease that is over.
func (n *clientConn) forget(id uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.leases, id)
}

// live names the claims that callers wait for and the leases that are held, four times in the
// shortest TTL of these.
func (n *clientConn) live() {
	defer n.lines.conn.Close()
	c := n.client.cfg.Clock
	for last := c.Now(); ; {
		ids, pause := n.wanted()
		if len(ids) == 0 {
			select {
			case <-n.more:
				last = c.Now() // a new claim was named by its request
				continue
			case <-n.ctx.Done():
				return
			}
		}
		alarm := c.Alarm(last.Add(pause))
		select {
		case <-alarm.C:
			last = c.Now() // before the look at the leases: the peer must not think that it was later
			ids, _ = n.wanted()
			for part := range slices.Chunk(ids, aliveMax) {
				if n.say(request{Op: "alive", At: last, IDs: part}) != nil {
					return
				}
			}
		case <-n.more:
			alarm.Stop()
		case <-n.ctx.Done():
			alarm.Stop()
			return
		}
	}
}

// wanted returns the ids of the claims that callers wait for and of the leases that are held, and
// a quarter of the shortest TTL.
func (n *clientConn) wanted() (ids []uint64, pause time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	least := time.Hour
	want := func(id uint64, l *clientLease) {
		ids = append(ids, id)
		least = min(least, l.ttl)
	}
	for id, q := range n.asked {
		if q.lease != nil && !q.left {
			want(id, q.lease)
		}
	}
	for id, l := range n.leases {
		if l.Check() == nil {
			want(id, l)
		}
	}
	slices.Sort(ids)
	return ids, least / 4
}

// ask sends a request, under a new id if it has none, and returns the channel of its answer.
func (n *clientConn) ask(r request, lease *clientLease) (uint64, <-chan event, error) {
	q := &question{answer: make(chan event, 1), lease: lease}
	n.mu.Lock()
	id := r.ID
	if id == 0 {
		n.lastID++
		id = n.lastID
	}
	if lease != nil {
		lease.conn, lease.id = n, id
	}
	n.asked[id] = q
	r.ID, r.At = id, n.client.cfg.Clock.Now()
	n.mu.Unlock()
	if lease != nil {
		poke(n.more)
	}
	return id, q.answer, n.say(r)
}

// leave cancels a claim that no caller waits for any more. If the peer admits it all the same, it
// is given back.
func (n *clientConn) leave(id uint64) {
	n.mu.Lock()
	if q := n.asked[id]; q != nil {
		q.left = true
	}
	n.mu.Unlock()
	_ = n.say(request{Op: "cancel", ID: id})
}

// gone reports whether nothing is left of the connection.
func (n *clientConn) gone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ctx.Err() != nil && len(n.leases) == 0
}

// unask drops a request that no caller waits for any more.
func (n *clientConn) unask(id uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.asked, id)
}

// releaseAll releases the leases of the connection, all at once.
func (n *clientConn) releaseAll() error {
	n.mu.Lock()
	ids := make([]uint64, 0, len(n.leases))
	for id := range n.leases {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	all := make([]*clientLease, 0, len(ids))
	for _, id := range ids {
		all = append(all, n.leases[id])
	}
	n.mu.Unlock()
	return holder.ReleaseAll(all, releasePatience, false)
}
