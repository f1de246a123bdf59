package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/broadcast"
)

// snapshotEach is after how many messages the state takes their place.
const snapshotEach = 100

// counter is the state, and the member that keeps it the same everywhere.
type counter struct {
	node *broadcast.Node
	ctx  context.Context // of apply
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	at    broadcast.Position // applied up to here
	value int64
	moved chan struct{} // closed when at has moved
	err   error         // why nothing is applied any more
}

func newCounter(cfg broadcast.Config) (*counter, error) {
	node, err := broadcast.Start(cfg)
	if err != nil {
		return nil, err
	}
	c := over(node)
	c.done.Go(func() { c.apply() })
	return c, nil
}

// over is a counter that does not apply anything yet.
func over(node *broadcast.Node) *counter {
	c := &counter{node: node, moved: make(chan struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

func (c *counter) close() error {
	c.stop()
	c.done.Wait()
	return c.node.Close()
}

// apply applies one message after the other, for good. A message that was trimmed before it
// was applied here is in the state that stands in its place.
func (c *counter) apply() {
	for {
		err := c.begin()
		for m, failed := range c.node.Deliver(c.ctx, c.at+1) {
			if err = errors.Join(err, failed); err != nil {
				break
			}
			n, _ := strconv.ParseInt(string(m.Payload), 10, 64) // a barrier has no payload
			c.move(m.Position, c.value+n)
			if m.Position%snapshotEach == 0 {
				if err = c.snapshot(); err != nil {
					break
				}
			}
		}
		if !errors.Is(err, broadcast.ErrTrimmed) {
			c.mu.Lock()
			c.err = err
			close(c.moved)
			c.mu.Unlock()
			return
		}
	}
}

// snapshot has the state take the place of what led to it.
func (c *counter) snapshot() error {
	err := c.node.Snapshot(c.at, func(w io.Writer) error {
		_, err := w.Write(strconv.AppendInt(nil, c.value, 10))
		return err
	})
	if errors.Is(err, broadcast.ErrPosition) {
		return nil // a newer one came from another member
	}
	if err != nil {
		return err
	}
	return c.node.Trim(c.at)
}

// begin takes the state of the last snapshot, if that is further.
func (c *counter) begin() error {
	at, r, err := c.node.OpenSnapshot()
	if err != nil {
		return err
	}
	defer r.Close()
	state, err := io.ReadAll(r)
	if err != nil || at <= c.at {
		return err
	}
	value, err := strconv.ParseInt(string(state), 10, 64)
	c.move(at, value)
	return err
}

func (c *counter) move(at broadcast.Position, value int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.value = at, value
	close(c.moved)
	c.moved = make(chan struct{})
}

// after returns the value as soon as a position was applied.
func (c *counter) after(ctx context.Context, position broadcast.Position) (int64, error) {
	for {
		c.mu.Lock()
		at, value, moved, err := c.at, c.value, c.moved, c.err
		c.mu.Unlock()
		switch {
		case at >= position:
			return value, nil
		case err != nil:
			return 0, err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// ServeHTTP is GET / for the value, and POST /add?n=N to add.
func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	var position broadcast.Position
	var err error
	switch {
	case r.Method == http.MethodGet && r.URL.Path == "/":
		position, err = c.node.Barrier(ctx)
	case r.Method == http.MethodPost && r.URL.Path == "/add":
		n, bad := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64)
		if bad != nil {
			http.Error(w, bad.Error(), http.StatusBadRequest)
			return
		}
		position, err = c.node.Broadcast(ctx, strconv.AppendInt(nil, n, 10))
	default:
		http.NotFound(w, r)
		return
	}
	var value int64
	if err == nil {
		value, err = c.after(ctx, position)
	}
	if err != nil {
		// With ErrUnknown the addition may have happened, or may yet.
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, value)
}
