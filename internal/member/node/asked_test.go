package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A linearizable read uses this member's lease once the published state has reached the lease's index,
// and otherwise asks the leader. If it is answered, it is counted by the way in which it was answered.
func TestHowABarrierIsAnswered(t *testing.T) {
	lease := &readLease{ReadLease: replica.ReadLease{Until: 100, Index: 6}}
	for _, tt := range []struct {
		name   string
		lease  *readLease
		shown  uint64
		leader machine.NodeID
		play   func(n *Node, cancel func())
		asks   int
		want   error
		counts [3]uint64
	}{
		{"by a lease", lease, 6, 2, func(*Node, func()) {}, 0, nil, [3]uint64{1, 0, 0}},
		{"by a lease, when it is shown", lease, 5, 2, func(n *Node, _ func()) {
			n.barriers.published(6)
		}, 0, nil, [3]uint64{1, 0, 0}},
		{"by a lease, and it is not shown in time", lease, 5, 2, func(n *Node, _ func()) {
			time.Sleep(time.Minute)
			n.barriers.overdue(time.Now())
			synctest.Wait()
			n.barriers.confirmed(n, replica.ReadReady{Number: 1, Index: 5})
		}, 1, nil, [3]uint64{0, 0, 1}},
		{"by a lease, and the caller goes", lease, 5, 2, func(_ *Node, cancel func()) { cancel() }, 0, context.Canceled, [3]uint64{}},
		{"by the leader", nil, 5, 2, func(n *Node, _ func()) {
			n.barriers.confirmed(n, replica.ReadReady{Number: 1, Index: 5})
		}, 1, nil, [3]uint64{0, 0, 1}},
		{"as the leader", nil, 5, 1, func(n *Node, _ func()) {
			n.barriers.confirmed(n, replica.ReadReady{Number: 1, Index: 6}) // which is applied, and not shown
			n.barriers.published(6)
		}, 1, nil, [3]uint64{0, 1, 0}},
		{"by the leader, and it is not shown", nil, 5, 2, func(n *Node, cancel func()) {
			n.barriers.confirmed(n, replica.ReadReady{Number: 1, Index: 6})
			n.barriers.published(5)
			synctest.Wait()
			cancel()
		}, 1, context.Canceled, [3]uint64{}},
		{"by nobody", nil, 5, 0, func(n *Node, _ func()) {
			time.Sleep(time.Minute)
			n.barriers.expire(time.Now(), func(time.Time) error { return errDisk })
		}, 1, errDisk, [3]uint64{}},
		{"when the member ends", nil, 5, 0, func(n *Node, _ func()) { n.halt() }, 1, errStopped, [3]uint64{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, l, _ := linked(t)
			defer n.end()
			n.reads.clock = func() machine.Mono { return 50 }
			n.reads.lease.Store(tt.lease)
			n.leadership.Store(&leadership{leader: tt.leader})
			n.state.Store(&state{index: tt.shown})
			n.ahead.Store(&[]*state{n.State(), {index: 6}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var err error
			over := false
			go func() { err = n.Barrier(ctx); over = true }()
			synctest.Wait()
			if over != (tt.shown == 6) {
				t.Errorf("%s: it is answered at once: %v", tt.name, over)
			}
			tt.play(n, cancel)
			if synctest.Wait(); !over || !errors.Is(err, tt.want) {
				t.Errorf("%s: it is over: %v, with %v; want %v", tt.name, over, err, tt.want)
			}
			asked := 0
			for _, in := range l.heard() {
				if r, ok := in.(replica.Read); ok && r.Number == 1 {
					asked++
				} else {
					t.Errorf("%s: the replica is told %+v, want the first question", tt.name, in)
				}
			}
			if asked != tt.asks {
				t.Errorf("%s: the replica is asked %d times, want %d", tt.name, asked, tt.asks)
			}
			if local, rounds, forwarded := n.ReadCounts(); [3]uint64{local, rounds, forwarded} != tt.counts {
				t.Errorf("%s: counted are %d, %d and %d reads, want %v", tt.name, local, rounds, forwarded, tt.counts)
			}
		})
	}
}

// catchUp confirms the third barrier.
func (n *Node) catchUp() { n.barriers.confirmed(n, replica.ReadReady{Number: 3}) }

// A member is ready when it has caught up, however often its questions fail, and its name is known. It is
// not ready if its caller leaves or the member ends.
func TestAMemberIsReadyWhenItHasCaughtUp(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(n *Node, cancel func())
		want error
	}{
		{"it has caught up, and its name is known", func(n *Node, _ func()) { n.catchUp(); close(n.named) }, nil},
		{"its name is known, and then it has caught up", func(n *Node, _ func()) { close(n.named); n.catchUp() }, nil},
		{"the caller goes before its name is known", func(n *Node, cancel func()) { n.catchUp(); synctest.Wait(); cancel() }, context.Canceled},
		{"it ends before its name is known", func(n *Node, _ func()) { n.catchUp(); synctest.Wait(); n.halt() }, errStopped},
		{"the caller goes", func(_ *Node, cancel func()) { cancel() }, context.Canceled},
		{"it ends", func(n *Node, _ func()) { n.halt() }, errStopped},
	} {
		synctest.Test(t, func(t *testing.T) {
			n, _, _ := linked(t)
			defer n.end()
			n.reads.clock = func() machine.Mono { return 50 }
			n.leadership.Store(&leadership{leader: 2})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var err error
			over := false
			go func() { err = n.Ready(ctx); over = true }()
			for range 2 {
				synctest.Wait()
				time.Sleep(time.Millisecond)
				n.barriers.expire(time.Now(), func(time.Time) error { return errDisk })
				time.Sleep(n.cfg.HeartbeatInterval)
			}
			if synctest.Wait(); over {
				t.Errorf("%s: it is ready after two failures: %v", tt.name, err)
			}
			tt.play(n, cancel)
			if synctest.Wait(); !over || !errors.Is(err, tt.want) {
				t.Errorf("%s: it is over: %v, with %v; want %v", tt.name, over, err, tt.want)
			}
		})
	}
}
