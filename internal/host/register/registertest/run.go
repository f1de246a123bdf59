package registertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// Fixture is a set of stores to judge: new, empty, all of it there, and opened so
// that nothing is obsolete.
type Fixture struct {
	// Open opens every store of the set, as another process would. It is called many times,
	// and the stores that it opened are closed.
	Open func() ([]register.Store, error)
	// Backup copies the contents of the store of an index, and returns a function that puts them
	// back while the store is open. Nil if the medium cannot be restored like that.
	Backup func(index int) (restore func())
}

// Run judges the stores of fixtures that open makes, a new one for each test.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, err := range c.judge(t.Context(), open(t)) {
				t.Error(err)
			}
		})
	}
}

// Simulate is Run with each test in a bubble of testing/synctest, where waiting takes no time.
// It is for stores whose clock follows package time.
func Simulate(t *testing.T, open func(t *testing.T) Fixture) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(time.Minute) }) // the accesses left behind end
				for _, err := range c.judge(t.Context(), open(t)) {
					t.Error(err)
				}
			})
		})
	}
}

// check is one test. It reports all that is wrong.
type check struct {
	name string
	run  func(p *probe)
}

// probe has the tools of a check.
type probe struct {
	Fixture
	ctx context.Context

	mu     sync.Mutex
	errs   []error
	opened []func() error
}

// hopeless ends a check that cannot go on.
type hopeless struct{}

// checkTime is how long a check may take before it is taken to hang.
const checkTime = 2 * time.Minute

func (c check) judge(ctx context.Context, f Fixture) []error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, errors.New("it hangs"))
	defer cancel()
	p := &probe{Fixture: f, ctx: ctx}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(hopeless{}) {
				panic(r)
			}
		}()
		c.run(p)
	}()
	p.close()
	return p.errs
}

func (p *probe) errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, fmt.Errorf(format, args...))
}

// must ends the check if err is set. It is for the check's own goroutine.
func (p *probe) must(err error) {
	if err != nil {
		p.errorf("%w", err)
		panic(hopeless{})
	}
}

// stores opens all stores anew, in the order of their index.
func (p *probe) stores() []register.Store {
	stores, err := p.Open()
	p.must(err)
	slices.SortFunc(stores, func(a, b register.Store) int { return a.Header().Index - b.Header().Index })
	for i, s := range stores {
		p.opened = append(p.opened, s.Close)
		if h := s.Header(); h.Index != i || h.Of != len(stores) {
			p.must(fmt.Errorf("store %d of %d says that it is %d of %d", i, len(stores), h.Index, h.Of))
		}
	}
	return stores
}

// set opens all stores anew, behind faults. Stuck accesses land when a check says so.
func (p *probe) set() (*set, []*register.Faults) {
	var stores []register.Store
	var faults []*register.Faults
	for _, s := range p.stores() {
		f := &register.Faults{Store: s}
		stores, faults = append(stores, f), append(faults, f)
	}
	opened, err := register.NewSet(stores)
	p.must(err)
	p.opened[len(p.opened)-len(stores)] = opened.Close // which closes them
	p.opened = p.opened[:len(p.opened)-len(stores)+1]
	return &set{opened, p}, faults
}

// set closes its registers in the end.
type set struct {
	*register.Set
	p *probe
}

func (s *set) register(name string) *register.Cell { return s.closeLater(s.Set.Register(name)) }

func (s *set) Regular(name string) *register.Cell { return s.closeLater(s.Set.Regular(name)) }

func (s *set) closeLater(c *register.Cell) *register.Cell {
	s.p.opened = append(s.p.opened, c.Close)
	return c
}

// close closes everything that was opened, the last first.
func (p *probe) close() {
	for _, f := range slices.Backward(p.opened) {
		if err := f(); err != nil {
			p.errorf("close: %w", err)
		}
	}
	p.opened = nil
}
