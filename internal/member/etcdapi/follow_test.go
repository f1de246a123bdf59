package etcdapi

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// wantReturn wants a call to return, in time.
func wantReturn(t *testing.T, what string, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatalf("%s goes on, want it to end", what)
		return nil
	}
}

// A follower of a key learns when a compaction removes the next events, and begins anew.
func TestFollowEndsAtACompaction(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.put("a", "1")
	s.put("a", "2")
	if _, err := s.Propose(t.Context(), &pb.CompactionRequest{Revision: s.put("a", "3")}); err != nil {
		t.Fatal(err)
	}
	err := wantReturn(t, "to follow what is compacted", func() error {
		return s.server.follow(t.Context(), []byte("a"), nil, 2, func(*watch.Event) (bool, error) {
			return false, errors.New("an event that is compacted")
		})
	})
	if err != nil {
		t.Errorf("to follow what is compacted: %v, want an end without error", err)
	}
}

// A key that was made anew is no longer the one that stood in line, though it is first.
func TestTurnOfAKeyThatIsAnother(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	created := s.put("l/1", "")
	s.remove("l/1")
	s.put("l/1", "of another")
	err := wantReturn(t, "to wait by a key that is gone", func() error {
		_, err := s.server.awaitTurn(t.Context(), []byte("l"), []byte("l/1"), created, errGone)
		return err
	})
	if err != errGone {
		t.Errorf("the turn of a key that was made anew: %v, want that it is gone", err)
	}
}

// The revision of a turn is that of the state in which nobody was before, and no earlier one.
func TestTheRevisionOfAFreeTurn(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		s := serve(t, Config{}, watch.Config{})
		s.hidden.Store(hidden)
		created := s.put("l/1", "")
		want := s.put("x", "")
		err := wantReturn(t, "to wait for a free turn", func() error {
			got, err := s.server.awaitTurn(t.Context(), []byte("l"), []byte("l/1"), created, errGone)
			if got != want {
				t.Errorf("not published yet %v: a turn by a key created at %d has come at %d, want %d", hidden, created, got, want)
			}
			return err
		})
		if err != nil {
			t.Errorf("a free turn: %v", err)
		}
	}
}

// In key order a contender that is not the first waits until what it wrote is published: before,
// the holders of other keys may have to be waited for.
func TestTurnWaitsForWhatIsNotPublished(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.put("l/1", "")
	s.hidden.Store(true)
	created := s.put("l/2", "")
	before := s.barriers.Load()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.server.awaitTurn(ctx, []byte("l"), []byte("l/2"), created, errGone)
		done <- err
	}()
	s.waiters(1)
	if got := s.barriers.Load() - before; got != 1 {
		t.Errorf("it stands in line behind %d barriers, want 1", got)
	}
	cancel()
	if err := wantReturn(t, "to wait for a turn", func() error { return <-done }); !errors.Is(err, context.Canceled) {
		t.Errorf("a turn that was given up: %v", err)
	}
}

// Calls that stand in line by one key are told together, and one that leaves takes nobody along.
func TestLineOfOneKey(t *testing.T) {
	f := newFake(t, watch.Config{})
	l := &line{server: New(f, Config{}), name: []byte("l"), places: map[*place]struct{}{}, waiting: map[string][]*place{}}
	at := func(created int64) *place { return &place{key: "l/1", created: created, turn: make(chan turn, 1)} }
	join := func(p *place) { l.waiting[p.key] = append(l.waiting[p.key], p) }
	leaves, stays, fails, replaced := at(3), at(3), at(3), at(2)
	for _, p := range []*place{stays, leaves, fails, replaced} { // a call that came before stays
		join(p)
	}
	l.at, l.created = 5, map[string]int64{"l/1": 3}
	l.contenders = []contenderKey{{"l/1", 3}}
	l.forget(leaves)
	if !slices.Equal(l.waiting["l/1"], []*place{stays, fails, replaced}) {
		t.Errorf("%d calls wait by the key after one of four left, want 3", len(l.waiting["l/1"]))
	}
	l.judge(replaced)
	select {
	case got := <-replaced.turn:
		if !got.gone {
			t.Errorf("a call by a key that was made anew is told %+v, want that it is gone", got)
		}
	default:
		t.Error("a call by a key that was made anew is told nothing, want that it is gone")
	}
	f.hub.Close()
	if err := wantReturn(t, "a line whose watches are closed", func() error { l.run(t.Context()); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*place{stays, fails} {
		select {
		case got := <-p.turn:
			if !errors.Is(got.err, watch.ErrClosed) && got.revision == 0 {
				t.Errorf("a call in a line that has ended is told %+v, want why", got)
			}
		default:
			t.Error("a call in a line that has ended is told nothing, want why")
		}
	}
}

// Of contenders that one transaction made one has its turn, though all were created at the same
// revision: whether their keys are published or not.
func TestTurnsOfEquals(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		s := serve(t, Config{}, watch.Config{})
		s.put("a/1", "no contender")
		s.hidden.Store(hidden)
		equals := &pb.TxnRequest{Success: []*pb.RequestOp{putOp([]byte("l/1"), nil, 0), putOp([]byte("l/2"), nil, 0)}}
		r, err := s.Propose(t.Context(), equals)
		if err != nil {
			t.Fatal(err)
		}
		created := r.(*pb.TxnResponse).Header.Revision
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.server.awaitTurn(ctx, []byte("l"), []byte("l/2"), created, errGone)
			done <- err
		}()
		if revision, err := s.server.awaitTurn(t.Context(), []byte("l"), []byte("l/1"), created, errGone); err != nil || revision != created {
			t.Errorf("hidden %v: the first of two has its turn at revision %d, %v, want %d", hidden, revision, err, created)
		}
		for len(done) == 0 { // until it stands in line
			s.server.lines.mu.Lock()
			n := len(s.server.lines.byName)
			s.server.lines.mu.Unlock()
			if n == 1 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("hidden %v: the second of two has its turn beside the first: %v", hidden, err)
		}
	}
}

// A call that follows a key at a member without a state to show fails with that.
func TestNothingIsFollowedWithoutAState(t *testing.T) {
	f := (&fake{store: kv.New()}).begin(t, watch.Config{}, kv.View{})
	s := New(f, Config{})
	err := wantReturn(t, "to follow a key of no state", func() error {
		return s.follow(t.Context(), []byte("a"), nil, 1, func(*watch.Event) (bool, error) { return true, nil })
	})
	if !errors.Is(err, kv.ErrNoState) {
		t.Errorf("to follow a key of no state: %v, want %v", err, kv.ErrNoState)
	}
	if err := wantReturn(t, "to look up a key of no state", func() error { _, _, err := s.lookup(t.Context(), holderOf([]byte("a"))); return err }); !errors.Is(err, kv.ErrNoState) {
		t.Errorf("to look up a key of no state: %v, want %v", err, kv.ErrNoState)
	}
}

// In key order a contender whose key was taken from it before it was published has no turn, whether
// another has the key now or nobody.
func TestTurnOfAKeyThatIsGoneBeforeItIsPublished(t *testing.T) {
	for _, anew := range []bool{false, true} {
		s := serve(t, Config{}, watch.Config{})
		s.hidden.Store(true)
		created := s.put("l/1", "")
		s.remove("l/1")
		if anew {
			s.put("l/1", "of another")
		}
		done := make(chan error, 1)
		go func() {
			_, err := s.server.awaitTurn(t.Context(), []byte("l"), []byte("l/1"), created, errGone)
			done <- err
		}()
		for end := time.Now().Add(10 * time.Second); !s.server.lines.has([]byte("l")) && len(done) == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it does not stand in line")
			}
		}
		s.hidden.Store(false)
		s.put("x", "")
		if err := wantReturn(t, "to wait by a key that is gone", func() error { return <-done }); err != errGone {
			t.Errorf("the turn of a key that is gone, made anew %v: %v, want that it is gone", anew, err)
		}
	}
}

// blind is a backend in key order that cannot read what is not published, or cannot wait for it.
type blind struct {
	*fake
	read, barrier error
}

func (b blind) ReadView(context.Context, proto.Message) (kv.View, error) {
	return b.store.View(), b.read
}

func (b blind) Barrier(context.Context) error { return b.barrier }

// In key order a contender whose turn cannot be found out is told why.
func TestTurnsThatNobodyCanJudge(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := &served{fake: f, t: t}
	s.put("l/1", "")
	f.hidden.Store(true)
	created := s.put("l/2", "")
	lost := errors.New("lost")
	for what, b := range map[string]blind{"read": {f, lost, nil}, "waited for": {f, nil, lost}} {
		err := wantReturn(t, "to wait for a turn that cannot be "+what, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := New(b, Config{}).awaitTurn(ctx, []byte("l"), []byte("l/2"), created, errGone)
			return err
		})
		if err != lost {
			t.Errorf("a turn that cannot be %s: %v, want why", what, err)
		}
	}
}
