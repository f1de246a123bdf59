package storage

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// oneLine is the lifelines of one claim, and that claim's.
type oneLine struct{ tied, cut int }

func (o *oneLine) Tie(machine.ID) (Lifeline, error) { o.tied++; return o, nil }
func (o *oneLine) Ended(machine.ID, uint64) bool    { return false }
func (o *oneLine) Forget(machine.ID)                {}
func (o *oneLine) Held(uint64) error                { return nil }
func (o *oneLine) Cut()                             { o.cut++ }

// TestTiedWhenItIsOver: a claim that is over already when its lifeline comes has it cut, and its place is free.
func TestTiedWhenItIsOver(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := &oneLine{}
		x := &claim{leaser: &Leaser{lifelines: o, tied: make(chan struct{}, 1)}}
		x.untie()
		x.tie(t.Context())
		synctest.Wait()
		if o.tied != 1 || o.cut != 1 || x.tether != nil || len(x.leaser.tied) > 0 {
			t.Errorf("a claim that is over was tied %d times and cut %d times, and %d are tied; want it cut", o.tied, o.cut, len(x.leaser.tied))
			close(x.tether.loose)
		}
	})
}

// TestTheEndOfALifelineIsAwaited: a claim that is over waits until its lifeline is cut, so that no later process
// takes the claim for a living one, but no longer than for a second.
func TestTheEndOfALifelineIsAwaited(t *testing.T) {
	for cut, want := range map[time.Duration]time.Duration{0: 0, 300 * time.Millisecond: 300 * time.Millisecond, time.Minute: time.Second} {
		bubble.Test(t, func(t *testing.T) {
			line := &tether{loose: make(chan struct{}), gone: make(chan struct{})}
			go func() {
				<-line.loose
				time.Sleep(cut)
				close(line.gone)
			}()
			x, began := &claim{tether: line}, time.Now()
			x.untie()
			if took := time.Since(began); took != want {
				t.Errorf("a lifeline is cut after %v, and its claim waits for %v, want %v", cut, took, want)
			}
			<-line.gone
		})
	}
}

// theEnded are lifelines of claims that have all ended.
type theEnded struct {
	oneLine
	asked []machine.ID
}

func (e *theEnded) Ended(id machine.ID, stamp uint64) bool {
	e.asked = append(e.asked, id)
	return stamp != 7
}

// TestWhoseEndCounts: only a member that is in the way is asked for, and none with a lock delay. An end is told
// with the stamp by which the member held.
func TestWhoseEndCounts(t *testing.T) {
	members := []disklease.Member{
		{ID: machine.ID{1}, Stamp: 5}, {ID: machine.ID{2}, Released: true}, {ID: machine.ID{3}, Dead: true},
		{ID: machine.ID{4}, LockDelay: 1}, {ID: machine.ID{5}, Stamp: 7}, {ID: machine.ID{6}},
	}
	before := slices.Clone(members)
	lines := &theEnded{}
	l := &Leaser{lifelines: lines}
	got := l.ended(t.Context(), members)
	if want := []disklease.Ended{{ID: machine.ID{1}, Stamp: 5}, {ID: machine.ID{6}}}; !slices.Equal(got, want) {
		t.Errorf("the ended are %v, want %v", got, want)
	}
	if want := []machine.ID{{1}, {5}, {6}}; !slices.Equal(lines.asked, want) {
		t.Errorf("asked for are %v, want %v", lines.asked, want)
	}
	for i, m := range before {
		if members[i].ID != m.ID {
			t.Errorf("the caller's members have become %v", members)
			break
		}
	}
	if got := (&Leaser{}).ended(context.Background(), members); got != nil {
		t.Errorf("without lifelines %v have ended", got)
	}
}

// TestTiedWhileThereIsRoom: where too many claims are tied already, another goes on without a lifeline.
func TestTiedWhileThereIsRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := &oneLine{}
		l := &Leaser{lifelines: o, tied: make(chan struct{}, 1)}
		first, second := &claim{leaser: l}, &claim{leaser: l}
		first.tie(t.Context())
		over := false
		go func() { second.tie(t.Context()); over = true }()
		if synctest.Wait(); !over || second.tether != nil {
			t.Errorf("there is no room for a second lifeline, and it waits: %v, or has one: %v", !over, second.tether != nil)
		}
		first.untie()
		synctest.Wait()
	})
}
