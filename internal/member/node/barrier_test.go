package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/driver"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestBarriersAreLinearizable reads at all members while others write and leadership moves. A write
// that was acknowledged before a barrier is visible after it. A later read never shows less than an
// earlier one.
func TestBarriersAreLinearizable(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.leader()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var acked, seen [4]atomic.Int64
	var reads, writes atomic.Int64
	enough := func() bool { return writes.Load() >= 20 && reads.Load() >= 20 }
	all.Go(func() {
		defer cancel()
		for began := time.Now(); time.Since(began) < 1200*time.Millisecond || !enough() && time.Since(began) < 20*time.Second; {
			time.Sleep(20 * time.Millisecond)
		}
	})
	for w := range acked {
		all.Go(func() {
			for i := int64(1); ctx.Err() == nil; i++ {
				n := c.nodes[rand.IntN(3)]
				if _, err := n.Propose(ctx, &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", w), Value: fmt.Append(nil, i)}); err == nil {
					acked[w].Store(i)
					writes.Add(1)
				}
			}
		})
	}
	for r := range 12 {
		all.Go(func() {
			n := c.nodes[r%3]
			for ctx.Err() == nil {
				w := rand.IntN(len(acked))
				floor := max(acked[w].Load(), seen[w].Load())
				if n.Barrier(ctx) != nil {
					continue
				}
				resp, err := n.View().Range(&pb.RangeRequest{Key: fmt.Appendf(nil, "k%d", w)})
				if err != nil {
					t.Error(err)
					return
				}
				var got int64
				if len(resp.Kvs) > 0 {
					fmt.Sscan(string(resp.Kvs[0].Value), &got)
				}
				if got < floor {
					t.Errorf("a linearizable read at member %d gave %d for k%d, after %d was acknowledged or read", r%3, got, w, floor)
					return
				}
				for old := seen[w].Load(); old < got && !seen[w].CompareAndSwap(old, got); old = seen[w].Load() {
				}
				reads.Add(1)
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(300 * time.Millisecond)
			for _, n := range c.nodes {
				if leader, _, _ := n.Leader(); leader == n.ID() {
					n.HandOver(ctx)
				}
			}
		}
	})
	all.Wait()
	t.Logf("%d writes, %d linearizable reads", writes.Load(), reads.Load())
	if !enough() {
		t.Error("hardly anything was done")
	}
}

// TestBarriersDoNotStall places barriers at every moment of a publication, with no later publication
// that could complete them.
func TestBarriersDoNotStall(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes[0]
	var worst time.Duration
	rounds := 0
	for began := time.Now(); time.Since(began) < time.Second; rounds++ {
		var all sync.WaitGroup
		all.Go(func() { c.put(0, "k", "v") })
		start := time.Now()
		for range 4 {
			all.Go(func() {
				for range 3 {
					if err := n.Barrier(t.Context()); err != nil {
						t.Errorf("barrier: %v", err)
					}
				}
			})
		}
		all.Wait()
		worst = max(worst, time.Since(start))
	}
	t.Logf("%d rounds, the longest %v", rounds, worst)
	if worst > 2*time.Second {
		t.Errorf("a barrier took %v", worst)
	}
}

// TestConfirmedWhilePublished makes the leader's confirmation and the publication that it refers to
// coincide.
func TestConfirmedWhilePublished(t *testing.T) {
	const rounds = 50_000
	n := &Node{}
	n.state.Store(&state{})
	var ready, done atomic.Uint64 // rounds
	go func() {
		for i := uint64(1); i <= rounds; i++ {
			for ready.Load() < i {
				runtime.Gosched()
			}
			n.barriers.confirmed(n, replica.ReadReady{Number: i, Index: i})
			done.Store(i)
		}
	}()
	for i := uint64(1); i <= rounds; i++ {
		b := &barrier{number: i, done: make(chan struct{})}
		n.barriers.waiting = append(n.barriers.waiting, b)
		ready.Store(i)
		n.state.Store(&state{index: i})
		n.barriers.published(i)
		for done.Load() < i {
			runtime.Gosched()
		}
		if !ended(b) {
			t.Errorf("barrier %d is never released", i)
			close(b.done)
		}
	}
}

func ended(b *barrier) bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

func TestBarrierStates(t *testing.T) {
	n := lonely(t, func(cfg *Config) { cfg.Now = stoppedClock() })
	bs := &n.barriers
	publish := func(index uint64) {
		n.state.Store(&state{index: index})
		bs.published(index)
	}
	join := func() *barrier {
		b := bs.join(n)
		if again := bs.join(n); again != b {
			t.Error("a second reader did not join")
		}
		n.driver.Do(func() {}) // the stepping goroutine has looked
		return b
	}
	publish(10)
	first, second, third := join(), join(), join()
	if first == second || second == third {
		t.Fatal("a reader joined a barrier that had set out")
	}
	if first.number+1 != second.number || second.number+1 != third.number {
		t.Errorf("numbers %d, %d, %d", first.number, second.number, third.number)
	}
	bs.confirmed(n, replica.ReadReady{Number: first.number, Index: 9})
	if !ended(first) || ended(second) {
		t.Errorf("confirmed at an index that is published: ended %v and %v, want only the first", ended(first), ended(second))
	}
	bs.confirmed(n, replica.ReadReady{Number: second.number, Index: 12})
	publish(11)
	if ended(second) {
		t.Error("ended before its index was published")
	}
	publish(12)
	if !ended(second) || second.err != nil || ended(third) {
		t.Errorf("published: ended %v with %v, the third %v", ended(second), second.err, ended(third))
	}
	// An expiry ends what the leader has not confirmed and what is not published.
	fourth := join()
	bs.confirmed(n, replica.ReadReady{Number: third.number, Index: 99})
	bs.expire(time.Now().Add(time.Hour), func(time.Time) error { return errDisk })
	for _, b := range []*barrier{third, fourth} {
		if !ended(b) || !errors.Is(b.err, errDisk) {
			t.Errorf("barrier %d after its expiry: ended %v with %v", b.number, ended(b), b.err)
		}
	}
	publish(100)
	bs.confirmed(n, replica.ReadReady{Number: fourth.number, Index: 50}) // too late
	if fifth := join(); ended(fifth) || len(bs.waiting) != 1 || len(bs.indexed) != 0 {
		t.Errorf("afterwards %d wait and %d have an index, want one new", len(bs.waiting), len(bs.indexed))
	}
	bs.expire(time.Now().Add(time.Hour), func(time.Time) error { return errDisk })
}

// stoppedClock makes a member that does nothing by itself.
func stoppedClock() func() machine.Now {
	return func() machine.Now { return machine.Now{Mono: 1, Wall: 1} }
}

// TestPublishedBeforeAcknowledged delays an acknowledgment, and checks that its write is already
// published.
func TestPublishedBeforeAcknowledged(t *testing.T) {
	c := newCluster(t, 1)
	n := c.nodes[0]
	if err := n.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	const id = 1 << 60
	body, err := replica.EncodeRequest(&pb.PutRequest{Key: []byte("k"), Value: []byte("v")})
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan result) // nobody receives for now
	n.results.shards[id%16].Lock()
	n.results.shards[id%16].byID[id] = wait[result]{answer: answer, since: time.Now()}
	n.results.shards[id%16].Unlock()
	n.driver.Step(replica.Propose{ID: id, Body: body})
	for began := time.Now(); n.View().Revision() < 2; time.Sleep(time.Millisecond) {
		if time.Since(began) > 5*time.Second {
			t.Error("the state waits for the acknowledgment to be taken")
			break
		}
	}
	if r := <-answer; r.err != nil {
		t.Error(r.err)
	}
}

// A new caller does not share the timeout of earlier ones: a barrier that still accepts readers does
// not expire.
func TestAnOpenBarrierDoesNotExpire(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	closed := &barrier{number: 1, since: long, done: make(chan struct{})}
	young := &barrier{number: 2, since: long.Add(2 * time.Minute), done: make(chan struct{})}
	open := &barrier{number: 3, since: long, done: make(chan struct{})}
	bs := &barriers{number: 3, open: open, waiting: []*barrier{closed, young, open}}
	var since []time.Time
	expire := func(before time.Time) {
		bs.expire(before, func(at time.Time) error {
			if ended(bs.waiting[0]) {
				t.Error("a caller is let go before it can see why")
			}
			since = append(since, at)
			return errDisk
		})
	}
	expire(long.Add(time.Minute))
	if !ended(closed) || ended(young) || ended(open) {
		t.Errorf("ended: %v, %v and %v, want only the first, which waits for long", ended(closed), ended(young), ended(open))
	}
	if expire(time.Now()); !ended(young) || ended(open) {
		t.Errorf("ended: %v and %v, want the second but not the third, which still takes readers", ended(young), ended(open))
	}
	bs.close()
	if expire(time.Now()); !ended(open) || len(bs.waiting) > 0 {
		t.Error("one that takes no more readers does not expire")
	}
	if want := []time.Time{long, long.Add(2 * time.Minute), long}; !slices.Equal(since, want) {
		t.Errorf("they are told to have waited since %v, want %v", since, want)
	}
}

// readTimes is a replica that notes when it is told of reads.
type readTimes struct {
	listener
	reads []machine.Mono
}

func (r *readTimes) Step(now machine.Now, input replica.Input) {
	if _, is := input.(replica.Read); is {
		r.reads = append(r.reads, now.Mono)
	}
}

// Readers may join a round until the replica is told of it, so the replica is told with a reading of the
// clock from behind that moment. With an earlier one a leader that has lost its lease in between would
// answer.
func TestARoundIsTimedWhenItsLastReaderHasJoined(t *testing.T) {
	n, _ := parted(t)
	var readings machine.Mono
	open := map[machine.Mono]bool{} // at each reading, whether readers could join
	r := &readTimes{}
	n.driver = driver.Start(driver.Config[replica.Input, replica.Outcome]{Machine: r, Send: n.send, Outcome: n.handle, Fail: func(err error) { t.Error(err) },
		Now: func() machine.Now {
			n.barriers.mu.Lock()
			defer n.barriers.mu.Unlock()
			readings++
			open[readings] = n.barriers.open != nil
			return machine.Now{Mono: readings}
		}})
	defer n.driver.Stop()
	n.barriers.join(n)
	n.driver.Do(func() {
		if len(r.reads) != 1 || open[r.reads[0]] {
			t.Errorf("the replica is told of rounds at the readings %v of the clock; at the first of them readers could still join: %v", r.reads, open)
		}
	})
}
