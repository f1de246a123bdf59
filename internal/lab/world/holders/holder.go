package holders

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/world"
)

// Habits say how holders use leases.
type Habits struct {
	Workers int // claims that a holder pursues at a time
	Names   int
	Term    time.Duration // of a lease
	Quiet   time.Duration // long, by the stores' own measure
	Pause   time.Duration // the longest of those that are not long; Term if 0
	Hold    time.Duration // the longest that a lease is wanted; two Terms if 0

	Shared float64 // the part of claims that may be shared
	Idle   float64 // the part of pauses that are long
	Onlook float64 // the part of turns that only look
	Reopen float64 // the part of turns at which a holder closes and opens anew
	Kill   float64 // ... is killed
	Break  float64 // ... ends tenures of others by force, as an operator does

	Records bool          // the holder of an exclusive lease sets its record
	Every   time.Duration // ... does work that is done once in so much time; 0: none
}

// Leaser is a holder's source of leases.
type Leaser interface {
	tenure.Leaser
	Takeover() time.Duration
}

// Holder is a process that takes leases, from its start to its end.
type Holder struct {
	World   *world.World
	Judge   *Judge
	Habits  Habits
	Name    string
	Process *world.Process
	Seed    uint64          // of its draws
	Stop    <-chan struct{} // closed when it is to come to an end
	Calm    func() bool     // reports whether faults have ended
	Steady  func() bool     // reports whether nothing is left of them either: from then on nothing is lost; nil: never
	Leaser  Leaser

	mu     sync.Mutex
	random map[string]*rand.Rand // a source for each part of the process
}

func (h *Holder) steady() bool { return h.Steady != nil && h.Steady() }

// Float draws from 0 to 1; any goroutine may call it. Each part of a process has a source of
// its own, so that it does not matter in which order those run that are ready at one moment.
func (h *Holder) Float(part string) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.random == nil {
		h.random = map[string]*rand.Rand{}
	}
	if h.random[part] == nil {
		h.random[part] = world.Rand(h.Seed, part)
	}
	return h.random[part].Float64()
}

// UpTo draws a time.
func (h *Holder) UpTo(part string, d time.Duration) time.Duration {
	return time.Duration(h.Float(part) * float64(d))
}

// Ended reports whether the process has ended.
func (h *Holder) Ended() bool { return closed(h.Process.Ended()) }

func (h *Holder) stopping() bool { return closed(h.Stop) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Live is the life of a process: open gives it a Leaser, if it can, and its workers work until
// it ends or wants to.
func (h *Holder) Live(open func() error) {
	for {
		if err := open(); err == nil {
			break
		} else if h.Ended() || h.stopping() {
			return
		}
		h.Process.Sleep(100 * time.Millisecond)
	}
	var workers sync.WaitGroup
	over := make(chan struct{})
	var once sync.Once
	for i := range h.Habits.Workers {
		me := fmt.Sprint("worker ", i)
		workers.Go(func() { h.work(me, over, func() { once.Do(func() { close(over) }) }) })
	}
	workers.Wait()
	h.Leaser.Close()
}

// work is the life of a worker.
func (h *Holder) work(me string, over chan struct{}, end func()) {
	most := h.Habits.Pause
	if most == 0 {
		most = h.Habits.Term
	}
	for {
		pause := h.UpTo(me, most)
		if h.Float(me) < h.Habits.Idle {
			pause = h.UpTo(me, 4*h.Habits.Quiet)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-over:
			return
		case <-h.Stop:
			return
		case <-h.Process.Ended():
			return
		}
		h.Process.Gate()
		name := fmt.Sprint("lease-", int(h.Float(me)*float64(h.Habits.Names)))
		what := h.Float(me)
		if what -= h.Habits.Onlook; what < 0 {
			h.look(name)
			continue
		}
		if what -= h.Habits.Reopen; what < 0 {
			end()
			return
		}
		calm, steady := h.Calm(), h.steady()
		if calm && !steady {
			continue
		}
		if what -= h.Habits.Kill; what < 0 && !calm {
			h.World.Count("killed", 1)
			h.Process.End()
			return
		}
		if what -= h.Habits.Break; what < 0 && !calm {
			h.breakOne(name)
			continue
		}
		h.claim(me, name)
	}
}

func (h *Holder) look(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), h.Habits.Term)
	defer cancel()
	if s, err := h.Leaser.Observe(ctx, name); err == nil {
		h.World.Count("looks", 1)
		h.World.Count("holders seen", len(s.Holders))
	}
}

// claim acquires and holds for a while.
func (h *Holder) claim(me, name string) {
	c := tenure.Claim{Name: name, Holder: h.Name}
	if h.Float(me) < h.Habits.Shared {
		c.Slots = 2 + int(h.Float(me)*2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.UpTo(me, 3*h.Leaser.Takeover()))
	defer cancel()
	acquire := h.Leaser.Acquire
	if h.Float(me) < 0.4 {
		acquire = h.Leaser.TryAcquire
	}
	l, err := acquire(ctx, c)
	if err != nil {
		h.World.Count("refused", 1)
		return
	}
	steady := h.steady()
	hold := &hold{l, h, max(c.Slots, 1)}
	h.Judge.acquired(hold)
	if h.Habits.Records && hold.Slots == 1 {
		h.chronicle(l)
	}
	if h.Habits.Every > 0 && hold.Slots == 1 {
		h.period(l)
	}
	most := h.Habits.Hold
	if most == 0 {
		most = 2 * h.Habits.Term
	}
	timer := time.NewTimer(h.UpTo(me, most))
	how := "releases"
	select {
	case <-timer.C:
	case <-h.Stop:
	case <-l.Done():
		how = "loses"
	case <-h.Process.Ended():
		how = "dies with"
	}
	if how == "releases" {
		h.Process.Gate() // it is held as long as it has not been given back
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		h.Judge.over(hold, how)
		_ = l.Release(ctx)
		cancel()
		if steady {
			h.World.Count("releases when all was well", 1)
		}
		return
	}
	if how == "loses" && steady {
		h.World.Fail("early loss: %s loses %s, token %d, and all is well: %v", h.Name, l.Name(), l.Token(), l.Check())
	}
	h.Judge.over(hold, how)
}

// Last acquires every name twice and gives it back: once faults and holders have ended, each has
// to be had within a time. If it is said to be had at once after a release, a try suffices then. Of
// several stores a minority may have missed that an earlier holder left, and costs a wait.
func (h *Holder) Last(within time.Duration, atOnce bool) {
	for i := range 2 * h.Habits.Names {
		name := fmt.Sprint("lease-", i/2)
		acquire, what := h.Leaser.Acquire, "late: nobody holds"
		if i%2 == 1 && atOnce {
			acquire, what = h.Leaser.TryAcquire, "release: its holder has released"
		}
		ctx, cancel := context.WithTimeout(context.Background(), within)
		l, err := acquire(ctx, tenure.Claim{Name: name, Holder: h.Name})
		cancel()
		if err != nil {
			h.World.Fail("%s %s, and it cannot be had: %v", what, name, err)
			continue
		}
		hold := &hold{l, h, 1}
		h.Judge.acquired(hold)
		if h.Habits.Records {
			h.chronicle(l)
		}
		h.Judge.over(hold, "releases")
		ctx, cancel = context.WithTimeout(context.Background(), 5*time.Second)
		if err := l.Release(ctx); err != nil {
			h.World.Fail("release: %s was held, and all is well: %v", name, err)
		}
		cancel()
	}
}
