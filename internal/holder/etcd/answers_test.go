package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

const ranges = "/etcdserverpb.KV/Range"

// answering is a Leaser whose calls of a method end with the error of answer; nil asks the server.
// The calls are counted from 1.
func answering(t *testing.T, server, method string, c clock.Clock, answer func(ctx context.Context, n int) error) *etcd.Leaser {
	var calls atomic.Int64
	client := plainClient(t, server, func(ctx context.Context, called string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if called == method {
			if err := answer(ctx, int(calls.Add(1))); err != nil {
				return err
			}
		}
		return call(ctx, called, req, reply, cc, opts...)
	})
	l := etcd.New(client, c)
	t.Cleanup(func() { l.Close() })
	return l
}

// calls are all that a Leaser can be asked.
var calls = map[string]func(context.Context, *etcd.Leaser, tenure.Claim) error{
	"Acquire": func(ctx context.Context, l *etcd.Leaser, c tenure.Claim) error {
		_, err := l.Acquire(ctx, c)
		return err
	},
	"TryAcquire": func(ctx context.Context, l *etcd.Leaser, c tenure.Claim) error {
		_, err := l.TryAcquire(ctx, c)
		return err
	},
	"Observe": func(ctx context.Context, l *etcd.Leaser, c tenure.Claim) error {
		_, err := l.Observe(ctx, c.Name)
		return err
	},
	"Await": func(ctx context.Context, l *etcd.Leaser, c tenure.Claim) error {
		_, err := l.Await(ctx, tenure.State{Name: c.Name})
		return err
	},
	"List": func(ctx context.Context, l *etcd.Leaser, c tenure.Claim) error {
		_, err := l.List(ctx, c.Name)
		return err
	},
}

// TestAClosedLeaserSaysSo: all calls of a closed Leaser return ErrClosed.
func TestAClosedLeaserSaysSo(t *testing.T) {
	l := open(t, endpoint(t))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, call := range calls {
		if err := call(t.Context(), l, long(t)); !errors.Is(err, tenure.ErrClosed) {
			t.Errorf("%s after Close returns %v, want %v", name, err, tenure.ErrClosed)
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close after Close: %v", err)
	}
}

// TestCloseEndsCalls: a call under way ends with the Leaser, and is told of that and not of a server that is
// silent.
func TestCloseEndsCalls(t *testing.T) {
	server := endpoint(t)
	for _, name := range []string{"TryAcquire", "Await"} {
		asked := make(chan struct{}, 10)
		l := answering(t, server, ranges, nil, func(ctx context.Context, _ int) error {
			asked <- struct{}{}
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		})
		ended := make(chan error, 1)
		go func() { ended <- calls[name](t.Context(), l, long(t)) }()
		<-asked
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, tenure.ErrClosed) || errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("%s of a Leaser that closes returns %v, want %v alone", name, err, tenure.ErrClosed)
		}
	}
}

// TestAwaitWaitsOutTrouble: a look that fails ends no wait, unless no waiting cures it.
func TestAwaitWaitsOutTrouble(t *testing.T) {
	server := endpoint(t)
	held, err := open(t, server).Acquire(t.Context(), long(t))
	if err != nil {
		t.Fatal(err)
	}
	// The client itself tries on where the server is away, and not where it has too much to do.
	for code, cured := range map[codes.Code]bool{codes.ResourceExhausted: true, codes.PermissionDenied: false} {
		l := answering(t, server, ranges, nil, func(_ context.Context, n int) error {
			if n == 1 {
				return status.Error(code, "not now")
			}
			return nil
		})
		s, err := l.Await(t.Context(), tenure.State{Name: t.Name()})
		switch {
		case cured && (err != nil || len(s.Holders) != 1 || s.Holders[0].Token != held.Token()):
			t.Errorf("the first look of Await fails with %v, and it returns %+v, %v; want the holder", code, s, err)
		case !cured && (status.Code(err) != code || !strings.Contains(err.Error(), "observe")):
			t.Errorf("the first look of Await fails with %v, and it returns %v; want that", code, err)
		}
	}
}

// interrupted ends the first watch when it is there. Before the second, something happens.
type interrupted struct {
	clientv3.Watcher
	watches int
	between func()
}

func (w *interrupted) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	if w.watches++; w.watches > 1 {
		w.between()
		return w.Watcher.Watch(ctx, key, opts...)
	}
	first := make(chan clientv3.WatchResponse, 1)
	first <- clientv3.WatchResponse{Created: true}
	close(first)
	return first
}

// TestAwaitBetweenTwoWatches: a change between the end of one watch and the beginning of the next is seen.
func TestAwaitBetweenTwoWatches(t *testing.T) {
	server := endpoint(t)
	held, err := open(t, server).Acquire(t.Context(), long(t))
	if err != nil {
		t.Fatal(err)
	}
	client := plainClient(t, server)
	client.Watcher = &interrupted{Watcher: client.Watcher, between: func() {
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}}
	l := etcd.New(client, nil)
	defer l.Close()
	since, err := l.Observe(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if s, err := l.Await(ctx, since); err != nil || len(s.Holders) > 0 {
		t.Errorf("the lease was released between two watches, and Await returns %+v, %v", s, err)
	}
}

// TestATryTellsSilence: a store that cannot be reached is no holder, and no mistake of the caller's.
func TestATryTellsSilence(t *testing.T) {
	server := endpoint(t)
	for code, unavailable := range map[codes.Code]bool{codes.Unavailable: true, codes.PermissionDenied: false} {
		l := answering(t, server, ranges, nil, func(context.Context, int) error { return status.Error(code, "no") })
		_, err := l.TryAcquire(t.Context(), long(t))
		if errors.Is(err, tenure.ErrUnavailable) != unavailable || status.Code(err) != code || errors.As(err, new(tenure.HeldError)) {
			t.Errorf("the server answers with %v, and TryAcquire with %v; want that, and %v: %v", code, err, tenure.ErrUnavailable, unavailable)
		}
	}
}

// TestListTellsFailures: half a list is none.
func TestListTellsFailures(t *testing.T) {
	server := endpoint(t)
	if _, err := open(t, server).Acquire(t.Context(), long(t)); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{ranges, transactions} {
		l := answering(t, server, method, nil, func(context.Context, int) error { return status.Error(codes.Unavailable, "no") })
		if got, err := l.List(t.Context(), t.Name()); status.Code(err) != codes.Unavailable || got != nil || !strings.Contains(err.Error(), t.Name()) {
			t.Errorf("%s fails, and List returns %q, %v; want that", method, got, err)
		}
	}
}

// TestListEverything: without a prefix all names are listed.
func TestListEverything(t *testing.T) {
	l := open(t, endpoint(t))
	if _, err := l.Acquire(t.Context(), long(t)); err != nil {
		t.Fatal(err)
	}
	names, err := l.List(t.Context(), "")
	if err != nil || !strings.Contains(strings.Join(names, "\n"), t.Name()) {
		t.Errorf("of everything List returns %q, %v; want %q among them", names, err, t.Name())
	}
}

// TestReleaseOfALostLease: it returns the loss, and revokes the lease that the server still keeps,
// so that the next claim need not wait for it.
func TestReleaseOfALostLease(t *testing.T) {
	server := endpoint(t)
	c, plain := clock.NewSimulated(1), plainClient(t, server)
	l := etcd.New(plainClient(t, server), c)
	defer l.Close()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c.Jump(2 * time.Minute)
	if err := lease.Release(t.Context()); !errors.Is(err, tenure.ErrLost) {
		t.Errorf("Release of what was lost returns %v, want %v", err, tenure.ErrLost)
	}
	if n := queued(t, plain); n != 0 {
		t.Errorf("the release of a lost lease leaves %d keys", n)
	}
}

// TestOfALaterVersion: this version understands the fields that it knows of a record that a later
// version wrote.
func TestOfALaterVersion(t *testing.T) {
	server := endpoint(t)
	l, plain := open(t, server), plainClient(t, server)
	s := session(t, plain)
	key := fmt.Sprintf("%s/%x", t.Name(), int64(s.Lease()))
	if _, err := plain.Put(t.Context(), key, `{"tenure":2,"holder":"of tomorrow","slots":3,"color":"red"}`, clientv3.WithLease(s.Lease())); err != nil {
		t.Fatal(err)
	}
	lease, err := l.TryAcquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: time.Minute, Slots: 2})
	if err != nil {
		t.Fatalf("beside one of three of a later version: %v", err)
	}
	seen, err := l.Observe(t.Context(), t.Name())
	if err != nil || len(seen.Holders) != 2 || seen.Holders[0].Holder != "of tomorrow" || seen.Holders[0].Slots != 3 || seen.Holders[1].Token != lease.Token() {
		t.Errorf("observed %+v, %v; want both", seen, err)
	}
}

// TestALostLeaseIsForgotten: the Leaser of a program that loses leases does not collect them.
func TestALostLeaseIsForgotten(t *testing.T) {
	server := endpoint(t)
	c := clock.NewSimulated(1)
	l := etcd.New(plainClient(t, server), c)
	defer l.Close()
	lease, err := l.Acquire(t.Context(), long(t))
	if err != nil {
		t.Fatal(err)
	}
	if n := l.Registered(); n != 1 {
		t.Errorf("%d leases are remembered, want the one that is held", n)
	}
	c.Jump(2 * time.Minute)
	<-lease.Done()
	waitFor(t, "the Leaser to forget a lease that was lost", func() bool { return l.Registered() == 0 })
}

// TestTheLastSecond: a server answers in whole seconds. A lease with less than one left has a
// holder, one that is gone has none.
func TestTheLastSecond(t *testing.T) {
	server := endpoint(t)
	if _, err := open(t, server).Acquire(t.Context(), long(t)); err != nil {
		t.Fatal(err)
	}
	for left, holders := range map[int64]int{1: 1, 0: 1, -1: 0} {
		client := plainClient(t, server, func(ctx context.Context, called string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := call(ctx, called, req, reply, cc, opts...)
			if r, ok := reply.(*pb.LeaseTimeToLiveResponse); ok {
				r.TTL = left
			}
			return err
		})
		l := etcd.New(client, nil)
		defer l.Close()
		if s, err := l.Observe(t.Context(), t.Name()); err != nil || len(s.Holders) != holders {
			t.Errorf("the server says that %d s are left: %+v, %v; want %d holders", left, s, err, holders)
		}
	}
}

// TestReleaseSaysHowLong: the error of a release in vain says until when others have to wait, lock
// delay included.
func TestReleaseSaysHowLong(t *testing.T) {
	var answers atomic.Bool
	l := answering(t, endpoint(t), revokes, nil, func(context.Context, int) error {
		if answers.Load() {
			return nil
		}
		return status.Error(codes.Unavailable, "no")
	})
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: time.Minute, LockDelay: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lease.Release(over); err == nil || !strings.Contains(err.Error(), "ends by itself within 1h0m") {
		t.Errorf("Release in vain returns %v, want that the lease ends within an hour and a minute", err)
	}
	answers.Store(true)
}
