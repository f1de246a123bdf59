package etcdapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// waiting is a call of awaitTurn under way.
type waiting struct {
	key  string
	done chan error
	stop context.CancelFunc
}

var errGone = errors.New("gone")

// wait has a contender that exists wait for its turn.
func (s *served) wait(key string) *waiting {
	s.t.Helper()
	r, err := s.View().Range(&pb.RangeRequest{Key: []byte(key)})
	if err != nil || len(r.Kvs) != 1 {
		s.t.Fatalf("%s: %v, %v", key, r, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	w := &waiting{key, make(chan error, 1), cancel}
	name, _, _ := strings.Cut(key, "/")
	go func() {
		revision, err := s.server.awaitTurn(ctx, []byte(name), []byte(key), r.Kvs[0].CreateRevision, errGone)
		if err == nil && revision < r.Kvs[0].CreateRevision {
			err = fmt.Errorf("it has its turn at revision %d, before it was there", revision)
		}
		w.done <- err
	}()
	return w
}

// waiters waits until n calls wait in lines.
func (s *served) waiters(n int) {
	s.t.Helper()
	for range 2000 {
		got := 0
		s.server.lines.mu.Lock()
		for _, l := range s.server.lines.byName {
			l.mu.Lock()
			if l.at > 0 {
				got += len(l.places)
			}
			l.mu.Unlock()
		}
		s.server.lines.mu.Unlock()
		if got == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
	s.t.Fatalf("there are not %d calls that wait", n)
}

func (w *waiting) want(t *testing.T, want error) {
	t.Helper()
	select {
	case err := <-w.done:
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", w.key, err, want)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("%s still waits, want %v", w.key, want)
	}
}

func (w *waiting) wantWaiting(t *testing.T) {
	t.Helper()
	select {
	case err := <-w.done:
		t.Errorf("%s waits no longer: %v", w.key, err)
	default:
	}
}

func (s *served) remove(keys ...string) {
	s.t.Helper()
	r := new(pb.TxnRequest)
	for _, key := range keys {
		r.Success = append(r.Success, deleteOp([]byte(key)))
	}
	if _, err := s.Propose(context.Background(), r); err != nil {
		s.t.Fatal(err)
	}
}

// Those who wait are called in the order of their keys' creation, whatever comes and goes
// between them; who shares a key is called with it; whose key is gone is told.
func TestLineOrder(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	// The first are around the names of the contenders, and are none.
	for _, key := range []string{"a/1", "l", "l.", "l0", "l/9", "l/5", "l/7", "l/3", "l/8", "other/1"} {
		s.put(key, "")
	}
	holder := s.wait("l/9")
	holder.want(t, nil)
	five, again, seven, three, eight := s.wait("l/5"), s.wait("l/5"), s.wait("l/7"), s.wait("l/3"), s.wait("l/8")
	s.waiters(5)
	s.put("l/9", "a new value")
	s.put("l/1", "comes last")
	one := s.wait("l/1")
	s.waiters(6)
	s.remove("l/3")
	three.want(t, errGone)
	s.put("l/3", "anew") // which is no longer the key that waited
	seven.stop()
	seven.want(t, context.Canceled)
	s.waiters(4)
	for _, w := range []*waiting{five, again, eight, one} {
		w.wantWaiting(t)
	}
	s.remove("l/9")
	five.want(t, nil)
	again.want(t, nil)
	eight.wantWaiting(t)
	s.remove("l/5") // l/7 is still there, though its caller left
	s.waiters(2)
	eight.wantWaiting(t)
	s.remove("l/7", "other/1")
	eight.want(t, nil)
	s.remove("l/8")
	one.want(t, nil)
	s.waiters(0)
	for range 2000 {
		if s.hub.Stats().Watchers == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("nobody waits any more, and there are %d watchers", s.hub.Stats().Watchers)
}

// Of contenders that one transaction made one is first, the same at all members.
func TestLineOfEquals(t *testing.T) {
	for name, before := range map[string]bool{"read": true, "watched": false} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, Config{}, watch.Config{})
			s.put("l/0", "")
			s.put("l/z", "")
			equals := &pb.TxnRequest{}
			for i := range 30 {
				equals.Success = append(equals.Success, putOp(fmt.Appendf(nil, "l/%02d", 1+i*7%30), nil, 0))
			}
			if !before {
				s.wait("l/z")
				s.waiters(1)
			}
			if _, err := s.Propose(t.Context(), equals); err != nil {
				t.Fatal(err)
			}
			first, second := s.wait("l/01"), s.wait("l/02")
			s.waiters(map[bool]int{true: 2, false: 3}[before])
			s.remove("l/0", "l/z")
			first.want(t, nil)
			second.wantWaiting(t)
			s.remove("l/01")
			second.want(t, nil)
		})
	}
}

// A line whose watch falls behind a compaction begins anew, and forgets nobody.
func TestLineBehindACompaction(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	for _, key := range []string{"l/1", "l/2", "l/3"} {
		s.put(key, "")
	}
	two, three := s.wait("l/2"), s.wait("l/3")
	s.waiters(2)
	// The next change is compacted before it is published.
	s.mu.Lock()
	for _, key := range []string{"l/1", "l/3"} {
		if _, err := s.store.DeleteRange(&pb.DeleteRangeRequest{Key: []byte(key)}); err != nil {
			t.Fatal(err)
		}
	}
	rev, err := s.store.Put(&pb.PutRequest{Key: []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Compact(rev.Header.Revision); err != nil {
		t.Fatal(err)
	}
	s.publish()
	s.mu.Unlock()
	two.want(t, nil)
	three.want(t, errGone)
}

// Calls that wait for one name share a watch, and one that comes does not have all members
// look through those that wait, which would hold up everybody's writes.
func TestLockWaitersCostLittle(t *testing.T) {
	const n = 50
	s := serve(t, Config{}, watch.Config{})
	ranges := 0
	s.proposed = func(r proto.Message) {
		if txn, ok := r.(*pb.TxnRequest); ok {
			for _, op := range slices.Concat(txn.Success, txn.Failure) {
				if q := op.GetRequestRange(); q != nil && len(q.RangeEnd) > 0 {
					ranges++
				}
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, n)
	lock := func(lease int64) {
		_, err := v3lockpb.NewLockClient(s.conn).Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l"), Lease: lease})
		done <- err
	}
	for i := range int64(n) {
		s.grant(i + 1)
	}
	lock(1)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i := range int64(n - 1) {
		go lock(i + 2)
	}
	s.waiters(n - 1)
	if got := s.hub.Stats().Watchers; got != 1 {
		t.Errorf("%d calls that wait for a name have %d watchers, want one", n-1, got)
	}
	if ranges != 0 {
		t.Errorf("contenders had %d ranges read by all members, want none", ranges)
	}
	cancel()
	for range n - 1 {
		if err := <-done; status.Code(err) != codes.Canceled {
			t.Errorf("a call that was given up: %v", err)
		}
	}
}

// In key order a write is answered before it is published, which may wait for holders of other
// keys. A free lock does not wait for those.
func TestFreeLockBeforeItIsPublished(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.grant(1)
	s.grant(2)
	s.hidden.Store(true)
	before := s.barriers.Load()
	lock := func(ctx context.Context, lease int64) error {
		_, err := v3lockpb.NewLockClient(s.conn).Lock(ctx, &v3lockpb.LockRequest{Name: []byte("l"), Lease: lease})
		return err
	}
	if err := lock(t.Context(), 1); err != nil || s.barriers.Load() != before {
		t.Errorf("a free lock: %v, behind %d barriers, want none", err, s.barriers.Load()-before)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s.hidden.Store(false)
	if err := lock(ctx, 2); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a lock that another holds: %v, want it to wait", err)
	}
}

// A key that was deleted and made anew has another turn than before. A caller that waits for the
// new key is not called because the line, which is behind, still takes the old one for the
// oldest.
func TestKeyMadeAnewInALineThatIsBehind(t *testing.T) {
	l := &line{waiting: make(map[string][]*place)}
	l.begin([]*mvccpb.KeyValue{{Key: []byte("l/1"), CreateRevision: 2}, {Key: []byte("l/2"), CreateRevision: 3}}, 3)
	p := &place{key: "l/1", created: 5, turn: make(chan turn, 1)}
	l.waiting[p.key] = append(l.waiting[p.key], p)
	l.judge(p)
	l.callOldest()
	event := func(e mvccpb.Event_EventType, key string, created, revision int64) *watch.Event {
		return &watch.Event{Event: kv.Event{Type: e, KV: &mvccpb.KeyValue{Key: []byte(key), CreateRevision: created, ModRevision: revision}}}
	}
	l.apply([]*watch.Event{event(mvccpb.Event_DELETE, "l/1", 0, 4), event(mvccpb.Event_PUT, "l/1", 5, 5)})
	if len(p.turn) > 0 {
		t.Fatalf("a key that was made anew is called while an older one is there: %+v", <-p.turn)
	}
	l.apply([]*watch.Event{event(mvccpb.Event_DELETE, "l/2", 0, 6)})
	select {
	case got := <-p.turn:
		if got != (turn{revision: 6}) {
			t.Errorf("the oldest key is told %+v, want its turn at revision 6", got)
		}
	default:
		t.Error("the oldest key is not called")
	}
}

// Of contenders that one transaction made the lesser key is first, though the transaction has also
// written the key of one that was there.
func TestEqualsBesideAWriteOfAnOlderContender(t *testing.T) {
	event := func(key string, created int64) *watch.Event {
		return &watch.Event{Event: kv.Event{Type: mvccpb.Event_PUT, KV: &mvccpb.KeyValue{Key: []byte(key), CreateRevision: created, ModRevision: 5}}}
	}
	l := &line{waiting: make(map[string][]*place)}
	l.begin([]*mvccpb.KeyValue{{Key: []byte("l/old"), CreateRevision: 2}}, 2)
	l.apply([]*watch.Event{event("l/b", 5), event("l/old", 2), event("l/a", 5)})
	want := []contenderKey{{"l/old", 2}, {"l/a", 5}, {"l/b", 5}}
	if !slices.Equal(l.contenders, want) {
		t.Errorf("the contenders stand as %v, want %v", l.contenders, want)
	}
}

// Contenders that come and go behind one that stays are forgotten, though it is not their turn.
func TestLineForgetsWhoLeft(t *testing.T) {
	l := &line{waiting: make(map[string][]*place)}
	l.begin([]*mvccpb.KeyValue{{Key: []byte("l/0"), CreateRevision: 2}}, 2)
	for revision := int64(3); revision < 2000; revision += 2 {
		key := fmt.Appendf(nil, "l/%d", revision)
		l.apply([]*watch.Event{
			{Event: kv.Event{Type: mvccpb.Event_PUT, KV: &mvccpb.KeyValue{Key: key, CreateRevision: revision, ModRevision: revision}}},
			{Event: kv.Event{Type: mvccpb.Event_DELETE, KV: &mvccpb.KeyValue{Key: key, ModRevision: revision + 1}}},
		})
		if n := len(l.contenders); n > 100 {
			t.Fatalf("a line with one contender remembers %d", n)
		}
	}
}

// A call that comes to a line that cannot go on, or with a key that is gone already, learns
// so at once: nothing follows that would tell it.
func TestWhoComesTooLateToALineIsTold(t *testing.T) {
	f := newFake(t, watch.Config{})
	created := (&served{fake: f, t: t}).put("l/a", "the oldest there is")
	s := New(f, Config{})
	over, end := context.WithCancel(t.Context())
	end()
	ended := &line{server: s, name: []byte("l"), end: end, places: map[*place]struct{}{}, waiting: map[string][]*place{}}
	ended.begin([]*mvccpb.KeyValue{{Key: []byte("l/a"), CreateRevision: created}}, created)
	ended.run(over)
	known := &line{server: s, name: []byte("l"), end: end, places: map[*place]struct{}{}, waiting: map[string][]*place{}}
	known.begin(nil, 5)
	for _, tt := range []struct {
		what string
		l    *line
		want turn
	}{{"its watch has ended", ended, turn{err: context.Canceled}}, {"the key is gone", known, turn{gone: true}}} {
		p := &place{key: "l/a", created: created, turn: make(chan turn, 1)}
		(&lines{server: s, byName: map[string]*line{"l": tt.l}}).join([]byte("l"), p)
		select {
		case got := <-p.turn:
			if got.gone != tt.want.gone || !errors.Is(got.err, tt.want.err) {
				t.Errorf("%s: who comes is told %+v, want %+v", tt.what, got, tt.want)
			}
		default:
			t.Errorf("%s: who comes is told nothing, and waits for ever", tt.what)
		}
	}
}

// The turn of a contender comes with the latest revision that its line has seen, not with that of
// the first event of many. The holder's reads at that revision must not find the one before it.
func TestTheRevisionOfATurn(t *testing.T) {
	l := &line{waiting: make(map[string][]*place)}
	l.begin([]*mvccpb.KeyValue{{Key: []byte("l/1"), CreateRevision: 2}, {Key: []byte("l/2"), CreateRevision: 3}}, 3)
	p := &place{key: "l/2", created: 3, turn: make(chan turn, 1)}
	l.waiting[p.key] = append(l.waiting[p.key], p)
	event := func(e mvccpb.Event_EventType, key string, revision int64) *watch.Event {
		return &watch.Event{Event: kv.Event{Type: e, KV: &mvccpb.KeyValue{Key: []byte(key), CreateRevision: revision, ModRevision: revision}}}
	}
	l.apply([]*watch.Event{event(mvccpb.Event_PUT, "l/3", 4), event(mvccpb.Event_DELETE, "l/1", 6)})
	if len(p.turn) == 0 {
		t.Fatal("the oldest key is not called")
	}
	if got := <-p.turn; got != (turn{revision: 6}) {
		t.Errorf("the oldest key is told %+v, want its turn at revision 6, when the one before it was deleted", got)
	}
}

// A line forgets a call that leaves, also while others stay: it may be a long one.
func TestALineForgetsACallThatLeaves(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	for _, key := range []string{"l/1", "l/2", "l/3"} {
		s.put(key, "")
	}
	s.wait("l/2")
	leaves := s.wait("l/3")
	s.waiters(2)
	leaves.stop()
	leaves.want(t, context.Canceled)
	s.waiters(1)
	l := s.server.lines.byName["l"]
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.waiting); n != 1 {
		t.Errorf("a line in which one call waits remembers the keys of %d", n)
	}
}

// A call that comes to a line with the oldest key is called at once: a call that waits for
// its own lease's lock, beside others, has it already.
func TestTheOldestComesToItsLine(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.put("l/1", "")
	s.put("l/2", "")
	s.wait("l/2")
	s.waiters(1)
	s.wait("l/1").want(t, nil)
	s.wait("l/1").want(t, nil)
}

// A lock that was waited for tells a revision at which it is held: not before the one that held it
// was gone.
func TestALockTellsWhenItIsHeld(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.grant(0xa)
	s.put("l/0", "")
	got := make(chan *v3lockpb.LockResponse, 1)
	go func() {
		r, err := v3lockpb.NewLockClient(s.conn).Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l"), Lease: 0xa})
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	s.waiters(1)
	s.put("x", "") // of no contender
	s.remove("l/0")
	at := s.View().Revision()
	if r := <-got; r.GetHeader().GetRevision() != at {
		t.Errorf("a lock whose holder left at revision %d is held at %d", at, r.GetHeader().GetRevision())
	}
}

// A call is told that its key is gone once the line knows the revision of the key's creation, and the
// key is not there.
func TestWhenAKeyIsKnownToBeGone(t *testing.T) {
	failed := errors.New("failed")
	for _, tt := range []struct {
		name    string
		at      int64
		created map[string]int64
		err     error
		want    string
	}{
		{"before it was created", 4, nil, nil, "nothing"},
		{"at the revision that created and deleted it", 5, nil, nil, "gone"},
		{"later", 9, nil, nil, "gone"},
		{"while it is there", 9, map[string]int64{"k": 5}, nil, "nothing"},
		{"when it was created anew", 9, map[string]int64{"k": 8}, nil, "gone"},
		{"of a line that cannot go on", 4, nil, failed, "failed"},
	} {
		p := &place{key: "k", created: 5, turn: make(chan turn, 1)}
		(&line{at: tt.at, created: tt.created, err: tt.err}).judge(p)
		got := "nothing"
		select {
		case told := <-p.turn:
			if got = "gone"; told.err != nil {
				got = told.err.Error()
			} else if !told.gone {
				got = "its turn"
			}
		default:
		}
		if got != tt.want {
			t.Errorf("%s, who waits for a key of revision 5 is told %s, want %s", tt.name, got, tt.want)
		}
	}
}
