package flease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/clock"
)

// clientConn is a connection with who waits for its events.
type clientConn struct {
	client *Client
	lines  *lines
	tmax   time.Duration
	ctx    context.Context // ends with the connection; the cause says why
	end    context.CancelCauseFunc

	mu     sync.Mutex
	lastID uint64
	asked  map[uint64]*question    // by id: who waits for one event
	leases map[uint64]*clientLease // held, or released and not yet confirmed
	faster chan struct{}           // nudged when a shorter TTL comes in
	least  time.Duration           // of the TTLs
}

// question is a request that waits for its answer.
type question struct {
	answer chan event   // one
	lease  *clientLease // to begin with the answer "acquired"; or nil
	names  []string     // of earlier parts of the answer
}

// greet makes sure that both sides speak one language and read one clock.
func (n *clientConn) greet() error {
	before := clock.Now()
	if err := n.lines.send(request{Op: "hello", Version: socketVersion}); err != nil {
		return err
	}
	var e event
	if err := n.lines.receive(&e); err != nil {
		return fmt.Errorf("it does not welcome us: %w", err)
	}
	switch after := clock.Now(); {
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
			n.end(fmt.Errorf("%w: the connection to the peer at %s ended: %w", tenure.ErrUnavailable, n.client.path, err))
			n.lines.conn.Close()
			return
		}
		n.take(e)
	}
}

func (n *clientConn) take(e event) {
	n.mu.Lock()
	l, q := n.leases[e.ID], n.asked[e.ID]
	n.mu.Unlock()
	switch e.Event {
	case "renewed":
		if l != nil && !l.stint.Extend(e.Until) && !errors.Is(l.stint.Err(), tenure.ErrReleased) {
			// It came too late for us. What the peer renewed must not keep others waiting.
			n.forget(e.ID)
			_ = n.lines.send(request{Op: "lapse", ID: e.ID})
		}
	case "lost":
		if l != nil {
			err := e.err()
			if !errors.Is(err, tenure.ErrLost) {
				err = fmt.Errorf("%w: %w", tenure.ErrLost, err)
			}
			l.stint.End(err)
			n.forget(e.ID)
		}
	default:
		if q == nil {
			return
		}
		if q.names = append(q.names, e.Names...); e.More {
			return
		}
		e.Names = q.names
		n.mu.Lock()
		delete(n.asked, e.ID)
		if e.Event == "acquired" && q.lease != nil {
			q.lease.begin(e)
			n.leases[e.ID] = q.lease
		}
		n.mu.Unlock()
		q.answer <- e
	}
}

// forget drops a lease that is over.
func (n *clientConn) forget(id uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.leases, id)
}

// live says that we are alive, four times in the shortest TTL, while there is a reason.
func (n *clientConn) live() {
	for {
		n.mu.Lock()
		idle, pause := len(n.asked)+len(n.leases) == 0, n.least/4
		n.mu.Unlock()
		if idle || pause == 0 {
			pause = time.Hour
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			if !idle {
				_ = n.lines.send(request{Op: "alive", At: clock.Now()})
			}
		case <-n.faster:
		case <-n.ctx.Done():
			timer.Stop()
			n.lines.conn.Close()
			return
		}
		timer.Stop()
	}
}

// ask sends a request, under an id of its own if it has none, and returns where its answer
// will be.
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
	if ttl := time.Duration(r.TTLMS) * time.Millisecond; ttl > 0 && (n.least == 0 || ttl < n.least) {
		n.least = ttl
	}
	n.mu.Unlock()
	select {
	case n.faster <- struct{}{}:
	default:
	}
	r.ID, r.At = id, clock.Now()
	return id, q.answer, n.lines.send(r)
}

// disown gives back what is admitted when nobody waits for it any more.
func (n *clientConn) disown(id uint64) {
	n.mu.Lock()
	q := n.asked[id]
	n.mu.Unlock()
	if q == nil {
		return
	}
	go func() {
		defer n.unask(id)
		select {
		case e := <-q.answer:
			if e.Event == "acquired" {
				_ = q.lease.Release(n.client.ctx)
			}
		case <-n.ctx.Done():
		}
	}()
}

// gone tells whether nothing is left of the connection.
func (n *clientConn) gone() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ctx.Err() != nil && len(n.leases) == 0
}

// unask drops what nobody waits for any more.
func (n *clientConn) unask(id uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.asked, id)
}

// releaseAll releases what the connection's client holds, all at once.
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
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	errs := make([]error, len(all))
	var releases sync.WaitGroup
	for i, l := range all {
		releases.Go(func() {
			if err := l.Release(ctx); err != nil && !errors.Is(err, tenure.ErrLost) {
				errs[i] = fmt.Errorf("%q: %w", l.name, err)
			}
		})
	}
	releases.Wait()
	return errors.Join(errs...)
}
