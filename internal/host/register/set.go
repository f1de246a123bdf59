package register

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// errClosed is the error of a Set after its Close.
var errClosed = errors.New("closed")

// Set is several stores that belong together, opened by one process: the bases of
// its registers. Each has one goroutine, which does all that waits at once.
type Set struct {
	header  Header
	workers []*worker // by index
	delays  *Delays
	now     func() machine.Mono
	stop    chan struct{}
	once    sync.Once
	closed  error // of the first Close
}

// NewSet takes over stores of one set, in any order. Some may be missing as long
// as a majority is there: those count as failing. It fails, with ErrMismatch, if
// they do not belong together, and leaves them open then.
func NewSet(stores []Store) (*Set, error) { return NewSetBy(clock.Now, stores) }

// NewSetBy is NewSet with the clock by which the set's registers go, in place of clock.Now.
func NewSetBy(now func() machine.Mono, stores []Store) (*Set, error) {
	if len(stores) == 0 {
		return nil, errors.New("a set of no stores: name one or more")
	}
	h := stores[0].Header()
	if h.Of < 1 {
		return nil, fmt.Errorf("%w: a set of %d stores", ErrDamaged, h.Of)
	}
	byIndex := make([]Store, h.Of)
	for i, s := range stores {
		is := s.Header()
		if err := h.checkMate(is); err != nil {
			return nil, fmt.Errorf("%w: the first and number %d of the stores given %w", ErrMismatch, i+1, err)
		}
		if byIndex[is.Index] != nil {
			return nil, fmt.Errorf("%w: store %d of %d is given twice, or copied: make each with a number of its own",
				ErrMismatch, is.Index, h.Of)
		}
		byIndex[is.Index] = s
	}
	if len(stores) <= h.Of/2 {
		return nil, fmt.Errorf("%w: %d of the %d stores of this set are given, and more than half are needed",
			ErrMismatch, len(stores), h.Of)
	}
	h.Index = 0
	set := &Set{header: h, delays: newDelays(h.Delay), now: now, stop: make(chan struct{})}
	for _, s := range byIndex {
		w := newWorker(s)
		set.workers = append(set.workers, w)
		if s != nil {
			go w.run(set.stop)
		}
	}
	return set, nil
}

// checkMate returns an error if h and o cannot be the headers of one set.
func (h Header) checkMate(o Header) error {
	switch {
	case h.Set != o.Set:
		return fmt.Errorf("belong to different sets, %v and %v", h.Set, o.Set)
	case h.Of != o.Of:
		return fmt.Errorf("were made for %d and for %d stores", h.Of, o.Of)
	case h.Term != o.Term:
		return fmt.Errorf("have different terms, %v and %v", h.Term, o.Term)
	case h.Delay != o.Delay:
		return fmt.Errorf("have different delays, %v and %v", h.Delay, o.Delay)
	case h.Drift != o.Drift:
		return fmt.Errorf("allow for clocks that drift by %d and by %d ppm", h.Drift, o.Drift)
	case o.Index < 0 || o.Index >= o.Of:
		return fmt.Errorf("are numbered wrongly: %d of %d", o.Index, o.Of)
	}
	return nil
}

// Header returns the header that the stores share. Its Index means nothing.
func (s *Set) Header() Header { return s.header }

// Delays measures the operations on the set's registers. A caller that steps machines of
// its own over the set adds their Took outcomes.
func (s *Set) Delays() *Delays { return s.delays }

// Config returns how a register is made of the set's stores. It is quiet about a
// store that went back for Δ+6δ, and a tenth more for a δ that grew and for clocks.
func (s *Set) Config(writer machine.ID, atomic bool) quorumregister.Config {
	return quorumregister.Config{
		Writer: writer, Bases: len(s.workers), Atomic: atomic,
		Quiet: s.header.Quiet(),
		Retry: max(s.header.Delay, 10*time.Millisecond),
	}
}

// Serve lets a writer use the register of a name. Access is for driver.Config.Access,
// its At being the store's index; the ends are stepped, on other goroutines or at
// once. Leave is called once, and not by step: no access is begun any more then,
// those that wait are dropped, nothing is stepped, and the stores may reuse the
// writer's place.
func (s *Set) Serve(name string, writer machine.ID, step func(machine.Accessed)) (access func([]machine.Access), leave func()) {
	c := &client{name: name, writer: writer, step: step, began: make([]bool, len(s.workers))}
	access = func(as []machine.Access) {
		if c.gone() {
			return
		}
		for _, a := range as {
			if err := s.checkAccess(name, a); err != nil {
				c.end(machine.Accessed{ID: a.ID, Err: err})
			} else {
				s.workers[a.At].add(job{a, c})
			}
		}
	}
	leave = func() {
		c.mu.Lock()
		c.left = true
		c.mu.Unlock()
		for i, w := range s.workers {
			w.leave(i, c)
		}
	}
	return access, leave
}

// checkAccess returns an error if an access cannot be begun.
func (s *Set) checkAccess(name string, a machine.Access) error {
	select {
	case <-s.stop:
		return errClosed
	default:
	}
	if s.workers[a.At].store == nil {
		return errMissing
	}
	if len(name) > MaxName {
		return fmt.Errorf("%w: a name of %d bytes, at most %d are possible", ErrTooLong, len(name), MaxName)
	}
	switch op := a.Op.(type) {
	case quorumregister.Put:
		if len(op.Data) > MaxData {
			return fmt.Errorf("%w: %d bytes of data, at most %d are possible", ErrTooLong, len(op.Data), MaxData)
		}
	case quorumregister.PutNote:
		if len(op.Data) > MaxNote {
			return fmt.Errorf("%w: a note of %d bytes, at most %d are possible", ErrTooLong, len(op.Data), MaxNote)
		}
	}
	return nil
}

var errMissing = errors.New("was not opened")

// Names lists the names that have a register with data, in order. It asks all
// stores and waits for a majority, so it lists every name whose first write was
// complete when it began.
func (s *Set) Names(ctx context.Context) ([]string, error) {
	type listing struct {
		index int
		names []string
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan listing, len(s.workers))
	for i, w := range s.workers {
		go func() {
			names, err := w.names(ctx)
			answers <- listing{i, names, err}
		}()
	}
	var names []string
	err := quorumregister.ErrMinority
	for good, bad := 0, 0; good <= len(s.workers)/2; {
		select {
		case l := <-answers:
			if l.err == nil {
				good++
				names = append(names, l.names...)
				continue
			}
			err = fmt.Errorf("%w; store %d: %w", err, l.index, l.err)
			if bad++; bad > (len(s.workers)-1)/2 {
				return nil, fmt.Errorf("list names: %w", err)
			}
		case <-s.stop:
			return nil, errClosed
		case <-ctx.Done():
			return nil, fmt.Errorf("list names: %w", context.Cause(ctx))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Close ends all use and closes the stores. One that hangs is given a second; then
// Close says so and leaves it behind.
func (s *Set) Close() error {
	s.once.Do(func() {
		close(s.stop)
		errs := make([]error, len(s.workers))
		var wait sync.WaitGroup
		for i, w := range s.workers {
			wait.Go(func() {
				if err := w.close(); err != nil {
					errs[i] = fmt.Errorf("close store %d: %w", i, err)
				}
			})
		}
		wait.Wait()
		s.closed = errors.Join(errs...)
	})
	return s.closed
}
