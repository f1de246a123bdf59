package etcdapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/watch"
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
		time.Sleep(election/4 + time.Millisecond)
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
