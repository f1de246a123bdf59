package etcd_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

const revokes = "/etcdserverpb.Lease/LeaseRevoke"

// TestCloseWaitsForAcquires: a lease that the server grants while the Leaser closes is given back
// before Close returns, or it would keep others out for its whole time.
func TestCloseWaitsForAcquires(t *testing.T) {
	server := endpoint(t)
	plain := plainClient(t, server)
	before, err := plain.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked, closed := make(chan struct{}), make(chan struct{})
	var late atomic.Bool
	client := plainClient(t, server, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if method == grants {
			close(asked)
			<-ctx.Done() // the Leaser closes, and the request is on its way
			select {
			case <-closed:
				late.Store(true)
			case <-time.After(time.Second):
			}
			ctx = context.WithoutCancel(ctx)
		}
		return call(ctx, method, req, reply, cc, opts...)
	})
	l := etcd.New(client, nil)
	acquired := make(chan error, 1)
	go func() {
		_, err := l.Acquire(t.Context(), long(t))
		acquired <- err
	}()
	<-asked
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	close(closed)
	if err := <-acquired; !errors.Is(err, tenure.ErrClosed) {
		t.Errorf("Acquire of a Leaser that closes: %v, want %v", err, tenure.ErrClosed)
	}
	if late.Load() {
		t.Fatal("Close returned while an Acquire was under way, which was granted a lease then")
	}
	after, err := plain.Leases(t.Context())
	if err != nil || len(after.Leases) > len(before.Leases) {
		t.Errorf("behind Close there are %d leases, %v; before there were %d", len(after.Leases), err, len(before.Leases))
	}
}

// TestCloseRevokesWhatAWaiterLost: a waiter whose lease has run out, by its clock, leaves the queue.
// The server does not answer that until the Leaser closes. The waiter never held the name, so there
// is no lock delay to be kept: the last try of Close takes its key away.
func TestCloseRevokesWhatAWaiterLost(t *testing.T) {
	server := endpoint(t)
	plain := plainClient(t, server)
	if _, err := open(t, server).Acquire(t.Context(), long(t)); err != nil {
		t.Fatal(err)
	}
	var closing atomic.Bool
	var unanswered, granted atomic.Int64
	client := plainClient(t, server, func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		switch {
		case method == grants:
			granted.Add(1)
		case method == revokes && !closing.Load():
			unanswered.Add(1)
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		case method == revokes && ctx.Err() != nil:
			return status.Error(codes.Canceled, "the caller has gone")
		}
		return call(ctx, method, req, reply, cc, opts...)
	})
	c := clock.NewSimulated(1)
	l := etcd.New(client, c)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if lease, err := l.Acquire(ctx, long(t)); err == nil {
			t.Errorf("a waiter has %v, which is held", lease.Name())
		}
	}()
	waitFor(t, "a waiter", func() bool { return queued(t, plain) == 2 })
	c.Jump(2 * time.Minute)
	waitFor(t, "the waiter to leave, and to come again", func() bool { return unanswered.Load() > 0 && granted.Load() > 1 })
	giveUp()
	<-gone
	if n := queued(t, plain); n < 2 {
		t.Fatalf("%d keys are queued: the server was to miss that the waiter left", n)
	}
	closing.Store(true)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n := queued(t, plain); n != 1 {
		t.Errorf("behind Close %d keys are queued, want the holder's alone: a waiter has no lock delay", n)
	}
}
