package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// crashing is a cluster on disks that forget what was not synced.
type crashing struct {
	*cluster
	disks []*waltest.Disk
	rand  *rand.Rand
	mu    sync.RWMutex // guards nodes
	open  sync.Map     // values, with their keys, of which a writer was not told whether they took effect
}

func newCrashing(t *testing.T, size int, seed uint64) *crashing {
	c := &crashing{rand: rand.New(rand.NewPCG(seed, 3))}
	c.cluster = newCluster(t, size, nimble, func(cfg *Config) {
		disk := waltest.NewDisk()
		c.disks = append(c.disks, disk)
		cfg.DataDir = "/data"
		cfg.MaxTailBytes = 64 << 10
		cfg.WAL = wal.Options{FS: disk.FS(), SegmentBytes: 16 << 10}
		cfg.Fail = func(error) {} // its disk is gone: that is the test
	})
	return c
}

// crash ends members, all at the same moment.
func (c *crashing) crash(members ...int) {
	for _, i := range members {
		c.disks[i].Crash(c.rand)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range members {
		c.kill(i)
	}
}

func (c *crashing) restart(members ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range members {
		c.cfgs[i].WAL.FS = c.disks[i].FS()
		c.start(i)
	}
}

func (c *crashing) node(i int) *Node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.nodes[i%len(c.nodes)]
}

// write counts up under a key until ctx ends, and returns what it was told.
func (c *crashing) write(ctx context.Context, key string, acked *atomic.Int64) {
	filler := make([]byte, 500)
	for i := int64(1); ctx.Err() == nil; {
		n := c.node(rand.IntN(len(c.nodes)))
		if n == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		_, err := n.Propose(ctx, &pb.PutRequest{Key: []byte(key), Value: fmt.Appendf(nil, "%d %s", i, filler)})
		if err == nil {
			acked.Store(i)
		} else {
			c.open.Store(fmt.Sprint(key, " ", i), true)
		}
		i++
	}
}

func testCrashes(t *testing.T, size, rounds int, seed uint64) {
	c := newCrashing(t, size, seed)
	ctx, cancel := context.WithCancel(t.Context())
	var acked [6]atomic.Int64
	var writers sync.WaitGroup
	for w := range acked {
		writers.Go(func() { c.write(ctx, fmt.Sprintf("w%d", w), &acked[w]) })
	}
	check := func() {
		var floor [len(acked)]int64
		for w := range acked {
			floor[w] = acked[w].Load()
		}
		for w := range acked {
			var got int64
			key := fmt.Sprintf("w%d", w)
			fmt.Sscan(c.get(c.rand.IntN(size), key), &got)
			// A message of a member that has died may come late, behind a write that was
			// begun since.
			if _, late := c.open.Load(fmt.Sprint(key, " ", got)); got < floor[w] && late {
				t.Logf("%s is %d: that came later than %d", key, got, floor[w])
			} else if got < floor[w] {
				t.Fatalf("w%d is %d, but %d was acknowledged", w, got, floor[w])
			}
		}
	}
	var terms uint64
	for range rounds {
		before := acked[0].Load()
		for began := time.Now(); acked[0].Load() < before+20; time.Sleep(time.Millisecond) {
			if time.Since(began) > 20*time.Second {
				t.Fatal("no writes for 20 s")
			}
		}
		members := c.rand.Perm(size)[:1]
		if c.rand.IntN(3) == 0 {
			members = c.rand.Perm(size) // the power fails
		}
		c.crash(members...)
		if len(members) < size && c.rand.IntN(2) == 0 {
			time.Sleep(time.Duration(c.rand.IntN(300)) * time.Millisecond) // the log goes on without it
		}
		c.restart(members...)
		check()
		st, _ := c.nodes[0].Status()
		if st.Term < terms {
			t.Fatalf("term %d after term %d", st.Term, terms)
		}
		terms = st.Term
	}
	cancel()
	writers.Wait()
	check()
}

func TestCrashesLoseNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	t.Run("one member", func(t *testing.T) { testCrashes(t, 1, 20, 1) })
	t.Run("three members", func(t *testing.T) { testCrashes(t, 3, 6, 2) })
}
