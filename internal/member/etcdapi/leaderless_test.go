package etcdapi

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// A stream that requires a leader is cut when there was none for three election timeouts, and not
// before, whatever other streams came and went meanwhile.
func TestLeaderlessStreamsAreCutInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const election = time.Second
		f := newFake(t, watch.Config{})
		defer f.hub.Close()
		l := &New(f, Config{ElectionTimeout: election}).leaderless
		guard := func() (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(t.Context())
			return ctx, l.guard(cancel)
		}
		stays, remove := guard()
		defer remove()
		_, leaves := guard()
		leaves()
		if n := len(l.streams); n != 1 {
			t.Errorf("one of two streams has ended, and %d are looked after", n)
		}
		time.Sleep(10 * election) // the leader is there
		late, remove := guard()
		defer remove()
		f.loseLeader(0)
		time.Sleep(noLeaderTimeouts*election - time.Millisecond)
		synctest.Wait()
		if stays.Err() != nil || late.Err() != nil {
			t.Errorf("streams were cut before three election timeouts: %v, %v", context.Cause(stays), context.Cause(late))
		}
		time.Sleep(2 * time.Millisecond) // a look falls on the end of the third
		synctest.Wait()
		for name, ctx := range map[string]context.Context{"the first": stays, "the last": late} {
			if !errors.Is(context.Cause(ctx), rpctypes.ErrGRPCNoLeader) {
				t.Errorf("%s stream without a leader for three election timeouts: %v, want it cut", name, context.Cause(ctx))
			}
		}
		// Later ones are looked after as well.
		f.leader.Store(11)
		again, remove := guard()
		defer remove()
		time.Sleep(election)
		f.loseLeader(0)
		time.Sleep(4 * election)
		synctest.Wait()
		if !errors.Is(context.Cause(again), rpctypes.ErrGRPCNoLeader) {
			t.Errorf("a stream that came after others were cut: %v, want it cut", context.Cause(again))
		}
	})
}

// asked counts how often it is asked for the leader.
type asked struct {
	*fake
	times *atomic.Int64
}

func (b asked) Leader() (uint64, uint64, time.Duration) {
	b.times.Add(1)
	return b.fake.Leader()
}

// Nobody is asked for the leader while no stream requires a leader: neither when all have ended, nor
// when they were cut.
func TestNobodyIsAskedForALeaderThatNoStreamRequires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, watch.Config{})
		defer f.hub.Close()
		b := asked{f, new(atomic.Int64)}
		l := &New(b, Config{ElectionTimeout: time.Second}).leaderless
		for _, cut := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(t.Context())
			remove := l.guard(cancel)
			if cut {
				f.loseLeader(time.Hour)
				<-ctx.Done()
				synctest.Wait()
			} else {
				remove()
			}
			before := b.times.Load()
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := b.times.Load() - before; n != 0 {
				t.Errorf("no stream is left, cut %v, and the leader is asked for %d times", cut, n)
			}
			remove()
		}
	})
}
