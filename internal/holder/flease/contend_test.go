package flease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestRefusedAsItsCallerLeaves: the peer knows a claim before the machine does, so no verdict is lost. A caller that
// gives up at the moment of a refusal hears the refusal, and waits for nothing more.
func TestRefusedAsItsCallerLeaves(t *testing.T) {
	for range 20 { // chance decides which of the two is seen first
		bubble.Test(t, func(t *testing.T) {
			m := &scripted{answer: func(int, uint64) flease.Report { return nil }}
			p := scriptedPeer(t, m, time.Second)
			p.driver.Stop()
			p.driver = driver.Start(driver.Config[flease.Input, flease.Report]{
				Machine: m, Now: p.cfg.clocks, Send: func([]machine.Envelope) {}, Outcome: p.handle, Fail: func(err error) { t.Error(err) }, QueueLimit: 1,
			})
			defer p.driver.Stop()
			busy := make(chan struct{})
			go p.driver.Do(func() { <-busy })
			synctest.Wait()
			p.driver.Step(flease.Release{ID: 99}) // the queue is full
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			ended := make(chan error, 1)
			began := time.Now()
			go func() {
				_, err := p.Leaser().Acquire(ctx, tenure.Claim{Name: "x", Holder: "h", TTL: 10 * time.Second})
				ended <- err
			}()
			synctest.Wait()
			if p.claim(1, false) == nil {
				close(busy)
				t.Fatal("a claim waits for its turn at the machine, and the peer does not know it: a verdict would be lost")
			}
			p.handle([]flease.Report{flease.Refused{ID: 1, Err: flease.ErrClaim}})
			giveUp()
			close(busy)
			if err := <-ended; !errors.Is(err, tenure.ErrClaim) {
				t.Errorf("a claim is refused as its caller gives up, and the caller hears %v, want %v", err, tenure.ErrClaim)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("a claim was refused, and its caller waits another %v for its end", took)
			}
		})
	}
}

// TestReleasedInTheirOrder: Close gives leases back in the order in which they were claimed, so that a simulated world
// repeats.
func TestReleasedInTheirOrder(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := &scripted{}
		p := scriptedPeer(t, m, time.Second)
		defer p.driver.Stop()
		m.answer = func(_ int, id uint64) flease.Report {
			return flease.Acquired{ID: id, Token: id, Deadline: p.cfg.Clock.Now().Add(time.Minute), Until: 1 << 62}
		}
		l := p.Leaser()
		var want []uint64
		for id := uint64(1); id <= 20; id++ {
			if _, err := l.Acquire(t.Context(), tenure.Claim{Name: fmt.Sprint(id), TTL: 10 * time.Second}); err != nil {
				t.Fatal(err)
			}
			want = append(want, id)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		var got []uint64
		p.driver.Do(func() { got = slices.Clone(m.released) })
		if !slices.Equal(got, want) {
			t.Errorf("leases go back in the order %v, want %v", got, want)
		}
	})
}

// TestAReleasedLeaseIsForgotten: a client remembers no lease that it has released, however long its connection lasts.
func TestAReleasedLeaseIsForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := promptClient(func(n *clientConn, r request) {
			switch r.Op {
			case "acquire":
				n.answered(event{Event: "acquired", ID: r.ID, Token: 7, Until: machine.Mono(time.Hour)})
			case "release":
				n.answered(event{Event: "released", ID: r.ID})
			}
		})
		lease, err := c.Acquire(t.Context(), tenure.Claim{Name: "x", TTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(c.conn.leases); n != 1 {
			t.Errorf("one lease is held, and %d are remembered", n)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if leases, asked := len(c.conn.leases), len(c.conn.asked); leases > 0 || asked > 0 {
			t.Errorf("the lease was released, and %d leases and %d questions are remembered", leases, asked)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
