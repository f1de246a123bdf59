package node

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"github.com/tenure-lease/tenure/internal/member/watch"
)

// written is the log of a member that was alone, and everything that is needed to apply it.
type written struct {
	t       *testing.T
	n       *Node // which has stopped
	entries []*raftpb.Entry
	at      []uint64 // the index of each request
	ids     []uint64 // and its ID
}

// write has a member do requests, and encoded ones, one after the other.
func write(t *testing.T, requests ...any) *written {
	t.Helper()
	cfg := single(t, t.TempDir())
	nimble(&cfg)
	cfg.PeerListener = listen(t)
	cfg.Peers = map[string]string{"a": "http://" + cfg.PeerListener.Addr().String()}
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &written{t: t, n: n}
	for end := time.Now().Add(20 * time.Second); len(n.Members()) == 0 || n.Members()[0].Name == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			n.Stop()
			t.Fatal("in 20 s it has not told its name")
		}
	}
	for _, r := range requests {
		var err error
		if m, ok := r.(proto.Message); ok {
			_, err = n.Propose(t.Context(), m)
		} else {
			_, err = n.propose(t.Context(), r.([]byte))
		}
		if err != nil {
			t.Fatal(err)
		}
		w.at, w.ids = append(w.at, n.appliedIndex()), append(w.ids, n.ids.Load())
	}
	n.Stop()
	s, log, err := openStorage(cfg.DataDir, n.storage.identity, wal.Options{FS: wal.OS{}}, n.logger)
	if err != nil {
		t.Fatal(err)
	}
	s.log.Close()
	w.entries = log.Entries
	return w
}

// some returns the entries after one index, up to another.
func (w *written) some(behind, upTo uint64) (list []*raftpb.Entry) {
	for _, e := range w.entries {
		if behind < e.GetIndex() && e.GetIndex() <= upTo {
			list = append(list, e)
		}
	}
	return list
}

// state is an applier that has applied the log up to an index.
func (w *written) state(upTo uint64) *replica.Applier {
	w.t.Helper()
	st := replica.NewApplier(w.n.id, w.n.admission.boot)
	st.Found(replica.FoundedBy(w.n.founders))
	for _, e := range w.some(0, upTo) {
		if err := st.Apply(e); err != nil {
			w.t.Fatal(err)
		}
	}
	st.Take()
	return st
}

// resume makes member 1 continue from a state.
func (w *written) resume(t *testing.T, st *replica.Applier, released uint64) (*Node, *listener, *notedLinks) {
	t.Helper()
	n, l, links := linked(t)
	n.applier = newApplier(n, st, released)
	return n, l, links
}

func (n *Node) do(t *testing.T, item any) {
	t.Helper()
	if err := n.applier.do(item); err != nil {
		t.Fatal(err)
	}
}

// Outcomes that the applier has taken stay as they are while others are queued behind them.
func TestTakenOutcomesAreTheAppliers(t *testing.T) {
	a := &applier{wake: make(chan struct{}, 1)}
	a.put(replica.Restore{Index: 1})
	a.put(replica.Restore{Index: 2})
	taken := a.take()
	a.put(replica.Restore{Index: 3})
	if want := []any{replica.Restore{Index: 1}, replica.Restore{Index: 2}}; !reflect.DeepEqual(taken, want) {
		t.Errorf("while another outcome was queued, those that were taken became %+v, want %+v", taken, want)
	}
	if next, want := a.take(), []any{replica.Restore{Index: 3}}; !reflect.DeepEqual(next, want) {
		t.Errorf("taken next are %+v, want %+v", next, want)
	}
	if rest := a.take(); len(rest) > 0 {
		t.Errorf("%+v are taken again", rest)
	}
}

// An applied entry that is not released is invisible: in states, in answers, and to waiting callers. A
// released state is visible at once.
func TestWhatIsHeldIsNotSeen(t *testing.T) {
	put := func(value string) *pb.PutRequest { return &pb.PutRequest{Key: []byte("k"), Value: []byte(value)} }
	w := write(t, put("1"), put("2"), put("3"), put("4"))
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := w.resume(t, w.state(0), 0)
		defer n.end()
		var answers []chan result
		var shown, applied []*barrier
		for i, id := range w.ids {
			answers = append(answers, n.results.add(id, 1))
			shown = append(shown, n.barriers.awaitIndex(n.publishedIndex, w.at[i]))
			applied = append(applied, n.applications.awaitIndex(n.appliedIndex, w.at[i]))
		}
		told := 0
		is := func(when string, toApplied, toShown int) {
			t.Helper()
			synctest.Wait()
			index := func(k int) uint64 {
				if k == 0 {
					return 1 // where a log begins
				}
				return w.at[k-1]
			}
			if got, want := n.appliedIndex(), index(toApplied); got != want {
				t.Errorf("%s: %d is applied, want %d", when, got, want)
			}
			if got, want := n.State().index, index(toShown); got != want {
				t.Errorf("%s: state %d is shown, want %d", when, got, want)
			}
			if got, want := n.State().term, w.entries[0].GetTerm(); toShown > 0 && got != want {
				t.Errorf("%s: the state is of term %d, want %d", when, got, want)
			}
			if got, want := n.applier.state.Restored().Released, index(toShown); got != want {
				t.Errorf("%s: a snapshot would say that %d is released, want %d", when, got, want)
			}
			for i := range w.ids {
				answered := len(answers[i]) > 0
				if answered != (i < toShown) || ended(shown[i]) != (i < toShown) || ended(applied[i]) != (i < toApplied) {
					t.Errorf("%s: request %d is answered: %v, shown: %v, applied: %v; want %v, %v, %v", when, i+1, answered, ended(shown[i]), ended(applied[i]), i < toShown, i < toShown, i < toApplied)
				}
			}
			for _, in := range l.heard()[told:] {
				if a, ok := in.(replica.Applied); !ok || a.Index != index(toApplied) {
					t.Errorf("%s: the replica is told %+v, want that %d is applied", when, in, index(toApplied))
				}
			}
		}
		is("at first", 0, 0)
		n.do(t, replica.Committed{Entries: w.some(0, w.at[0])})
		is("applied", 1, 1)
		if got := len(l.heard()); got != 1 {
			t.Errorf("the replica is told %d things, want that one entry and those before are applied", got)
		}
		told = len(l.heard())
		n.do(t, replica.Committed{Entries: w.some(w.at[0], w.at[2]), Held: true})
		is("applied and held", 3, 1)
		if got := len(l.heard()); got != told+1 {
			t.Errorf("the replica is told %d things, want that what is held is applied", got-told)
		}
		told = len(l.heard())
		n.do(t, replica.Released{Through: w.at[1]})
		is("one of two is released", 3, 2)
		if got := len(l.heard()); got != told {
			t.Errorf("the replica is told %v of what it has released itself", l.heard()[told:])
		}

		// The state is shown before anybody has an answer.
		busy := make(chan result)
		shard := &n.results.shards[w.ids[2]%16]
		shard.byID[w.ids[2]] = wait[result]{answer: busy, since: time.Now()}
		go func() {
			if err := n.applier.do(replica.Released{Through: w.at[2]}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if got := n.State().index; got != w.at[2] {
			t.Errorf("state %d is shown when the write of %d is acknowledged", got, w.at[2])
		}
		r := <-busy
		answers[2] <- r
		if got := r.response.(*pb.PutResponse).Header.Revision; r.err != nil || got != n.View().Revision() {
			t.Errorf("the write is answered with revision %d, %v, want %d", got, r.err, n.View().Revision())
		}
		is("all is released", 3, 3)
		n.do(t, replica.Committed{Entries: w.some(w.at[2], w.at[3])})
		is("in strict order again", 4, 4)
	})
}

// After restoring a snapshot, a member is as if it had applied all of it: it has the policy, the
// released index and the members of the snapshot.
func TestWhatASnapshotRestores(t *testing.T) {
	w := write(t, &pb.PutRequest{Key: []byte("k"), Value: []byte("1")}, wrapperspb.String("all/key"), &pb.PutRequest{Key: []byte("k"), Value: []byte("2")}, wrapperspb.String("leader"),
		replica.AddMember(77, []string{"http://127.0.0.1:77"}, true))
	for _, tt := range []struct {
		name     string
		upTo     int // request
		released uint64
		byKey    bool
		shown    bool
	}{
		{"in strict order", 1, w.at[0], false, true},
		{"in key order", 3, w.at[2], true, true},
		{"in key order, and not all of it is released", 3, w.at[1], true, false},
		{"in strict order again", 4, w.at[3], false, true},
		{"with another member", 5, w.at[4], false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			index := w.at[tt.upTo-1]
			from := w.state(index)
			from.Released(tt.released)
			n, l, links := w.resume(t, w.state(w.at[0]), w.at[0])
			defer n.end()
			disk := &counted{FS: waltest.NewDisk().FS()}
			var err error
			if n.storage, _, err = openStorage("/data", testIdentity, wal.Options{FS: disk}, n.logger); err != nil {
				t.Fatal(err)
			}
			defer n.storage.log.Close()
			snap := from.Snapshot()
			defer snap.Release()
			if err := n.storage.saveSnapshot(index, snap.Term, snap.ConfState(), func(w io.Writer) error { _, err := snap.WriteTo(w); return err }); err != nil {
				t.Fatal(err)
			}
			n.applier.reclaim = false
			links.peers = nil
			isShown, isApplied := n.barriers.awaitIndex(n.publishedIndex, index+1), n.applications.awaitIndex(n.appliedIndex, index+1)
			isShown.index, isApplied.index = index, index // as if that state were to come
			n.do(t, replica.Restore{Index: index, Term: snap.Term})
			synctest.Wait()
			if got := n.appliedIndex(); got != index {
				t.Errorf("%s: %d is applied, want %d", tt.name, got, index)
			}
			if got := n.State().index == index; got != tt.shown {
				t.Errorf("%s: state %d is shown, want that of %d to be shown: %v", tt.name, n.State().index, index, tt.shown)
			}
			if got := byKey(n.order.Load()); got != tt.byKey {
				t.Errorf("%s: reads go by keys: %v, want %v", tt.name, got, tt.byKey)
			}
			if ended(isShown) != tt.shown || !ended(isApplied) {
				t.Errorf("%s: a call that waits for the snapshot's state to be shown is let go: %v, and to be applied: %v; want %v, and the other", tt.name, ended(isShown), ended(isApplied), tt.shown)
			}
			if got, want := len(links.peers), tt.upTo/5; got != want || want > 0 && links.peers[0].addrs[77] != "127.0.0.1:77" {
				t.Errorf("%s: connections are made anew %d times, to %v; want %d", tt.name, got, links.peers, want)
			}
			if n.storage.newest != index || !n.applier.reclaim {
				t.Errorf("%s: snapshot %d is in use, want %d; history is given back: %v", tt.name, n.storage.newest, index, n.applier.reclaim)
			}
			select {
			case <-n.Shown():
				if !tt.shown && n.View().Revision() == 0 {
					t.Errorf("%s: it says that it shows a state", tt.name)
				}
			default:
				t.Errorf("%s: it does not say that it shows a state", tt.name)
			}
			if got, want := n.applied().view.Revision(), from.Store().View().Revision(); got != want {
				t.Errorf("%s: the state is of revision %d, want %d", tt.name, got, want)
			}
			if got := l.heard(); len(got) != 1 || got[0].(replica.Restored).Index != index || got[0].(replica.Restored).Term != snap.Term || got[0].(replica.Restored).Released != tt.released {
				t.Errorf("%s: the replica is told %+v, want what was restored", tt.name, got)
			}
			if k := disk.open.Load(); k != 0 {
				t.Errorf("%s: %d files of snapshots are open", tt.name, k)
			}
			// So does a member that is started.
			again, _, _ := w.resume(t, from, 0)
			defer again.end()
			if got, want := len(again.Members()), 1+tt.upTo/5; got != want {
				t.Errorf("%s: a member starts with %d members, want %d", tt.name, got, want)
			}
			if now := again.View().Revision(); !tt.shown && now != 0 {
				t.Errorf("%s: a member starts and shows revision %d", tt.name, now)
			}
			select {
			case <-again.Shown():
				if !tt.shown {
					t.Errorf("%s: a member starts, and says that it shows a state", tt.name)
				}
			default:
				if tt.shown {
					t.Errorf("%s: a member starts, and does not say that it shows a state", tt.name)
				}
			}
			if got := again.State().index == index; got != tt.shown || byKey(again.order.Load()) != tt.byKey {
				t.Errorf("%s: a member starts with state %d, by keys: %v", tt.name, again.State().index, byKey(again.order.Load()))
			}
			// Its log may know of more that is released.
			more, _, _ := w.resume(t, from, index)
			defer more.end()
			if got := more.State().index; got != index {
				t.Errorf("%s: a member whose log says that all is released starts with state %d, want %d", tt.name, got, index)
			}
		})
	}
}

// A snapshot file that is damaged behind its last key is refused.
func TestADamagedSnapshotIsNotRestored(t *testing.T) {
	w := write(t, &pb.PutRequest{Key: []byte("k"), Value: []byte("1")})
	n, l, _ := w.resume(t, w.state(0), 0)
	dir := t.TempDir()
	var err error
	if n.storage, _, err = openStorage(dir, testIdentity, wal.Options{FS: wal.OS{}}, n.logger); err != nil {
		t.Fatal(err)
	}
	defer n.storage.log.Close()
	snap := w.state(w.at[0]).Snapshot()
	defer snap.Release()
	if err := n.storage.saveSnapshot(w.at[0], snap.Term, snap.ConfState(), func(w io.Writer) error { _, err := snap.WriteTo(w); return err }); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "snap", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of snapshots: %v, %v", files, err)
	}
	p, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	p[len(p)-1] ^= 1
	if err := os.WriteFile(files[0], p, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.applier.do(replica.Restore{Index: w.at[0], Term: snap.Term}); !errors.Is(err, wal.ErrCorrupt) {
		t.Errorf("a snapshot whose checksum is wrong: %v, want %v", err, wal.ErrCorrupt)
	}
	if n.storage.newest == w.at[0] {
		t.Error("a snapshot whose checksum is wrong is in use, and those before it may be removed")
	}
	if got := l.heard(); len(got) > 0 {
		t.Errorf("the replica is told %v", got)
	}
}

// Connections are set up again only when the members change.
func TestConnectionsFollowTheMembers(t *testing.T) {
	w := write(t, replica.AddMember(77, []string{"http://127.0.0.1:77"}, true), &pb.PutRequest{Key: []byte("k")}, &pb.PutRequest{Key: []byte("k")})
	n, _, links := w.resume(t, w.state(0), 0)
	behind := uint64(0)
	for i, at := range w.at {
		n.do(t, replica.Committed{Entries: w.some(behind, at)})
		behind = at
		if len(links.peers) != 1 || links.peers[0].addrs[77] != "127.0.0.1:77" {
			t.Errorf("after request %d the connections were made anew %d times, to %v; want once, to the new member too", i+1, len(links.peers), links.peers)
		}
	}
}

// Watchers receive released changes. A read by the log is answered from the state at its own index.
func TestWhoIsToldOfWhatIsReleased(t *testing.T) {
	put := func(value string) *pb.PutRequest { return &pb.PutRequest{Key: []byte("k"), Value: []byte(value)} }
	read := replica.EncodeRead(replica.AppendReads(nil, &pb.RangeRequest{Key: []byte("k")}))
	w := write(t, put("1"), put("2"), read, put("3"))
	n, _, _ := w.resume(t, w.state(w.at[0]), w.at[0])
	n.hub = watch.NewHub(n.View(), watch.Config{})
	defer n.hub.Close()
	stream := n.Watches().NewStream(0)
	defer stream.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := stream.Create(ctx, &pb.WatchCreateRequest{Key: []byte("k")}); err != nil {
		t.Fatal(err)
	}
	if r, err := stream.Next(ctx); err != nil || !r.Created {
		t.Fatalf("a watch: %+v, %v", r, err)
	}
	answer := n.results.add(w.ids[2], 0)
	n.do(t, replica.Committed{Entries: w.some(w.at[0], w.at[3]), Held: true})
	n.do(t, replica.Released{Through: w.at[1]})
	next, err := stream.Next(ctx)
	if err != nil || len(next.Events) != 1 || string(next.Events[0].KV.Value) != "2" {
		t.Errorf("when one of two is released a watcher is told %+v, %v", next, err)
	}
	if len(answer) > 0 {
		t.Error("a read is answered before its place is released")
	}
	n.do(t, replica.Released{Through: w.at[3]})
	r := <-answer
	if r.err != nil || r.state == nil || r.state.index != w.at[2] {
		t.Errorf("a read with its place at %d is answered from %+v, %v", w.at[2], r.state, r.err)
	}
}
