package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/host/clock"
)

// around returns a Leaser for whose calls of a method before and after are called, either of which
// may be nil, with the number of the call, from 1.
func around(t *testing.T, server, method string, c clock.Clock, before, after func(n int)) *etcd.Leaser {
	var calls atomic.Int64
	client := plainClient(t, server, func(ctx context.Context, called string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if called != method {
			return call(ctx, called, req, reply, cc, opts...)
		}
		n := int(calls.Add(1))
		if before != nil {
			before(n)
		}
		err := call(ctx, called, req, reply, cc, opts...)
		if after != nil {
			after(n)
		}
		return err
	})
	l := etcd.New(client, c)
	t.Cleanup(func() { l.Close() })
	return l
}

const (
	grants       = "/etcdserverpb.Lease/LeaseGrant"
	transactions = "/etcdserverpb.KV/Txn"
)

// TestTryCostsNoLease: a try for a name that is held asks the server for nothing but a look.
func TestTryCostsNoLease(t *testing.T) {
	server := endpoint(t)
	claim := tenure.Claim{Name: t.Name(), TTL: time.Minute}
	if _, err := open(t, server).Acquire(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	granted := 0
	l := around(t, server, grants, nil, func(n int) { granted = n }, nil)
	if _, err := l.TryAcquire(t.Context(), claim); !errors.As(err, new(tenure.HeldError)) {
		t.Errorf("TryAcquire of what is held returns %v", err)
	}
	if granted > 0 {
		t.Errorf("the try took %d leases of the server's, want none", granted)
	}
}

// TestBeatenTry: somebody comes between the look and the claim of a try, which leaves nothing in
// the queue.
func TestBeatenTry(t *testing.T) {
	server := endpoint(t)
	other := open(t, server)
	claim := tenure.Claim{Name: t.Name(), TTL: time.Minute}
	l := around(t, server, grants, nil, func(n int) {
		if n > 1 {
			return
		}
		if _, err := other.Acquire(t.Context(), claim); err != nil {
			t.Error(err)
		}
	}, nil)
	if _, err := l.TryAcquire(t.Context(), claim); !errors.As(err, new(tenure.HeldError)) {
		t.Errorf("TryAcquire of what somebody else took first returns %v", err)
	}
	waitFor(t, "the place in the queue of a try that was beaten to go", func() bool {
		s, err := other.Observe(t.Context(), claim.Name)
		return err == nil && s.Waiting == 0
	})
}

// TestAdmittedTooLate: the answer that admits a claim shows the past. A claim whose lease has run out
// since is no holder. It leaves the queue, and its caller gets a lease by another attempt.
func TestAdmittedTooLate(t *testing.T) {
	for name, try := range map[string]bool{"Acquire": false, "TryAcquire": true} {
		t.Run(name, func(t *testing.T) {
			c := clock.NewSimulated(1)
			l := around(t, endpoint(t), transactions, c, nil, func(n int) {
				if n == 1 {
					c.Jump(2 * ttl) // the machine was suspended
				}
			})
			acquire := l.Acquire
			if try {
				acquire = l.TryAcquire
			}
			lease, err := acquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: ttl})
			if err != nil {
				t.Fatalf("the lost claim is in the way: %v", err)
			}
			if err := lease.Check(); errors.Is(err, tenure.ErrLost) {
				t.Errorf("it returns a lease that was lost before: %v", err)
			}
		})
	}
}

// TestLeavesBeforeTheWatch: the one ahead leaves when the waiter has looked, and before its watch
// is there.
func TestLeavesBeforeTheWatch(t *testing.T) {
	server := endpoint(t)
	claim := tenure.Claim{Name: t.Name(), TTL: time.Minute}
	held, err := open(t, server).Acquire(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	l := around(t, server, transactions, nil, nil, func(n int) {
		if n != 2 { // the first joins the queue
			return
		}
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := l.Acquire(ctx, claim); err != nil {
		t.Errorf("the name is free, and its waiter does not see it: %v", err)
	}
}

// TestAnybodyMakesRoom: when any holder leaves, the first waiting claim that shares is admitted.
func TestAnybodyMakesRoom(t *testing.T) {
	l := open(t, endpoint(t))
	claim := tenure.Claim{Name: t.Name(), TTL: time.Minute, Slots: 2}
	var held []tenure.Lease
	for range 2 {
		lease, err := l.Acquire(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, lease)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	third := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx, claim)
		third <- err
	}()
	waitFor(t, "a waiter", func() bool {
		s, err := l.Observe(t.Context(), claim.Name)
		return err == nil && s.Waiting == 1
	})
	if err := held[0].Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-third; err != nil {
		t.Errorf("the first of two holders has left, and nobody is let in: %v", err)
	}
}

// TestWaiterLosesItsLease: a waiter whose lease ends takes a new place in the queue at once, and
// not only when it would have been its turn.
func TestWaiterLosesItsLease(t *testing.T) {
	server := endpoint(t)
	l, c := open(t, server), plainClient(t, server)
	claim := tenure.Claim{Name: t.Name(), TTL: time.Minute}
	if _, err := l.Acquire(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiter sync.WaitGroup
	waiter.Go(func() {
		if _, err := l.Acquire(ctx, claim); !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter: %v", err)
		}
	})
	defer waiter.Wait()
	defer cancel()
	waiting := func() (last *clientv3.GetResponse) {
		waitFor(t, "a waiter", func() bool {
			all, err := c.Get(t.Context(), t.Name()+"/", clientv3.WithLastCreate()...)
			last = all
			return err == nil && all.Count == 2 // of the same revision as the key
		})
		return last
	}
	first := waiting().Kvs[0]
	if _, err := c.Revoke(t.Context(), clientv3.LeaseID(first.Lease)); err != nil {
		t.Fatal(err)
	}
	if second := waiting().Kvs[0]; second.CreateRevision <= first.CreateRevision {
		t.Errorf("the waiter's key has revision %d after %d", second.CreateRevision, first.CreateRevision)
	}
}

// queued is how many keys stand below the test's name.
func queued(t *testing.T, c *clientv3.Client) int64 {
	got, err := c.Get(t.Context(), t.Name()+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	return got.Count
}

// TestWholeSeconds: servers count in whole seconds. A TTL with a fraction is refused, with those that can be
// had, and a lock delay is rounded up.
func TestWholeSeconds(t *testing.T) {
	server := endpoint(t)
	l, c := open(t, server), plainClient(t, server)
	for asked, says := range map[time.Duration]string{5*time.Second + 1: "ask for 5s or 6s", time.Millisecond: "ask for 1s"} {
		_, err := l.TryAcquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: asked})
		if !errors.Is(err, tenure.ErrClaim) || !strings.Contains(err.Error(), says) {
			t.Errorf("a TTL of %v: %v; want %v that says %q", asked, err, tenure.ErrClaim, says)
		}
	}
	if _, err := l.Acquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: 5 * time.Second, LockDelay: 1}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(t.Context(), t.Name()+"/", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	left, err := c.TimeToLive(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease))
	if err != nil || left.GrantedTTL != 6 {
		t.Errorf("%v, %v: granted for a TTL of five seconds and a short lock delay, want six", left, err)
	}
}

// TestListInPages: names are listed beyond the first thousand keys.
func TestListInPages(t *testing.T) {
	server := endpoint(t)
	l, c := open(t, server), plainClient(t, server)
	for from := 0; from <= 1000; from += 100 {
		var puts []clientv3.Op
		for i := range 100 {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("%s/key %04d", t.Name(), from+i), ""))
		}
		if _, err := c.Txn(t.Context()).Then(puts...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for _, name := range []string{"a", "z"} {
		want = append(want, t.Name()+"/"+name)
		if _, err := l.Acquire(t.Context(), tenure.Claim{Name: t.Name() + "/" + name, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := l.List(t.Context(), t.Name()); err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("List returns %q, %v; want %q", got, err, want)
	}
}

// creating counts the watches that a client asks for.
type creating struct {
	grpc.ClientStream
	watches *atomic.Int64
}

func (c creating) SendMsg(m any) error {
	if r, ok := m.(*pb.WatchRequest); ok && r.GetCreateRequest() != nil {
		c.watches.Add(1)
	}
	return c.ClientStream.SendMsg(m)
}

// TestAwaitGoesOn: the watch of an Await ends, because it would go on where the history was
// compacted. Another watch is made, and shows the change.
func TestAwaitGoesOn(t *testing.T) {
	server := endpoint(t)
	p, plain := newProxy(t, server), plainClient(t, server)
	var watches atomic.Int64
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{p.addr()}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(
			func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, begin grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				s, err := begin(ctx, desc, cc, method, opts...)
				return creating{s, &watches}, err
			})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	l := etcd.New(client, nil)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	type seen struct {
		tenure.State
		err error
	}
	told := make(chan seen, 1)
	go func() {
		s, err := l.Await(ctx, tenure.State{Name: t.Name()})
		told <- seen{s, err}
	}()
	waitFor(t, "a watch", func() bool { return watches.Load() == 1 })
	for range 3 {
		put, err := plain.Put(t.Context(), "something/else", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := plain.Compact(t.Context(), put.Header.Revision); err != nil {
			t.Fatal(err)
		}
	}
	p.sever()
	waitFor(t, "another watch in the place of the one that was refused", func() bool { return watches.Load() >= 3 })
	lease, err := open(t, server).Acquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if s := <-told; s.err != nil || len(s.Holders) != 1 || s.Holders[0].Token != lease.Token() {
		t.Errorf("told %+v, want the holder with token %d", s, lease.Token())
	}
}

// TestAnothersKey: while a holder is cut off its key is deleted, and a key of the same name is made,
// which is not the holder's.
func TestAnothersKey(t *testing.T) {
	server := endpoint(t)
	p, plain := newProxy(t, server), plainClient(t, server)
	lease, err := open(t, p.addr()).Acquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	p.silence()
	got, err := plain.Get(t.Context(), t.Name()+"/", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	key := string(got.Kvs[0].Key)
	if _, err := plain.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	put, err := plain.Put(t.Context(), key, "mine")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Compact(t.Context(), put.Header.Revision); err != nil {
		t.Fatal(err)
	}
	p.lose()
	select {
	case <-lease.Done():
	case <-time.After(15 * time.Second):
		t.Error("the holder takes another's key for its own")
	}
}
