package etcd

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure"
)

// admit has the next try for a name admitted with token 9.
func (c *scripted) admit(t *testing.T, l *Leaser) *lease {
	t.Helper()
	c.commits = []func() *clientv3.TxnResponse{func() *clientv3.TxnResponse { return joined(9) }}
	x, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "n", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return x.(*lease)
}

// registered is how many leases a Leaser remembers.
func (l *Leaser) registered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.leases)
}

// TestReleasesAreConfirmed: a lease is given back when the server says that it has none, whether it
// had, and is forgotten then. A revoke that it does not confirm goes on until then, but no longer
// than the lease could live.
func TestReleasesAreConfirmed(t *testing.T) {
	away := status.Error(codes.Unavailable, "no")
	for name, tt := range map[string]struct {
		revoke func(since time.Duration) error
		err    error // of a Release that does not wait
		gone   time.Duration
	}{
		"at once":     {func(time.Duration) error { return nil }, nil, 0},
		"it had none": {func(time.Duration) error { return rpctypes.ErrLeaseNotFound }, nil, 0},
		"it is away":  {func(time.Duration) error { return away }, away, time.Minute},
		"it is away a time": {func(since time.Duration) error {
			if since < 20*time.Second {
				return away
			}
			return nil
		}, away, 20 * time.Second},
	} {
		c := &scripted{grant: func() error { return nil }}
		scriptedTest(t, c, func(t *testing.T, l *Leaser) {
			began := time.Now()
			c.revoke = func() error { return tt.revoke(time.Since(began)) }
			x := c.admit(t, l)
			if n := l.registered(); n != 1 {
				t.Errorf("%s: %d leases are remembered while one is held", name, n)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := x.Release(ctx)
			if (err == nil) != (tt.err == nil) || tt.err != nil && (status.Code(err) != codes.Unavailable || !errors.Is(err, context.Canceled)) {
				t.Errorf("%s: Release returns %v, want %v", name, err, tt.err)
			}
			if tt.gone > 0 {
				time.Sleep(tt.gone - time.Second)
				synctest.Wait()
				if n := l.registered(); n != 1 {
					t.Errorf("%s: %d leases are remembered a second before the server has it no more, want 1", name, n)
				}
				time.Sleep(2 * time.Second)
			}
			synctest.Wait()
			if n := l.registered(); n != 0 {
				t.Errorf("%s: %d leases are remembered that the server has no more", name, n)
			}
			if tt.err == nil {
				if err := x.Release(t.Context()); err != nil || len(c.revocations()) != 1 {
					t.Errorf("%s: a second Release returns %v, and the server was asked %d times, want once", name, err, len(c.revocations()))
				}
			}
		})
	}
}

// TestOneRevokeIsTriedOn: however often a lease is released without an answer, one goroutine tries on
// in the background.
func TestOneRevokeIsTriedOn(t *testing.T) {
	c := &scripted{grant: func() error { return nil }}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		var underWay atomic.Int32
		c.revoke = func() error {
			underWay.Add(1)
			defer underWay.Add(-1)
			time.Sleep(time.Second)
			return status.Error(codes.Unavailable, "no")
		}
		x := c.admit(t, l)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for range 3 {
			if err := x.Release(over); !errors.Is(err, context.Canceled) {
				t.Errorf("Release returns %v, want %v", err, context.Canceled)
			}
		}
		time.Sleep(5 * time.Second) // they are tried on
		most := int32(0)
		for range 50 {
			time.Sleep(100 * time.Millisecond)
			most = max(most, underWay.Load())
		}
		if most != 1 {
			t.Errorf("at most %d revokes of one lease are under way at a time, want one", most)
		}
	})
}

// TestCloseTriesOnceMore: Close repeats each release that is not confirmed. Later, nobody goes on.
func TestCloseTriesOnceMore(t *testing.T) {
	c := &scripted{grant: func() error { return nil }}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		c.revoke = func() error {
			if l.calls.Err() != nil {
				return nil
			}
			return status.Error(codes.Unavailable, "no")
		}
		x := c.admit(t, l)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := x.Release(over); err == nil {
			t.Error("a Release that is not confirmed returns no error")
		}
		synctest.Wait() // it is tried on in the background, at the moment with a pause
		if err := l.Close(); err != nil || !x.confirmed.Load() {
			t.Errorf("Close returns %v, and the release is confirmed: %v", err, x.confirmed.Load())
		}
	})
	c = &scripted{grant: func() error { return nil }, revoke: func() error { return status.Error(codes.Unavailable, "no") }}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		x := c.admit(t, l)
		began := time.Now()
		if err := l.Close(); err != nil || time.Since(began) != callTimeout {
			t.Errorf("Close of a server that is away: %v after %v, want to have tried for %v", err, time.Since(began), callTimeout)
		}
		asked := len(c.revocations())
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := x.Release(over); status.Code(err) != codes.Unavailable {
			t.Errorf("Release after Close: %v, want that it was not confirmed", err)
		}
		time.Sleep(time.Minute)
		if n := len(c.revocations()); n != asked+1 {
			t.Errorf("after Close, and one Release, the server is asked %d times more, want once", n-asked)
		}
	})
}

// TestGone: a watch that ends says nothing about the key. It is gone if it is not there, or if it
// was made anew.
func TestGone(t *testing.T) {
	ours, anew := queueOf(9)[0], queueOf(9)[0]
	anew.CreateRevision = 10
	ended := func(responses ...clientv3.WatchResponse) func(clientv3.WatchChan) clientv3.WatchChan {
		return func(clientv3.WatchChan) clientv3.WatchChan {
			watch := make(chan clientv3.WatchResponse, len(responses))
			for _, r := range responses {
				watch <- r
			}
			close(watch)
			return watch
		}
	}
	deleted := clientv3.WatchResponse{Events: []*clientv3.Event{{Type: clientv3.EventTypeDelete}}}
	for name, tt := range map[string]struct {
		cluster *scripted
		gone    bool
		seen    int64
	}{
		"it was deleted":        {&scripted{queue: []*mvccpb.KeyValue{ours}, watch: ended(clientv3.WatchResponse{}, deleted)}, true, 0},
		"it is there":           {&scripted{queue: []*mvccpb.KeyValue{ours}, watch: ended(clientv3.WatchResponse{Canceled: true})}, false, 9},
		"it is there, in quiet": {&scripted{queue: []*mvccpb.KeyValue{ours}, watch: ended()}, false, 9},
		"it is not there":       {&scripted{watch: ended()}, true, 9},
		"it was made anew":      {&scripted{queue: []*mvccpb.KeyValue{anew}, watch: ended()}, true, 9},
		"nobody knows":          {&scripted{get: failWith(codes.Unavailable), watch: ended()}, false, 0},
	} {
		scriptedTest(t, tt.cluster, func(t *testing.T, l *Leaser) {
			x := &lease{leaser: l, key: string(ours.Key), rev: 9}
			if gone, seen, _ := x.gone(t.Context(), 10); gone != tt.gone || seen != tt.seen {
				t.Errorf("%s: gone %v, seen at revision %d; want %v and %d", name, gone, seen, tt.gone, tt.seen)
			}
		})
	}
}

// TestChange: a waiter looks again when somebody ahead has left, when somebody has before the watch
// was there, and when the watch ends. Until then it waits.
func TestChange(t *testing.T) {
	ahead := queueOf(5, 6)
	left := clientv3.WatchResponse{Events: []*clientv3.Event{{Type: clientv3.EventTypeDelete}}}
	created, canceled := clientv3.WatchResponse{Created: true}, clientv3.WatchResponse{Canceled: true}
	for name, tt := range map[string]struct {
		says   []clientv3.WatchResponse
		again  []*mvccpb.KeyValue
		fails  error
		ends   bool
		waits  bool
		pauses bool
	}{
		"nothing":                     {waits: true},
		"it is there":                 {says: []clientv3.WatchResponse{created}, again: ahead, waits: true},
		"it is there, and one leaves": {says: []clientv3.WatchResponse{created, {}, left}, again: ahead},
		"one has left meanwhile":      {says: []clientv3.WatchResponse{created}, again: ahead[1:]},
		"the last has left meanwhile": {says: []clientv3.WatchResponse{created}, again: ahead[:1]},
		"all have left meanwhile":     {says: []clientv3.WatchResponse{created}},
		"our place is gone":           {says: []clientv3.WatchResponse{created}, fails: errGone},
		"a watch that ends":           {ends: true, pauses: true},
		"no leader":                   {says: []clientv3.WatchResponse{canceled}, pauses: true},
		"no leader any more":          {says: []clientv3.WatchResponse{created, canceled}, again: ahead, pauses: true},
	} {
		c := &scripted{}
		scriptedTest(t, c, func(t *testing.T, l *Leaser) {
			c.commits = []func() *clientv3.TxnResponse{func() *clientv3.TxnResponse {
				if tt.fails != nil {
					return &clientv3.TxnResponse{}
				}
				return looked(tt.again...)
			}}
			c.watch = func(ends clientv3.WatchChan) clientv3.WatchChan {
				watch := make(chan clientv3.WatchResponse, len(tt.says))
				for _, r := range tt.says {
					watch <- r
				}
				if tt.ends {
					close(watch)
				} else {
					go func() { <-ends; close(watch) }()
				}
				return watch
			}
			const patience = time.Hour
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			x := &lease{leaser: l, claim: tenure.Claim{Name: "n", Slots: tenure.Shared}, key: queueKey("n", 9), rev: 9}
			began := time.Now()
			err := x.change(ctx, ahead)
			took := time.Since(began)
			if !errors.Is(err, tt.fails) || (took == patience) != tt.waits || !tt.waits && (took > 0) != tt.pauses {
				t.Errorf("%s: it looks again after %v, %v; want that it waits %v, pauses %v, and fails with %v", name, took, err, tt.waits, tt.pauses, tt.fails)
			}
		})
	}
}

// TestJoin: keys that were in the queue when the claim joined it are ahead, and the claim's own key
// is not. A key that is there although its lease is new is somebody else's: the claim has no place.
func TestJoin(t *testing.T) {
	own := queueOf(7)[0]
	own.CreateRevision = 9
	for name, tt := range map[string]struct {
		answer *clientv3.TxnResponse
		ahead  int
		err    error
	}{
		"nobody is there":      {answer: joined(9)},
		"only its own key":     {answer: joined(9, own)},
		"two, and its own":     {answer: joined(9, append(queueOf(5, 8), own)...), ahead: 2},
		"its key is another's": {answer: func() *clientv3.TxnResponse { r := joined(9); r.Succeeded = false; return r }(), err: errGone},
	} {
		c := &scripted{grant: func() error { return nil }, commits: []func() *clientv3.TxnResponse{func() *clientv3.TxnResponse { return tt.answer }}}
		scriptedTest(t, c, func(t *testing.T, l *Leaser) {
			x, ahead, err := l.join(t.Context(), tenure.Claim{Name: "n", Holder: "h", TTL: time.Minute, Slots: 3})
			if !errors.Is(err, tt.err) || (x == nil) != (err != nil) || len(ahead) != tt.ahead {
				t.Errorf("%s: %d are ahead, %v; want %d, %v", name, len(ahead), err, tt.ahead, tt.err)
			}
			want := 0
			if tt.err != nil {
				want = 1
			}
			if got := c.revocations(); len(got) != want {
				t.Errorf("%s: the leases %v are revoked, want %d", name, got, want)
			}
			if x != nil {
				x.abandon()
			}
		})
	}
}

// TestGrantsThatFail: a lease that the server does not grant is no place in the queue. A TTL that
// is too long for it is the claim's mistake.
func TestGrantsThatFail(t *testing.T) {
	for _, tt := range []struct {
		fails error
		claim bool
	}{{rpctypes.ErrLeaseTTLTooLarge, true}, {status.Error(codes.PermissionDenied, "no"), false}} {
		c := &scripted{grant: func() error { return tt.fails }}
		scriptedTest(t, c, func(t *testing.T, l *Leaser) {
			x, _, err := l.join(t.Context(), tenure.Claim{Name: "n", Holder: "h", TTL: time.Minute, Slots: 1, LockDelay: time.Second})
			if x != nil || !errors.Is(err, tt.fails) || errors.Is(err, tenure.ErrClaim) != tt.claim || !strings.Contains(err.Error(), "grant a lease of 1m1s") {
				t.Errorf("the server answers with %v: got %v, want that, and %v: %v", tt.fails, err, tenure.ErrClaim, tt.claim)
			}
		})
	}
}

// TestCloseRevokesForAWaiter: a waiter, with a lock delay, leaves the queue because its Leaser
// closes, and the server does not answer that. It never held the name: Close goes on until the
// server has revoked its lease, and takes no longer than that.
func TestCloseRevokesForAWaiter(t *testing.T) {
	away := status.Error(codes.Unavailable, "no")
	for name, tt := range map[string]struct {
		silent  time.Duration // the server is away
		revoked bool
		took    time.Duration // about the time that Close takes
	}{
		"it answers":           {0, true, 0},
		"it is away a time":    {2 * time.Second, true, 2 * time.Second},
		"it is away till then": {time.Hour, false, time.Second + callTimeout}, // the waiter's own try, and the last of Close
	} {
		c := &scripted{grant: func() error { return nil }}
		scriptedTest(t, c, func(t *testing.T, l *Leaser) {
			ahead := queueOf(5)
			c.commits = []func() *clientv3.TxnResponse{
				func() *clientv3.TxnResponse { return joined(9, ahead...) }, func() *clientv3.TxnResponse { return looked(ahead...) },
			}
			ended := make(chan error, 1)
			go func() {
				_, err := l.Acquire(t.Context(), tenure.Claim{Name: "n", TTL: 30 * time.Second, LockDelay: 30 * time.Second})
				ended <- err
			}()
			synctest.Wait() // it waits
			began, revoked := time.Now(), false
			c.revoke = func() error {
				if time.Since(began) < tt.silent {
					return away
				}
				revoked = true
				return nil
			}
			if n := l.registered(); n != 0 {
				t.Errorf("%s: %d leases are remembered while one waits, want none", name, n)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			took := time.Since(began)
			if err := <-ended; !errors.Is(err, tenure.ErrClosed) {
				t.Errorf("%s: Acquire of a Leaser that closes returns %v, want %v", name, err, tenure.ErrClosed)
			}
			if revoked != tt.revoked || took < tt.took || took > tt.took+200*time.Millisecond {
				t.Errorf("%s: Close has taken %v, and the waiter's lease is revoked: %v; want %v and %v", name, took, revoked, tt.took, tt.revoked)
			}
			asked := len(c.revocations())
			time.Sleep(time.Minute)
			if n := len(c.revocations()); n != asked {
				t.Errorf("%s: after Close the server is asked %d times more, want never", name, n-asked)
			}
		})
	}
}
