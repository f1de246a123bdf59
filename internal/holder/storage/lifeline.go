package storage

import (
	"context"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// Lifelines tell the claims of one machine that the process of a holder has ended. They report what they
// do not know for sure as not ended.
type Lifelines interface {
	// Tie ties a claim to this process, before anything is claimed.
	Tie(id machine.ID) (Lifeline, error)
	// Ended reports whether the claim has held by the stamp, 0 if it never has, and its process has ended.
	Ended(id machine.ID, stamp uint64) bool
	// Forget is called for a claim that has ended and that its register does not show any more.
	Forget(id machine.ID)
}

// Lifeline is the tie of one claim.
type Lifeline interface {
	// Held notes the stamp by which the claim holds.
	Held(stamp uint64) error
	// Cut ends the tie. The claim's tenure has to be over.
	Cut()
}

const (
	// mostTied is how many claims of a Leaser are tied at a time: each has a file open.
	mostTied = 256
	// mostHeedPause is the longest time from one look at the lifelines of those in a claim's way to
	// the next.
	mostHeedPause = 50 * time.Millisecond
	// cutPatience is for how long a claim that is over waits until its lifeline is gone.
	cutPatience = time.Second
)

// tether is a claim's side of its lifeline. A goroutine does the operations, any of which may hang.
type tether struct {
	held   chan uint64       // the stamp; capacity 1
	forget chan []machine.ID // capacity 1
	loose  chan struct{}     // closed when the tenure is over
	gone   chan struct{}     // closed when the lifeline is
}

// tie ties the claim, if that is possible before ctx ends. A lifeline that comes later is cut at once: the
// processes that the caller has started by then would not be tied.
func (x *claim) tie(ctx context.Context) {
	l := x.leaser
	if l.lifelines == nil {
		return
	}
	select {
	case l.tied <- struct{}{}:
	default:
		return
	}
	t := &tether{held: make(chan uint64, 1), forget: make(chan []machine.ID, 1), loose: make(chan struct{}), gone: make(chan struct{})}
	ready := make(chan bool, 1)
	go func() {
		defer func() { <-l.tied; close(t.gone) }()
		line, err := l.lifelines.Tie(x.id)
		if ready <- err == nil; err != nil {
			return
		}
		defer line.Cut()
		t.serve(line, l.lifelines)
	}()
	select {
	case ok := <-ready:
		x.mu.Lock()
		defer x.mu.Unlock()
		if ok && !x.untied {
			x.tether = t
			return
		}
	case <-ctx.Done():
	}
	close(t.loose)
}

func (t *tether) serve(line Lifeline, lines Lifelines) {
	for {
		select {
		case stamp := <-t.held:
			_ = line.Held(stamp) // else others wait
		case ids := <-t.forget:
			for _, id := range ids {
				lines.Forget(id)
			}
		case <-t.loose:
			return
		}
	}
}

// noteHeld notes the stamp by which the claim holds now. It runs on the driver's goroutine; x.mu is held.
func (x *claim) noteHeld() {
	if x.tether == nil {
		return
	}
	select {
	case <-x.tether.held: // one that is not written yet
	default:
	}
	x.tether.held <- x.lease.Held()
}

// succeed has the lifelines of those forgotten whose place the claim has taken.
func (x *claim) succeed(ended []disklease.Ended) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.tether == nil || len(ended) == 0 {
		return
	}
	var ids []machine.ID
	for _, e := range ended {
		ids = append(ids, e.ID)
	}
	x.tether.forget <- ids // once in a claim's life
}

// untie cuts the lifeline of a claim that is over.
func (x *claim) untie() {
	x.mu.Lock()
	t := x.tether
	x.untied = true
	x.mu.Unlock()
	if t == nil {
		return
	}
	close(t.loose)
	enough := time.NewTimer(cutPatience)
	defer enough.Stop()
	select {
	case <-t.gone:
	case <-enough.C:
	}
}

// ended returns the members that hold no more because their processes have ended. A lock delay is for just
// these: requests that they have sent to others may still arrive.
func (l *Leaser) ended(ctx context.Context, members []disklease.Member) (ended []disklease.Ended) {
	members = slices.DeleteFunc(slices.Clone(members), func(m disklease.Member) bool {
		return m.Released || m.Dead || m.LockDelay > 0
	})
	if l.lifelines == nil || len(members) == 0 {
		return nil
	}
	found := make(chan []disklease.Ended, 1)
	go func() { // it may hang
		var all []disklease.Ended
		for _, m := range members {
			if l.lifelines.Ended(m.ID, m.Stamp) {
				all = append(all, disklease.Ended{ID: m.ID, Stamp: m.Stamp})
			}
		}
		found <- all
	}()
	select {
	case ended = <-found:
	case <-ctx.Done():
	}
	return ended
}

// heed tells a claim that waits of those that have ended: that hold, or that are next. The function that it returns ends that, and
// returns them.
func (x *claim) heed(ctx context.Context) func() []disklease.Ended {
	l := x.leaser
	if l.lifelines == nil {
		return func() []disklease.Ended { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	var all []disklease.Ended
	go func() {
		defer close(over)
		tick := time.NewTicker(min(mostHeedPause, max(l.header.Term/50, time.Millisecond)))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			var members []disklease.Member
			x.driver.Do(func() {
				s := x.lease.State()
				members = s.Members
				if s.Next != (machine.ID{}) { // those behind it have their turn when it has ended
					members = append(members, disklease.Member{ID: s.Next})
				}
			})
			for _, e := range l.ended(ctx, withoutID(members, x.id)) {
				all = append(all, e)
				x.driver.Step(e)
			}
		}
	}()
	return func() []disklease.Ended {
		cancel()
		<-over
		return all
	}
}
