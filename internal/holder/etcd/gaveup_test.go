package etcd

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// scripted is a cluster that answers as a test says. Where the test says nothing, nobody holds anything.
type scripted struct {
	longer int64 // seconds that are granted beyond what is asked for
	clientv3.KV
	clientv3.Lease
	clientv3.Watcher
	queue  []*mvccpb.KeyValue
	get    func(context.Context) error
	left   func(clientv3.LeaseID) (int64, error)
	grants int
	grant  func() error

	commits []func() *clientv3.TxnResponse
	revoke  func() error
	watch   func(clientv3.WatchChan) clientv3.WatchChan // makes something of a watch that says nothing

	mu      sync.Mutex
	revoked []clientv3.LeaseID // guarded by mu
	asked   []any              // guarded by mu: the requests but revocations, in order
}

// asks notes a request.
func (c *scripted) asks(request any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, request)
}

// requests are those that were not returned before.
func (c *scripted) requests() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

func (c *scripted) Close() error { return nil }

func (c *scripted) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	c.asks(clientv3.OpGet(key, opts...))
	if c.get != nil {
		if err := c.get(ctx); err != nil {
			return nil, err
		}
	}
	return &clientv3.GetResponse{Header: &pb.ResponseHeader{Revision: 9}, Kvs: c.queue, Count: int64(len(c.queue))}, ctx.Err()
}

func (c *scripted) TimeToLive(_ context.Context, id clientv3.LeaseID, _ ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	if c.left == nil {
		return &clientv3.LeaseTimeToLiveResponse{ID: id, TTL: 60}, nil
	}
	ttl, err := c.left(id)
	return &clientv3.LeaseTimeToLiveResponse{ID: id, TTL: ttl}, err
}

func (c *scripted) Grant(_ context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	c.asks(askedGrant(ttl))
	c.grants++
	return &clientv3.LeaseGrantResponse{ID: 7, TTL: ttl + c.longer}, c.grant()
}

func (c *scripted) Revoke(_ context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	c.mu.Lock()
	c.revoked = append(c.revoked, id)
	c.mu.Unlock()
	if c.revoke != nil {
		return nil, c.revoke()
	}
	return &clientv3.LeaseRevokeResponse{}, nil
}

// revocations are the leases that were revoked, in order.
func (c *scripted) revocations() []clientv3.LeaseID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.revoked)
}

func (c *scripted) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	md, _ := metadata.FromOutgoingContext(ctx)
	c.asks(askedWatch{clientv3.OpGet(key, opts...), len(md[rpctypes.MetadataRequireLeaderKey]) > 0})
	watch := make(chan clientv3.WatchResponse)
	context.AfterFunc(ctx, func() { close(watch) })
	if c.watch != nil {
		return c.watch(watch)
	}
	return watch
}

func (c *scripted) Txn(context.Context) clientv3.Txn { return scriptedTxn{c: c} }

type scriptedTxn struct {
	clientv3.Txn
	c     *scripted
	asked askedTxn
}

// The requests that a scripted cluster notes, beside a clientv3.Op for a Get.
type (
	askedGrant int64 // seconds
	askedTxn   struct {
		conditions []clientv3.Cmp
		then       []clientv3.Op
	}
	askedWatch struct {
		of           clientv3.Op
		needsALeader bool
	}
)

func (t scriptedTxn) If(conditions ...clientv3.Cmp) clientv3.Txn {
	t.asked.conditions = conditions
	return t
}

func (t scriptedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.asked.then = ops
	return t
}

func (t scriptedTxn) Commit() (*clientv3.TxnResponse, error) {
	t.c.asks(t.asked)
	if len(t.c.commits) == 0 {
		return nil, status.Error(codes.Internal, "one transaction too many")
	}
	next := t.c.commits[0]
	t.c.commits = t.c.commits[1:]
	return next(), nil
}

// joined is the answer to a claim that joins a queue at a revision, and looked to a claim that
// looks at the keys ahead.
func joined(revision int64, ahead ...*mvccpb.KeyValue) *clientv3.TxnResponse {
	r := looked(ahead...)
	r.Header, r.Responses = &pb.ResponseHeader{Revision: revision}, append([]*pb.ResponseOp{{}}, r.Responses...)
	return r
}

func looked(ahead ...*mvccpb.KeyValue) *clientv3.TxnResponse {
	return &clientv3.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: ahead}}}}}
}

// scriptedTest runs f in a bubble with a Leaser of a cluster.
func scriptedTest(t *testing.T, c *scripted, f func(t *testing.T, l *Leaser)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		client := clientv3.NewCtxClient(t.Context())
		client.KV, client.Lease, client.Watcher = c, c, c
		l := New(client, &clock.Fake{})
		defer l.Close()
		f(t, l)
	})
}

// queueOf is a queue of exclusive claims with these leases.
func queueOf(ids ...int64) (queue []*mvccpb.KeyValue) {
	for _, id := range ids {
		queue = append(queue, &mvccpb.KeyValue{Key: []byte(queueKey("n", id)), Lease: id, CreateRevision: id, Value: []byte(`{"tenure":1,"holder":"h","slots":1}`)})
	}
	return queue
}

// silent waits until nobody waits for the answer any more.
func silent(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// failWith has a call fail.
func failWith(code codes.Code) func(context.Context) error {
	return func(context.Context) error { return status.Error(code, "no") }
}

// TestGaveUp: a caller that gives up gets the cause, and the holder of the name, or ErrUnavailable,
// or else the last error. The look at the holder takes a second at most.
func TestGaveUp(t *testing.T) {
	last, cause := errors.New("what went wrong last"), errors.New("what ended the wait")
	held := tenure.HeldError{}
	for name, tt := range map[string]struct {
		cluster *scripted
		last    error
		want    []error
		not     []error
		holder  bool
		took    time.Duration
	}{
		"held":                  {cluster: &scripted{queue: queueOf(5, 6)}, last: last, want: []error{cause}, not: []error{last, tenure.ErrUnavailable}, holder: true},
		"silent":                {cluster: &scripted{get: silent}, last: last, want: []error{cause, tenure.ErrUnavailable}, not: []error{last, context.DeadlineExceeded}, took: time.Second},
		"away":                  {cluster: &scripted{get: failWith(codes.Unavailable)}, last: last, want: []error{cause, tenure.ErrUnavailable}, not: []error{last}},
		"refuses":               {cluster: &scripted{get: failWith(codes.PermissionDenied)}, last: last, want: []error{cause, last}, not: []error{tenure.ErrUnavailable}},
		"free":                  {cluster: &scripted{}, last: last, want: []error{cause, last}, not: []error{tenure.ErrUnavailable}},
		"free, and so ended it": {cluster: &scripted{}, last: errors.Join(context.Canceled, last), want: []error{context.Canceled, last}, not: []error{cause, tenure.ErrUnavailable}},
	} {
		scriptedTest(t, tt.cluster, func(t *testing.T, l *Leaser) {
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			began := time.Now()
			err := l.gaveUp(ctx, "n", tt.last)
			if took := time.Since(began); took != tt.took {
				t.Errorf("%s: the look took %v, want %v", name, took, tt.took)
			}
			for _, want := range tt.want {
				if !errors.Is(err, want) {
					t.Errorf("%s: got %v, want it to be %v", name, err, want)
				}
			}
			for _, not := range tt.not {
				if errors.Is(err, not) {
					t.Errorf("%s: got %v, want it not to be %v", name, err, not)
				}
			}
			if got := errors.As(err, &held); got != tt.holder || got && (held.Holder != "h" || held.Name != "n" || time.Until(held.Until) != time.Minute-tt.took) {
				t.Errorf("%s: got %v, want that it tells the holder: %v", name, err, tt.holder)
			}
			if !tt.holder && !strings.Contains(err.Error(), `acquire "n": `) {
				t.Errorf("%s: got %v, want the name in it", name, err)
			}
		})
	}
}

// TestATryThatEnds: a try whose caller gives up returns the caller's cause. A try whose server is
// silent for five seconds returns ErrUnavailable, for no deadline of the caller's has passed then.
func TestATryThatEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		limit time.Duration // of the caller; 0 for none
		want  error
		not   []error
		took  time.Duration
	}{
		"its caller's deadline": {2 * time.Second, context.DeadlineExceeded, []error{tenure.ErrClosed}, 2 * time.Second},
		"a silent server":       {0, tenure.ErrUnavailable, []error{tenure.ErrClosed, context.DeadlineExceeded, context.Canceled}, callTimeout},
		"a later deadline":      {time.Hour, tenure.ErrUnavailable, []error{tenure.ErrClosed, context.DeadlineExceeded}, callTimeout},
	} {
		scriptedTest(t, &scripted{get: silent}, func(t *testing.T, l *Leaser) {
			ctx := t.Context()
			if tt.limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.limit)
				defer cancel()
			}
			began := time.Now()
			_, err := l.TryAcquire(ctx, tenure.Claim{Name: "n"})
			if took := time.Since(began); took != tt.took || !errors.Is(err, tt.want) {
				t.Errorf("%s: got %v after %v, want %v after %v", name, err, took, tt.want, tt.took)
			}
			for _, not := range tt.not {
				if errors.Is(err, not) {
					t.Errorf("%s: got %v, want it not to be %v", name, err, not)
				}
			}
		})
	}
	scriptedTest(t, &scripted{get: silent}, func(t *testing.T, l *Leaser) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := l.TryAcquire(ctx, tenure.Claim{Name: "n"}); !errors.Is(err, context.Canceled) || errors.Is(err, tenure.ErrClosed) || errors.Is(err, tenure.ErrUnavailable) {
			t.Errorf("its caller has gone: got %v, want %v alone", err, context.Canceled)
		}
	})
}

// TestBadClaimsAskNobody: a bad claim is refused before the store is asked.
func TestBadClaimsAskNobody(t *testing.T) {
	asked := func(context.Context) error {
		t.Error("the store is asked")
		return status.Error(codes.Internal, "asked")
	}
	scriptedTest(t, &scripted{get: asked, grant: func() error { return asked(t.Context()) }}, func(t *testing.T, l *Leaser) {
		for name, claim := range map[string]func(context.Context, tenure.Claim) (tenure.Lease, error){"Acquire": l.Acquire, "TryAcquire": l.TryAcquire} {
			if lease, err := claim(t.Context(), tenure.Claim{Name: "n", TTL: -1}); !errors.Is(err, tenure.ErrClaim) || lease != nil {
				t.Errorf("%s with a negative TTL: %v, %v; want %v", name, lease, err, tenure.ErrClaim)
			}
		}
		if _, err := l.Observe(t.Context(), ""); !errors.Is(err, tenure.ErrClaim) {
			t.Errorf("Observe of no name: %v, want %v", err, tenure.ErrClaim)
		}
		if _, err := l.Await(t.Context(), tenure.State{}); !errors.Is(err, tenure.ErrClaim) {
			t.Errorf("Await of no name: %v, want %v", err, tenure.ErrClaim)
		}
	})
}

// TestAcquireDoesNotSpin: a store that is away is asked again and again, with pauses, and one that
// refuses is not.
func TestAcquireDoesNotSpin(t *testing.T) {
	for code, again := range map[codes.Code]bool{codes.Unavailable: true, codes.ResourceExhausted: true, codes.PermissionDenied: false} {
		c := &scripted{}
		scriptedTest(t, c, func(t *testing.T, l *Leaser) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			c.grant = func() error {
				if c.grants > 10*20+1 {
					cancel() // it would go on for ever: the bubble's time stands still
				}
				return status.Error(code, "no")
			}
			_, err := l.Acquire(ctx, tenure.Claim{Name: "n"})
			most, least := 1, 1
			if again {
				most, least = 10*20+1, 10*6 // a pause takes 50 to 150 ms
			}
			if c.grants > most || c.grants < least || status.Code(err) != code || errors.Is(err, context.DeadlineExceeded) != again {
				t.Errorf("%v in ten seconds: %d attempts and %v, want %d to %d", code, c.grants, err, least, most)
			}
		})
	}
}

// TestHoldings: each holder is shown with its own claim's slots and its own lease's time, in order
// of arrival. A holder whose lease has ended meanwhile is left out. A lease about which the server
// returns an error fails the whole.
func TestHoldings(t *testing.T) {
	queue := queueOf(5, 6, 7, 8)
	for i, kv := range queue {
		kv.Value = []byte(`{"tenure":1,"holder":"` + string(rune('a'+i)) + `","slots":` + strconv.Itoa(3+i) + `,"delay_ms":` + strconv.Itoa(2000+1000*i) + `}`)
	}
	c := &scripted{queue: queue, left: func(id clientv3.LeaseID) (int64, error) {
		if id == 6 {
			return -1, nil
		}
		return 10 * int64(id), nil
	}}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		s, err := l.Observe(t.Context(), "n")
		want := []tenure.Holding{
			{Holder: "a", Token: 5, Slots: 3, Until: time.Now().Add(48 * time.Second)},
			{Holder: "c", Token: 7, Slots: 5, Until: time.Now().Add(66 * time.Second)},
		}
		if err != nil || s.Name != "n" || s.Waiting != 1 || len(s.Holders) != 2 || s.Holders[0] != want[0] || s.Holders[1] != want[1] {
			t.Errorf("got %+v, %v; want %+v and one that waits", s, err, want)
		}
		c.left = func(id clientv3.LeaseID) (int64, error) {
			if id == 7 {
				return 0, status.Error(codes.PermissionDenied, "no")
			}
			return 10, nil
		}
		if _, err := l.Observe(t.Context(), "n"); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), `observe "n"`) {
			t.Errorf("a lease that the server does not tell of: got %v, want why", err)
		}
	})
}

// TestATryThatLosesItsPlace: a try whose own key goes looks again, and is told which holder has the
// name. One that finds nothing ahead, although it did when it joined, is admitted.
func TestATryThatLosesItsPlace(t *testing.T) {
	c := &scripted{grant: func() error { return nil }}
	c.commits = []func() *clientv3.TxnResponse{
		func() *clientv3.TxnResponse { return joined(9, queueOf(5)...) },
		func() *clientv3.TxnResponse { c.queue = queueOf(5); return &clientv3.TxnResponse{} },
	}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		var held tenure.HeldError
		if lease, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "n", TTL: time.Minute}); !errors.As(err, &held) || held.Holder != "h" || lease != nil {
			t.Errorf("its place is gone: got %v, %v; want that h holds the name", lease, err)
		}
		if got := c.revocations(); !slices.Equal(got, []clientv3.LeaseID{7}) {
			t.Errorf("its place is gone: the leases %v are revoked, want 7", got)
		}
		c.queue = nil
		c.commits = []func() *clientv3.TxnResponse{
			func() *clientv3.TxnResponse { return joined(9, queueOf(5)...) },
			func() *clientv3.TxnResponse { return looked() },
		}
		lease, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "n", TTL: time.Minute})
		if err != nil || lease.Token() != 9 || lease.Check() != nil {
			t.Fatalf("nothing is ahead any more: got %v, %v; want a lease with token 9", lease, err)
		}
		if err := lease.Release(t.Context()); err != nil || len(c.revocations()) != 2 {
			t.Errorf("Release: %v, and the leases %v are revoked; want 7 again", err, c.revocations())
		}
	})
}

// TestATryBehindAHolderThatEnds: a try that finds a holder whose lease has ended meanwhile, and nobody
// else, claims the name: there is nobody to name in a refusal.
func TestATryBehindAHolderThatEnds(t *testing.T) {
	c := &scripted{
		queue: queueOf(5), grant: func() error { return nil },
		left: func(clientv3.LeaseID) (int64, error) { return -1, nil },
	}
	scriptedTest(t, c, func(t *testing.T, l *Leaser) {
		defer func() {
			if p := recover(); p != nil {
				t.Errorf("a try behind a holder that has ended: %v", p)
			}
		}()
		c.commits = []func() *clientv3.TxnResponse{func() *clientv3.TxnResponse { return joined(9) }}
		lease, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "n", TTL: time.Minute})
		if err != nil || c.grants != 1 {
			t.Errorf("a try behind a holder that has ended returns %v after %d grants, want the lease by one", err, c.grants)
			return
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
