package etcd_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure"
)

// plainClient is etcd's own client, whose calls go through the interceptor if one is given.
func plainClient(t testing.TB, endpoint string, through ...grpc.UnaryClientInterceptor) *clientv3.Client {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(through...)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func session(t testing.TB, c *clientv3.Client) *concurrency.Session {
	s, err := concurrency.NewSession(c, concurrency.WithTTL(60))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestExcludesPlainMutexes: `etcdctl lock` is concurrency.Mutex.
func TestExcludesPlainMutexes(t *testing.T) {
	server := endpoint(t)
	l := open(t, server)
	mutex := concurrency.NewMutex(session(t, plainClient(t, server)), t.Name())
	claim := tenure.Claim{Name: t.Name(), TTL: time.Minute}

	if err := mutex.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	var held tenure.HeldError
	if _, err := l.TryAcquire(t.Context(), claim); !errors.As(err, &held) || !strings.Contains(held.Holder, "plain etcd client") {
		t.Errorf("TryAcquire under a mutex returns %v, want a HeldError that names a plain client", err)
	}
	read := claim
	read.Slots = tenure.Shared
	if _, err := l.TryAcquire(t.Context(), read); !errors.As(err, &held) {
		t.Errorf("TryAcquire of a reader under a mutex returns %v, want a HeldError", err)
	}
	if err := mutex.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, slots := range []int{1, 3, tenure.Shared} {
		c := claim
		c.Slots = slots
		lease, err := l.TryAcquire(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if err := mutex.TryLock(t.Context()); !errors.Is(err, concurrency.ErrLocked) {
			t.Errorf("TryLock beside a lease with %d slots returns %v, want %v", slots, err, concurrency.ErrLocked)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestContendsWithPlainMutexes lets both kinds, and readers of ours, wait for one
// name at once.
func TestContendsWithPlainMutexes(t *testing.T) {
	server := endpoint(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	writers, readers, turns := 0, 0, map[string]int{}
	enter := func(kind string, dw, dr int) {
		mu.Lock()
		defer mu.Unlock()
		writers, readers = writers+dw, readers+dr
		if writers > 1 || writers > 0 && readers > 0 {
			t.Errorf("%d writers and %d readers inside", writers, readers)
		}
		turns[kind]++
		if min(turns["mutex"], turns["writer"], turns["reader"]) == 20 {
			cancel()
		}
	}
	leave := func(dw, dr int) {
		mu.Lock()
		defer mu.Unlock()
		writers, readers = writers-dw, readers-dr
	}
	var all sync.WaitGroup
	for range 2 {
		c := plainClient(t, server)
		s := session(t, c)
		all.Go(func() {
			mutex := concurrency.NewMutex(s, t.Name())
			for mutex.Lock(ctx) == nil {
				enter("mutex", 1, 0)
				leave(1, 0)
				if err := mutex.Unlock(context.WithoutCancel(ctx)); err != nil {
					t.Error(err)
				}
			}
		})
		for _, slots := range []int{1, tenure.Shared} {
			l := open(t, server)
			all.Go(func() {
				claim, dw, kind := tenure.Claim{Name: t.Name(), TTL: time.Minute, Slots: slots}, 0, "reader"
				if slots == 1 {
					dw, kind = 1, "writer"
				}
				for ctx.Err() == nil {
					lease, err := l.Acquire(ctx, claim)
					if err != nil {
						break
					}
					enter(kind, dw, 1-dw)
					leave(dw, 1-dw)
					if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("a minute is over, and some kinds had no 20 turns: %v", turns)
	}
}

// TestPlainElection: an election is the same queue, with a value.
func TestPlainElection(t *testing.T) {
	server := endpoint(t)
	l := open(t, server)
	plain := concurrency.NewElection(session(t, plainClient(t, server)), t.Name())
	if err := plain.Campaign(t.Context(), "10.0.0.1:80"); err != nil {
		t.Fatal(err)
	}
	ours := tenure.Election{Leaser: l, Claim: tenure.Claim{Name: t.Name(), TTL: time.Minute}}
	leader, err := ours.Leader(t.Context())
	if err != nil || !strings.Contains(leader.Holder, "10.0.0.1:80") || leader.Token != uint64(plain.Rev()) {
		t.Errorf("leader is %+v, %v; want 10.0.0.1:80 with token %d", leader, err, plain.Rev())
	}
	won := make(chan error, 1)
	go func() {
		_, err := ours.Campaign(t.Context())
		won <- err
	}()
	if err := plain.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-won; err != nil {
		t.Fatal(err)
	}
	if got, err := plain.Leader(t.Context()); err != nil || len(got.Kvs) != 1 || !strings.Contains(string(got.Kvs[0].Value), `"holder"`) {
		t.Errorf("etcd's election sees leader %v, %v; want our record", got, err)
	}
}

func TestTokenIsCreateRevision(t *testing.T) {
	server := endpoint(t)
	l, c := open(t, server), plainClient(t, server)
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(t.Context(), t.Name()+"/", clientv3.WithPrefix())
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	if token := uint64(got.Kvs[0].CreateRevision); lease.Token() != token {
		t.Errorf("token %d, want %d", lease.Token(), token)
	}
	// A resource in the same store can check the token in its transactions.
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := c.TimeToLive(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease)); err != nil || left.TTL != -1 {
		t.Errorf("the server's lease has %v left after the release, %v; want it revoked", left, err)
	}
}

// TestKeyDeleted: somebody deletes a holder's key, or a waiter's.
func TestKeyDeleted(t *testing.T) {
	server := endpoint(t)
	l, c := open(t, server), plainClient(t, server)
	claim := tenure.Claim{Name: t.Name(), TTL: 30 * time.Second}
	lease, err := l.Acquire(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan tenure.Lease, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), claim)
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	waitFor(t, "a waiter", func() bool {
		s, err := l.Observe(t.Context(), claim.Name)
		return err == nil && s.Waiting == 1
	})
	// The waiter's goes first: it has to queue up anew, before it can win.
	all, err := c.Get(t.Context(), t.Name()+"/", clientv3.WithLastCreate()...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context(), string(all.Kvs[0].Key)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Delete(t.Context(), t.Name()+"/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-lease.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder does not notice that its key is gone")
	}
	if err := lease.Check(); !errors.Is(err, tenure.ErrLost) {
		t.Errorf("Check returns %v, want %v", err, tenure.ErrLost)
	}
	select {
	case second := <-next:
		if err := second.Check(); err != nil || second.Token() <= lease.Token() {
			t.Errorf("the next holder has token %d after %d, Check returns %v", second.Token(), lease.Token(), err)
		}
		s, err := l.Observe(t.Context(), claim.Name)
		if err != nil || len(s.Holders) != 1 || s.Holders[0].Token != second.Token() {
			t.Errorf("the next holder has token %d, and the server shows %+v, %v", second.Token(), s, err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the waiter does not queue up again")
	}
}

func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// TestForeignKeysInTheWay: keys below the name that are no queue's.
func TestForeignKeysInTheWay(t *testing.T) {
	server := endpoint(t)
	l, c := open(t, server), plainClient(t, server)
	for _, key := range []string{"/config", "/12ab", "/sub/12ab"} {
		if _, err := c.Put(t.Context(), t.Name()+key, "x"); err != nil {
			t.Fatal(err)
		}
	}
	for _, slots := range []int{1, tenure.Shared} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		lease, err := l.Acquire(ctx, tenure.Claim{Name: t.Name(), TTL: ttl, Slots: slots})
		if err != nil {
			t.Fatalf("keys that are in no queue keep out a claim for %d slots: %v", slots, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if names, err := l.List(t.Context(), t.Name()); err != nil || len(names) != 0 {
		t.Errorf("List returns %q, %v; want nothing", names, err)
	}
}

func TestList(t *testing.T) {
	server := endpoint(t)
	l := open(t, server)
	// The keys of "a-" come before those of "a".
	want := []string{t.Name() + "/a", t.Name() + "/a-", t.Name() + "/a/b", t.Name() + "/é"}
	for _, name := range want {
		if _, err := l.Acquire(t.Context(), tenure.Claim{Name: name, TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string][]string{t.Name(): want, t.Name() + "/a": want[:3], t.Name() + "/a/": want[2:3], t.Name() + "/x": nil} {
		got, err := l.List(t.Context(), prefix)
		if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("List(%q) = %q, %v; want %q", prefix, got, err, want)
		}
	}
}

func TestTTLTooShortForTheRoundTrip(t *testing.T) {
	p := newProxy(t, endpoint(t))
	l := open(t, p.addr())
	p.set(false, ttl/2)
	for _, delay := range []time.Duration{0, time.Minute} { // which leaves no more time for renewals
		ctx, cancel := context.WithTimeout(t.Context(), 10*ttl)
		_, err := l.Acquire(ctx, tenure.Claim{Name: t.Name(), TTL: ttl, LockDelay: delay})
		cancel()
		if !errors.Is(err, tenure.ErrTTLTooShort) || !strings.Contains(err.Error(), "ask for at least") {
			t.Errorf("with a lock delay of %v: got %v, want %v and what to ask for", delay, err, tenure.ErrTTLTooShort)
		}
	}
	p.set(false, 0)
	// The refused claims left nothing behind.
	lease, err := l.TryAcquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMistakesAreNotWaitedOut(t *testing.T) {
	l := open(t, endpoint(t))
	// More than etcd grants: Acquire must not try for ever.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := l.Acquire(ctx, tenure.Claim{Name: t.Name(), TTL: 9_000_000_001 * time.Second})
	if !errors.Is(err, tenure.ErrClaim) || !strings.Contains(err.Error(), "too large lease TTL") {
		t.Errorf("got %v, want %v and the server's word on the TTL", err, tenure.ErrClaim)
	}
	if ctx.Err() != nil {
		t.Error("what no waiting cures was tried on until the caller gave up")
	}
}

func TestReleaseUnconfirmed(t *testing.T) {
	p := newProxy(t, endpoint(t))
	l := open(t, p.addr())
	lease, err := l.Acquire(t.Context(), tenure.Claim{Name: t.Name(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	p.set(true, 0)
	ctx, cancel := context.WithTimeout(t.Context(), ttl/8)
	defer cancel()
	err = lease.Release(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "ends by itself within") {
		t.Errorf("got %v, want %v and when the lease ends", err, context.DeadlineExceeded)
	}
	if err := lease.Check(); !errors.Is(err, tenure.ErrReleased) {
		t.Errorf("Check returns %v, want %v", err, tenure.ErrReleased)
	}
	p.set(false, 0)
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("released again: %v", err)
	}
}

// TestTryAcquireDoesNotWait for a server that does not answer.
func TestTryAcquireDoesNotWait(t *testing.T) {
	t.Parallel()
	p := newProxy(t, endpoint(t))
	l := open(t, p.addr())
	p.set(true, 0)
	tried := make(chan error, 1)
	go func() {
		_, err := l.TryAcquire(context.Background(), tenure.Claim{Name: t.Name(), TTL: ttl})
		tried <- err
	}()
	select {
	case err := <-tried:
		if !errors.Is(err, tenure.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "within 5s") {
			t.Errorf("got %v, want %v within 5s, and no deadline of ours", err, tenure.ErrUnavailable)
		}
	case <-time.After(8 * time.Second):
		t.Fatal("TryAcquire waits")
	}
}
