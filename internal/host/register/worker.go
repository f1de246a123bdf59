package register

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// worker performs the accesses to one store. While the store hangs, no more than one access for
// each client waits, for quorumregister asks no more.
type worker struct {
	store  Store // nil if it was not opened
	wake   chan struct{}
	ended  chan struct{} // closed when no Do will run any more
	naming chan struct{} // holds a token while Names runs

	mu    sync.Mutex
	queue []job
	over  bool // nothing is taken from the queue any more
}

// job is an access that waits. Its client hears of its end.
type job struct {
	machine.Access
	client *client
}

// client is a writer of a name.
type client struct {
	name   string
	writer machine.ID
	began  []bool // which stores were asked anything; each under its worker's mu

	mu   sync.Mutex // held while step is called
	step func(machine.Accessed)
	left bool
}

func (c *client) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// end passes the result to the client, unless that has left.
func (c *client) end(a machine.Accessed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.left {
		c.step(a)
	}
}

func newWorker(s Store) *worker {
	return &worker{store: s, wake: make(chan struct{}, 1), ended: make(chan struct{}), naming: make(chan struct{}, 1)}
}

func (w *worker) add(j job) {
	w.mu.Lock()
	closed := w.over
	if !closed {
		w.queue = append(w.queue, j)
	}
	w.mu.Unlock()
	if closed {
		j.client.end(machine.Accessed{ID: j.ID, Err: errClosed})
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// leave drops the access for which a client waits, and has the writer leave the store if the store
// knows it.
func (w *worker) leave(index int, c *client) {
	w.mu.Lock()
	w.queue = slices.DeleteFunc(w.queue, func(j job) bool { return j.client == c })
	known := c.began[index]
	w.mu.Unlock()
	if known {
		w.add(job{machine.Access{At: index, Op: Leave{}}, c})
	}
}

// run performs the waiting accesses, all at once, until stop, and then the rest.
func (w *worker) run(stop chan struct{}) {
	defer close(w.ended)
	for stopped := false; !stopped; {
		select {
		case <-w.wake:
		case <-stop:
			stopped = true
		}
		w.do(w.take(stopped))
	}
}

// take empties the queue. The last time, only clients that leave are served, and the others hear
// that the store is closed.
func (w *worker) take(last bool) []job {
	w.mu.Lock()
	jobs := w.queue
	w.queue, w.over = nil, last
	var served, refused []job
	for _, j := range jobs {
		if _, leaves := j.Op.(Leave); last && !leaves {
			refused = append(refused, j)
			continue
		}
		j.client.began[j.At] = true
		served = append(served, j)
	}
	w.mu.Unlock()
	for _, j := range refused {
		j.client.end(machine.Accessed{ID: j.ID, Err: errClosed})
	}
	return served
}

func (w *worker) do(jobs []job) {
	if len(jobs) == 0 {
		return
	}
	ops := make([]Op, len(jobs))
	for i, j := range jobs {
		ops[i] = Op{j.client.name, j.client.writer, j.Op}
	}
	for i, r := range w.store.Do(ops) {
		jobs[i].client.end(machine.Accessed{ID: jobs[i].ID, Reply: r.Value, Err: r.Err})
	}
}

// names asks the store for its names, one caller at a time.
func (w *worker) names(ctx context.Context) ([]string, error) {
	if w.store == nil {
		return nil, errMissing
	}
	select {
	case w.naming <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-w.naming }()
	return w.store.Names()
}

// closeWait is how long Close waits for a store that hangs.
const closeWait = time.Second

var errHangs = errors.New("it hangs, and was left behind")

// close closes the store once it is idle, or when that takes too long.
func (w *worker) close() error {
	if w.store == nil {
		return nil
	}
	patience := time.NewTimer(closeWait)
	defer patience.Stop()
	hangs := false
	select {
	case <-w.ended:
	case <-patience.C:
		hangs = true
		w.take(true)
	}
	closed := make(chan error, 1)
	go func() { closed <- w.store.Close() }()
	patience.Reset(closeWait)
	select {
	case err := <-closed:
		if hangs && err == nil {
			err = errHangs
		}
		return err
	case <-patience.C:
		return errHangs
	}
}
