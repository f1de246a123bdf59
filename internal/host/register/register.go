package register

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Register is a register that processes share, for callers that block. Data that was read must not
// be changed.
type Register interface {
	Read(ctx context.Context) (machine.Value, error)
	// Write returns the version that it gave to the data. If it fails, or ctx ends, it
	// may have taken effect, and may yet.
	Write(ctx context.Context, data []byte) (machine.Version, error)
}

// Bounds are a register's promises.
type Bounds struct {
	// Delay is δ: how long an operation takes at most, in ordinary times.
	Delay time.Duration
	// Atomic: there is an order of all operations, in which each takes effect at a
	// moment between its beginning and its end. Else the register is regular.
	Atomic bool
}

// Cell is the register of a name in a Set: quorumregister, driven. It serves one
// operation at a time; the others wait.
type Cell struct {
	name   string
	atomic bool
	set    *Set
	driver *driver.Driver[machine.Access, quorumregister.Outcome]
	leave  func()
	turn   chan struct{} // holds a token while an operation lasts
	closed chan struct{}
	once   sync.Once

	// Of the operation that lasts.
	id   uint64
	done chan machine.Accessed

	troubles troubles
}

var _ Register = (*Cell)(nil)

// Register opens the register of a name, with atomic reads.
func (s *Set) Register(name string) *Cell { return s.cell(name, anybody(), true) }

// RegisterOf is Register for a writer that nobody else is, nor was.
func (s *Set) RegisterOf(name string, writer machine.ID) *Cell { return s.cell(name, writer, true) }

// Regular opens the register of a name, with reads that are regular and always take
// one round trip.
func (s *Set) Regular(name string) *Cell { return s.cell(name, anybody(), false) }

// anybody is a writer's ID.
func anybody() (me machine.ID) {
	_, _ = rand.Read(me[:]) // never fails
	return me
}

func (s *Set) cell(name string, me machine.ID, atomic bool) *Cell {
	c := &Cell{name: name, atomic: atomic, set: s, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	access, leave := s.Serve(name, me, func(a machine.Accessed) { c.driver.Accessed(a) })
	c.leave = leave
	c.driver = driver.Start(driver.Config[machine.Access, quorumregister.Outcome]{
		Machine: quorumregister.Client(s.Config(me, atomic)),
		Now:     func() machine.Now { return machine.Now{Mono: s.now()} },
		Access:  access,
		Outcome: c.outcomes,
	})
	return c
}

// Bounds returns δ as it was measured, and whether reads are atomic: with a single
// store they always are.
func (c *Cell) Bounds() Bounds {
	return Bounds{Delay: c.set.delays.Bound(), Atomic: c.atomic || c.set.header.Of == 1}
}

// Read returns the register's value.
func (c *Cell) Read(ctx context.Context) (machine.Value, error) {
	reply, err := c.do(ctx, machine.Read{})
	if err != nil {
		return machine.Value{}, fmt.Errorf("read register %q: %w", c.name, err)
	}
	return reply.(machine.Value), nil
}

// Write sets the data, of at most MaxData bytes.
func (c *Cell) Write(ctx context.Context, data []byte) (machine.Version, error) {
	return c.WriteAt(ctx, 0, data)
}

// WriteAt is Write with a Seq: see machine.Write.
func (c *Cell) WriteAt(ctx context.Context, seq uint64, data []byte) (machine.Version, error) {
	reply, err := c.do(ctx, machine.Write{Data: data, Seq: seq})
	if err != nil {
		return machine.Version{}, fmt.Errorf("write register %q: %w", c.name, err)
	}
	return reply.(machine.Version), nil
}

// Note sets this cell's note, of at most MaxNote bytes.
func (c *Cell) Note(ctx context.Context, data []byte) error {
	if _, err := c.do(ctx, machine.Note{Data: data}); err != nil {
		return fmt.Errorf("note at register %q: %w", c.name, err)
	}
	return nil
}

// do waits for its turn and then for the operation. An operation whose caller gave
// up keeps the turn until it ends: nothing piles up behind stores that hang.
func (c *Cell) do(ctx context.Context, op any) (any, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, c.troubles.explain(context.Cause(ctx))
	case <-c.closed:
		return nil, errClosed
	case <-c.set.stop:
		return nil, errClosed
	}
	done := make(chan machine.Accessed, 1)
	c.id++
	c.done = done
	c.driver.Step(machine.Access{ID: c.id, Op: op})
	select {
	case a := <-done:
		return a.Reply, a.Err
	case <-ctx.Done():
		return nil, c.troubles.explain(context.Cause(ctx))
	case <-c.closed:
		return nil, errClosed
	case <-c.set.stop:
		return nil, errClosed
	}
}

// outcomes runs on the driver's goroutine. The turn orders it with do.
func (c *Cell) outcomes(outs []quorumregister.Outcome) {
	for _, out := range outs {
		switch event := out.Event.(type) {
		case nil:
			c.done <- out.Accessed
			<-c.turn
		case quorumregister.Took:
			c.set.delays.Add(event.Time)
		default:
			c.troubles.note(event)
		}
	}
}

// Close ends the use of the register here; it closes no store. Operations that last
// end with errClosed.
func (c *Cell) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.driver.Stop()
		c.leave()
	})
	return nil
}
