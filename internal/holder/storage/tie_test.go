package storage

import (
	"testing"
	"testing/synctest"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
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
