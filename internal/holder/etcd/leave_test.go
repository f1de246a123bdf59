package etcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// long is a claim whose key stands in the way for two minutes unless it is revoked.
func long(t *testing.T) tenure.Claim {
	return tenure.Claim{Name: t.Name(), TTL: time.Minute, LockDelay: time.Minute}
}

// lose drops the bytes on their way, in both directions, and lets new traffic pass.
func (p *proxy) lose() {
	p.sever()
	p.set(false, 0)
}

func (p *proxy) silence() { p.set(true, 0) }

// TestGivingUpWithoutAnAnswer: a waiter gives up while the server is silent. When it
// answers again, the waiter's key goes.
func TestGivingUpWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := endpoint(t)
	p := newProxy(t, server)
	waiter, other := open(t, p.addr()), open(t, server)
	held, err := other.Acquire(t.Context(), long(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := waiter.Acquire(ctx, long(t))
		gaveUp <- err
	}()
	waitFor(t, "a waiter", func() bool {
		s, err := other.Observe(t.Context(), t.Name())
		return err == nil && s.Waiting == 1
	})
	p.silence()
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire returns %v, want %v", err, context.Canceled)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.TryAcquire(t.Context(), long(t)); !errors.As(err, new(tenure.HeldError)) {
		t.Fatalf("TryAcquire behind a claim that gave up returns %v: the server was to miss it", err)
	}
	p.lose()
	free(t, other)
}

// TestReleaseIsTriedOn: the same for a holder.
func TestReleaseIsTriedOn(t *testing.T) {
	t.Parallel()
	server := endpoint(t)
	p := newProxy(t, server)
	holder, other := open(t, p.addr()), open(t, server)
	held, err := holder.Acquire(t.Context(), long(t))
	if err != nil {
		t.Fatal(err)
	}
	p.silence()
	ctx, cancel := context.WithTimeout(t.Context(), ttl/8)
	defer cancel()
	if err := held.Release(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Release returns %v, want %v", err, context.DeadlineExceeded)
	}
	if _, err := other.TryAcquire(t.Context(), long(t)); !errors.As(err, new(tenure.HeldError)) {
		t.Fatalf("TryAcquire after a release that the server missed returns %v", err)
	}
	p.lose()
	free(t, other)
}

// free waits until the test's name can be had.
func free(t *testing.T, l *etcd.Leaser) {
	t.Helper()
	var err error
	waitFor(t, "the name", func() bool {
		var lease tenure.Lease
		if lease, err = l.TryAcquire(t.Context(), long(t)); err == nil {
			err = lease.Release(t.Context())
		} else if !errors.As(err, new(tenure.HeldError)) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// TestCloseEndsRevokes: revokes in the background end with the Leaser, after a last try, even if
// the server is silent. TestMain sees that no goroutine is left.
func TestCloseEndsRevokes(t *testing.T) {
	t.Parallel()
	server := endpoint(t)
	for _, answers := range []bool{false, true} {
		p := newProxy(t, server)
		holder, other := open(t, p.addr()), open(t, server)
		held, err := holder.Acquire(t.Context(), long(t))
		if err != nil {
			t.Fatal(err)
		}
		p.silence()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := held.Release(over); !errors.Is(err, context.Canceled) {
			t.Errorf("Release returns %v, want %v", err, context.Canceled)
		}
		if answers {
			p.lose()
		}
		began := time.Now()
		holder.Close()
		if d := time.Since(began); d > 7*time.Second {
			t.Errorf("Close took %v, want 5s at most", d)
		}
		s, err := other.Observe(t.Context(), t.Name())
		if err != nil {
			t.Fatal(err)
		}
		if gone := len(s.Holders) == 0; gone != answers {
			t.Errorf("after Close, with a server that answers: %v, the name is free: %v", answers, gone)
		}
		p.lose()
		if !answers { // the next round must find the name free
			c := plainClient(t, server)
			if _, err := c.Delete(t.Context(), t.Name()+"/", clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRevokesEndWithTheLease: nothing is tried for longer than the lease can last.
func TestRevokesEndWithTheLease(t *testing.T) {
	t.Parallel()
	tries := make(chan time.Time, 10_000)
	client := plainClient(t, endpoint(t), func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if method != "/etcdserverpb.Lease/LeaseRevoke" {
			return call(ctx, method, req, reply, cc, opts...)
		}
		tries <- time.Now()
		return status.Error(codes.Unavailable, "not now")
	})
	l := etcd.New(client, nil)
	defer l.Close()
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lease.Release(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Release returns %v, want %v", err, context.Canceled)
	}
	released := time.Now()
	var last time.Time
	for quiet := false; !quiet; {
		select {
		case last = <-tries:
		case <-time.After(2 * time.Second): // tries are 150 ms apart at most
			quiet = true
		}
	}
	if d := last.Sub(released); d < ttl/2 || d > ttl+time.Second {
		t.Errorf("the last try came %v after the release, want about %v", d, ttl)
	}
	if n := l.Registered(); n != 0 {
		t.Errorf("%d leases are remembered when nothing is tried any more: Close would try again, and memory grow", n)
	}
}
