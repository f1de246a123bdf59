package leasetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure"
)

// memoryLeaser is a Leaser over a Memory.
type memoryLeaser struct {
	store  *Memory
	line   line
	ctx    context.Context
	cancel context.CancelFunc
	slept  atomic.Int64 // nanoseconds for which its machine was suspended

	mu     sync.Mutex
	leases map[*memoryLease]struct{}
	busy   sync.WaitGroup
}

// Open returns a Leaser over the store, as another process would have it.
func (m *Memory) Open() tenure.Leaser {
	l := &memoryLeaser{store: m, leases: map[*memoryLease]struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// now is a clock that counts suspend.
func (l *memoryLeaser) now() time.Time { return time.Now().Add(l.sleep()) }

func (l *memoryLeaser) sleep() time.Duration { return time.Duration(l.slept.Load()) }

// suspend has d pass. Alarms ring once it is over.
func (l *memoryLeaser) suspend(d time.Duration) {
	l.slept.Add(int64(d))
	l.mu.Lock()
	defer l.mu.Unlock()
	for x := range l.leases {
		go x.Check()
	}
}

// begin returns a context that ends with the Leaser as well.
func (l *memoryLeaser) begin(ctx context.Context) (context.Context, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, nil, tenure.ErrClosed
	}
	l.busy.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(tenure.ErrClosed) })
	return ctx, func() { stop(); cancel(nil); l.busy.Done() }, nil
}

func (l *memoryLeaser) Acquire(outer context.Context, c tenure.Claim) (tenure.Lease, error) {
	c, err := c.Complete()
	if err != nil {
		return nil, err
	}
	ctx, end, err := l.begin(outer)
	if err != nil {
		return nil, err
	}
	defer end()
	for {
		x, err := l.queue(ctx, c)
		if err == nil {
			return x, nil
		}
		if ctx.Err() == nil {
			continue // expired while waiting: queue up anew
		}
		if outer.Err() == nil {
			return nil, tenure.ErrClosed
		}
		return nil, fmt.Errorf("gave up waiting for %q: %w: %w", c.Name, context.Cause(outer), l.obstacle(c.Name))
	}
}

// obstacle is why a claim was not admitted.
func (l *memoryLeaser) obstacle(name string) error {
	ctx, cancel := context.WithTimeout(l.ctx, 100*time.Millisecond)
	defer cancel()
	var s tenure.State
	if l.line.call(ctx, func() { s, _, _, _, _ = l.store.look(name, nil) }) != nil {
		return tenure.ErrUnavailable
	}
	if len(s.Holders) == 0 {
		return errors.New("it is free by now")
	}
	return held(s)
}

// queue waits for admission once.
func (l *memoryLeaser) queue(ctx context.Context, c tenure.Claim) (*memoryLease, error) {
	x, err := l.join(ctx, c)
	if err != nil {
		return nil, err
	}
	for {
		var in, admitted bool
		var changed <-chan struct{}
		var soonest time.Time
		err := l.line.call(ctx, func() { _, in, admitted, changed, soonest = l.store.look(c.Name, x.entry) })
		if err == nil && !in {
			err = errors.New("expired while waiting")
		}
		if err == nil && admitted {
			err = x.Check()
			if err == nil {
				return x, nil
			}
		}
		if err == nil {
			select {
			case <-changed:
			case <-time.After(time.Until(soonest)):
			case <-x.done:
				err = x.Err()
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		if err != nil {
			x.Release(context.Background())
			return nil, err
		}
	}
}

func (l *memoryLeaser) TryAcquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	c, err := c.Complete()
	if err != nil {
		return nil, err
	}
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	x, err := l.join(ctx, c)
	if err != nil {
		return nil, unanswered(err)
	}
	var s tenure.State
	var admitted bool
	err = l.line.call(ctx, func() { s, _, admitted, _, _ = l.store.look(c.Name, x.entry) })
	if err == nil && admitted {
		return x, nil
	}
	x.Release(context.Background())
	if err != nil {
		return nil, unanswered(err)
	}
	return nil, held(s)
}

// unanswered adds to the end of a context what it means.
func unanswered(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", tenure.ErrUnavailable, err)
	}
	return err
}

func held(s tenure.State) tenure.HeldError {
	if len(s.Holders) == 0 {
		return tenure.HeldError{Name: s.Name}
	}
	return tenure.HeldError{Name: s.Name, Holder: s.Holders[0].Holder, Until: s.Holders[0].Until}
}

func (l *memoryLeaser) Observe(ctx context.Context, name string) (tenure.State, error) {
	var s tenure.State
	if err := tenure.CheckName(name); err != nil {
		return s, err
	}
	ctx, end, err := l.begin(ctx)
	if err != nil {
		return s, err
	}
	defer end()
	if err := l.line.call(ctx, func() { s, _, _, _, _ = l.store.look(name, nil) }); err != nil {
		return tenure.State{Name: name}, err
	}
	return s, nil
}

func (l *memoryLeaser) Close() error {
	l.mu.Lock()
	l.cancel() // between two calls of begin: none adds itself while Wait finds nobody
	l.mu.Unlock()
	l.busy.Wait()
	l.mu.Lock()
	var all []*memoryLease
	for x := range l.leases {
		all = append(all, x)
	}
	l.mu.Unlock()
	for _, x := range all {
		x.Release(context.Background())
	}
	return nil
}
