package node

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
)

// TestReadViewLooksAtTheOrderAgain changes the order while a read waits for its round. The state that
// is published by then is for readers of single keys, so the read asks for its keys.
func TestReadViewLooksAtTheOrderAgain(t *testing.T) {
	n := lonely(t, func(cfg *Config) { cfg.Now = stoppedClock() })
	read := make(chan error, 1)
	go func() {
		_, err := n.ReadView(t.Context(), &pb.RangeRequest{Key: []byte("k")})
		read <- err
	}()
	number := uint64(0)
	for end := time.Now().Add(10 * time.Second); number == 0; time.Sleep(time.Millisecond) {
		n.barriers.mu.Lock()
		if len(n.barriers.waiting) > 0 {
			number = n.barriers.waiting[0].number
		}
		n.barriers.mu.Unlock()
		if time.Now().After(end) {
			t.Fatal("the read asks for no round")
		}
	}
	n.driver.Do(func() {}) // the stepping goroutine has looked
	n.order.Add(1)
	n.barriers.confirmed(n, replica.ReadReady{Number: number})
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n.keyReads.expire(time.Now().Add(time.Hour), func(time.Time) keysResult { return keysResult{err: errDisk} })
		select {
		case err := <-read:
			if !errors.Is(err, errDisk) {
				t.Errorf("a read that set out in strict order is answered with %v in key order, without asking for its keys", err)
			}
			return
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the read is not answered")
		}
	}
}

// TestALeaseIsWithdrawn makes the replica give up leases of both orders before their time has run out.
func TestALeaseIsWithdrawn(t *testing.T) {
	n := lonely(t, func(cfg *Config) { cfg.Now = stoppedClock() })
	told := func(out replica.Outcome) { n.driver.Do(func() { n.handle([]replica.Outcome{out}) }) }
	told(replica.ReadLease{Until: 1 << 60, Index: 1})
	if _, ok := n.reads.leased(); !ok {
		t.Fatal("no read by a lease that lasts")
	}
	told(replica.ReadLease{})
	if _, ok := n.reads.leased(); ok {
		t.Error("reads by a lease that was withdrawn")
	}
	told(&replica.KeyLease{Until: 1 << 60})
	if n.keyLease() == nil {
		t.Fatal("no read by a lease of key order that lasts")
	}
	told((*replica.KeyLease)(nil))
	if n.keyLease() != nil {
		t.Error("reads by a lease of key order that was withdrawn")
	}
}

// TestReadersKnowTheOrderOfAState: before a state is published of which only single keys may be read,
// readers of the whole state know that. One of them looks all the time while the order changes.
func TestReadersKnowTheOrderOfAState(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes[c.leader()]
	// From here on nobody else puts an entry into the log: the member has told its name, and the
	// leader proposes no policy where there is one.
	c.until("its name is in the log", func() bool { return n.State().roster.Find(n.ID()).GetName() != "" })
	if err := n.SetReadPolicy(t.Context(), "off"); err != nil {
		t.Fatal(err)
	}
	c.put(0, "k", "v")
	type change struct {
		index uint64 // of its entry
		byKey bool
	}
	var next atomic.Pointer[change]
	stop := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			want := next.Load()
			if st := n.State(); want == nil || st.index < want.index {
				continue
			}
			// Another change is announced in next before it begins.
			if knows := byKey(n.order.Load()); next.Load() == want && knows != want.byKey {
				t.Errorf("the state at %d is published, and readers go by keys: %v, want %v", want.index, knows, want.byKey)
				return
			}
		}
	})
	for i := range 200 {
		want := &change{index: n.State().index + 1, byKey: i%2 == 0}
		next.Store(want)
		policy := "off"
		if want.byKey {
			policy = "all/key"
		}
		if err := n.SetReadPolicy(t.Context(), policy); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	looking.Wait()
}

// TestReadsWithoutATurnAreCounted: keys that are read under a lease are reported to the replica once,
// which uses them for its plans.
func TestReadsWithoutATurnAreCounted(t *testing.T) {
	n := lonely(t, func(cfg *Config) {
		cfg.Now, cfg.HeartbeatInterval, cfg.ElectionTimeout = stoppedClock(), 10*time.Second, 50*time.Second
	})
	keys := keyspan.Set{{Key: []byte("k")}}
	for _, counted := range []bool{false, true} {
		n.driver.Do(func() { n.handle([]replica.Outcome{&replica.KeyLease{Until: 1 << 60, Counted: counted}}) })
		if _, ok := n.readHere(keys); !ok {
			t.Fatal("no read under a lease that lasts")
		}
		if seen := n.reads.seen.take(); (len(seen) == 1) != counted {
			t.Errorf("%v was read, and is to be told of: %v, want %v", seen, len(seen) == 1, counted)
		}
		if again := n.reads.seen.take(); len(again) > 0 {
			t.Errorf("%v is told of again", again)
		}
	}
}

// TestLeasesOfBothOrdersEnd makes a member doubt its clock, and stop, while it has leases whose time
// has not run out.
func TestLeasesOfBothOrdersEnd(t *testing.T) {
	n := lonely(t, func(cfg *Config) { cfg.Now = stoppedClock() })
	last := func() (lease, keyLease bool) {
		_, lease = n.reads.leased()
		return lease, n.keyLease() != nil
	}
	grant := func() {
		n.handle([]replica.Outcome{replica.ReadLease{Until: 1 << 60, Index: 1}, &replica.KeyLease{Until: 1 << 60}})
		if lease, keyLease := last(); !lease || !keyLease {
			t.Errorf("leases were published that last, and there is one: %v, in key order: %v", lease, keyLease)
		}
	}
	n.driver.Do(func() {
		grant()
		n.clocks.note(clock.Oddity{Kind: clock.Set}, 0, 1)
		if lease, keyLease := last(); lease || keyLease {
			t.Errorf("the clock is in doubt, the replica has not heard of it, and there is a lease: %v, in key order: %v", lease, keyLease)
		}
		grant()
	})
	n.Stop()
	if lease, keyLease := last(); lease || keyLease {
		t.Errorf("a stopped member has a lease: %v, in key order: %v", lease, keyLease)
	}
}

// asking stops the replica while a read in key order is made, and passes each of its questions to do
// instead.
func asking(t *testing.T, n *Node, read func(), do func(id uint64)) {
	t.Helper()
	hold := make(chan struct{})
	n.driver.Gather(func() (replica.Input, bool) { <-hold; return nil, false })
	done := make(chan struct{})
	go func() { read(); close(done) }()
	for asked := false; !asked; runtime.Gosched() {
		if !byKey(n.order.Load()) { // the log says otherwise: an entry may have been applied meanwhile
			n.order.Add(1)
		}
		n.barriers.mu.Lock()
		strict := slices.Clone(n.barriers.waiting)
		n.barriers.mu.Unlock()
		for _, w := range strict { // the read set out before: it finds that the order has changed
			n.barriers.confirmed(n, replica.ReadReady{Number: w.number})
		}
		for i := range n.keyReads.shards {
			n.keyReads.shards[i].Lock()
			ids := slices.Collect(maps.Keys(n.keyReads.shards[i].byID))
			n.keyReads.shards[i].Unlock()
			for _, id := range ids {
				do(id)
				asked = true
			}
		}
	}
	close(hold)
	<-done
}

// A read that the replica cannot place otherwise gets a place in the log, and is answered from the
// state there.
func TestReadsByTheLog(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes[0]
	c.put(0, "k", "v")
	_, rounds, _ := n.ReadCounts()
	before := n.State().index
	asking(t, n, func() {
		view, err := n.ReadView(t.Context(), &pb.RangeRequest{Key: []byte("k")})
		if err != nil {
			t.Errorf("a read by the log: %v", err)
			return
		}
		if resp, err := view.Range(&pb.RangeRequest{Key: []byte("k")}); err != nil || len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "v" {
			t.Errorf("a read by the log: %v, %v", resp, err)
		}
	}, func(id uint64) { n.keyReads.answer(id, keysResult{ready: replica.KeysReady{ByLog: true}}) })
	if now := n.State().index; now <= before {
		t.Errorf("the log has no place for it: index %d before and %d after", before, now)
	}
	if _, now, _ := n.ReadCounts(); now != rounds+1 {
		t.Errorf("%d reads were counted for which the others were asked, want 1", now-rounds)
	}
}

// A read of keys ends with its caller's context, with the member, and with an error of the replica.
func TestReadsOfKeysThatFail(t *testing.T) {
	n := newCluster(t, 1).nodes[0]
	read := func(ctx context.Context, want error) func() {
		return func() {
			if _, err := n.ReadView(ctx, &pb.RangeRequest{Key: []byte("k")}); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
	}
	asking(t, n, read(t.Context(), errDisk), func(id uint64) { n.keyReads.answer(id, keysResult{err: errDisk}) })
	ctx, cancel := context.WithCancel(t.Context())
	asking(t, n, read(ctx, context.Canceled), func(uint64) { cancel() })
	for i := range n.keyReads.shards {
		n.keyReads.shards[i].Lock()
		if k := len(n.keyReads.shards[i].byID); k > 0 {
			t.Errorf("%d reads are kept, and nobody waits", k)
		}
		n.keyReads.shards[i].Unlock()
	}
	// Of one that waits for an index the same.
	ctx, cancel = context.WithCancel(t.Context())
	asking(t, n, read(ctx, context.Canceled), func(id uint64) {
		n.keyReads.answer(id, keysResult{ready: replica.KeysReady{Index: 1 << 50}})
		cancel()
	})
	asking(t, n, read(t.Context(), errStopped), func(uint64) { n.halt() })
}

// Keys that were read are reported to the replica at once when there are many.
func TestManyKeysThatWereReadAreTold(t *testing.T) {
	n := newCluster(t, 1).nodes[0]
	var s keysSeen
	one := replica.AppendReads(nil, &pb.RangeRequest{Key: []byte("k")})
	for i := range maxKeysSeen {
		if len(s.keys) != i {
			t.Fatalf("after %d keys %d wait to be told", i, len(s.keys))
		}
		s.add(n, one)
	}
	if len(s.keys) != 0 || cap(s.keys) != 0 {
		t.Errorf("of %d keys %d still wait to be told", maxKeysSeen, len(s.keys))
	}
}
