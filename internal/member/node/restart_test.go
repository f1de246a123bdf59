package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// heldUp is a cluster of three in key order. Its member h is dead and held the key "held". A put of
// that key is committed and not released. The snapshots of the others were made after it, and h's
// lease lasts for seconds from then on.
type heldUp struct {
	*cluster
	tempo          *tempo
	lead, other, h int
	revision       int64  // that was published when all was well
	at             uint64 // index by which the put of "held" is applied
}

func newHeldUp(t *testing.T) *heldUp {
	tempo := newTempo()
	c := &heldUp{tempo: tempo, cluster: newCluster(t, 3, nimble, func(cfg *Config) {
		cfg.Now = tempo.now
		cfg.ReadLease, cfg.ReadLeaseTTL, cfg.MaxTailBytes = "all/key", quorumlease.MaxTTL, 256<<10
	})}
	c.lead = c.leader()
	c.other, c.h = (c.lead+1)%3, (c.lead+2)%3
	text := fmt.Sprintf("key:held = m%d,m%d; default = m%d", c.lead, c.h, c.lead)
	if err := patiently(leaderless, func(ctx context.Context) error { return c.nodes[c.lead].SetReadCells(ctx, text) }); err != nil {
		t.Fatal(err)
	}
	c.put(c.lead, "held", "old")
	c.local(c.h, "held", true)
	for _, i := range []int{c.lead, c.other} {
		c.until("all have told their names", func() bool { return len(c.named(i)) == 3 })
	}
	tempo.slow(16) // so that its lease outlasts what follows on any machine
	c.kill(c.h)
	c.revision = c.put(c.lead, "before", "x")
	c.until("that is published", func() bool {
		return c.nodes[c.lead].View().Revision() >= c.revision && c.nodes[c.other].View().Revision() >= c.revision
	})
	go func() { // until the member ends
		_, _ = c.nodes[c.lead].Propose(context.Background(), &pb.PutRequest{Key: []byte("held"), Value: []byte("new")})
	}()
	c.until("the put is applied", func() bool {
		resp, err := c.nodes[c.lead].applied().view.Range(&pb.RangeRequest{Key: []byte("held")})
		return err == nil && string(resp.Kvs[0].Value) == "new"
	})
	c.at = c.nodes[c.lead].appliedIndex()
	value := string(make([]byte, 8192))
	for i := 0; c.newest(c.lead) <= c.at || c.newest(c.other) <= c.at; i++ {
		c.put(c.lead, fmt.Sprintf("k%d", i%50), fmt.Sprint(i, value))
	}
	if c.nodes[c.lead].State().index >= c.at {
		t.Fatal("what was held is released before its holder's lease has ended")
	}
	return c
}

// tempo is the clock of all members of a test, which can go slower than time does.
type tempo struct {
	mu     sync.Mutex
	origin machine.Mono // by the host's clock, when the members' clocks showed at
	at     machine.Mono
	by     int64
}

func newTempo() *tempo {
	now := hostNow().Mono
	return &tempo{origin: now, at: now, by: 1}
}

func (c *tempo) now() machine.Now {
	c.mu.Lock()
	defer c.mu.Unlock()
	return machine.Now{Mono: c.at + (hostNow().Mono-c.origin)/machine.Mono(c.by), Wall: hostNow().Wall}
}

// slow makes the clocks run slower by a factor.
func (c *tempo) slow(by int64) {
	at := c.now().Mono
	c.mu.Lock()
	defer c.mu.Unlock()
	c.origin, c.at, c.by = hostNow().Mono, at, by
}

func (c *cluster) until(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("in 30 s not: %s", what)
		}
	}
}

// newest is the index of a member's newest snapshot.
func (c *cluster) newest(i int) uint64 {
	c.nodes[i].storage.mu.Lock()
	defer c.nodes[i].storage.mu.Unlock()
	return c.nodes[i].storage.newest
}

func (c *cluster) named(i int) (names []string) {
	for _, m := range c.nodes[i].Members() {
		if m.Name != "" {
			names = append(names, m.Name)
		}
	}
	return names
}

// killUnaware kills members whose disks do not know that the held entry is released.
func (c *heldUp) killUnaware(list ...int) {
	c.t.Helper()
	for _, i := range list {
		s := c.nodes[i].storage
		c.kill(i)
		if s.released >= s.newest {
			c.t.Fatal("what was held is released, by its disk, before its holder's lease has ended")
		}
	}
}

// wantNothingShown checks that a member that does not know the released index answers no reads, and knows
// the other members. If the member knows the index by the end, this checks nothing.
func (c *heldUp) wantNothingShown(i int) {
	c.t.Helper()
	n := c.nodes[i]
	var wrong []string
	is := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	defer func() {
		if now := n.View().Revision(); now > 0 {
			c.t.Logf("member %d shows revision %d by now", i, now)
			return
		}
		for _, what := range wrong {
			c.t.Errorf("member %d: %s", i, what)
		}
	}()
	if _, err := n.View().Range(&pb.RangeRequest{Key: []byte("before")}); !errors.Is(err, kv.ErrNoState) {
		is("a serializable read: %v, want %v", err, kv.ErrNoState)
	}
	select {
	case <-n.Shown():
		is("it says that it shows something")
	default:
	}
	ws := n.Watches().NewStream(0)
	defer ws.Close()
	if err := ws.Create(c.t.Context(), &pb.WatchCreateRequest{Key: []byte("before")}); !errors.Is(err, kv.ErrNoState) {
		is("a watch from now: %v, want %v", err, kv.ErrNoState)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.Barrier(ctx); err == nil {
		is("a barrier while there is nothing to read")
	}
	if view, err := n.ReadView(ctx, &pb.RangeRequest{Key: []byte("before")}); err == nil {
		is("a read of revision %d while there is nothing to read", view.Revision())
	}
	if names := c.named(i); len(names) != 3 {
		is("the members are %q, want three", names)
	}
	if n.Stats().Bytes == 0 {
		is("it takes no memory")
	}
}

// wantRecovery starts the holder, and checks that all members show the entry that was held.
func (c *heldUp) wantRecovery() {
	c.t.Helper()
	c.tempo.slow(1)
	c.start(c.h)
	c.leader()
	for i, n := range c.nodes {
		// A read would wait for that, too, but for no longer than a request may take.
		c.until("what was held is released", func() bool { return n.State().index >= c.at })
		c.until("it shows a state", func() bool { return n.View().Revision() > 0 })
		<-n.Shown()
		if now := n.View().Revision(); now < c.revision && i != c.h {
			c.t.Errorf("member %d: it shows revision %d after %d", i, now, c.revision)
		}
		for key, want := range map[string]string{"held": "new", "before": "x"} {
			if got := c.get(i, key); got != want {
				c.t.Errorf("member %d: %s is %q, want %q", i, key, got, want)
			}
		}
		ws := n.Watches().NewStream(0)
		if err := ws.Create(c.t.Context(), &pb.WatchCreateRequest{Key: []byte("before")}); err != nil {
			c.t.Errorf("member %d: a watch from now: %v", i, err)
		} else if r, err := ws.Next(c.t.Context()); err != nil || !r.Created || r.Revision < c.revision {
			c.t.Errorf("member %d: a watch from now: %+v, %v", i, r, err)
		}
		ws.Close()
	}
	c.put(c.other, "after", "y")
}

// One member restarts while a write is held up. The other leads on with it.
func TestOneRestartsWhileAKeyIsHeld(t *testing.T) {
	t.Parallel()
	c := newHeldUp(t)
	c.killUnaware(c.other)
	c.start(c.other)
	c.put(c.leader(), "k1", "y") // takes a majority
	c.wantNothingShown(c.other)
	c.wantRecovery()
}

// Two members restart, and the third is dead. They have to find each other through their applied
// states, for only a leader can tell what is released.
func TestTwoRestartWhileAKeyIsHeld(t *testing.T) {
	t.Parallel()
	c := newHeldUp(t)
	c.killUnaware(c.lead, c.other)
	c.start(c.lead)
	c.start(c.other)
	c.leader()
	c.wantNothingShown(c.lead)
	c.wantNothingShown(c.other)
	c.wantRecovery()
}

func TestAllRestartWhileAKeyIsHeld(t *testing.T) {
	t.Parallel()
	c := newHeldUp(t)
	c.killUnaware(c.lead, c.other)
	c.start(c.other)
	c.wantNothingShown(c.other) // nor will it, alone
	if now := c.nodes[c.other].View().Revision(); now != 0 {
		t.Errorf("alone it shows revision %d", now)
	}
	c.start(c.lead)
	c.wantRecovery()
}

// When all entries are released, the log says so, although the snapshots do not. A member that
// restarts without contact to others shows all released entries.
func TestRestartAfterAllIsReleased(t *testing.T) {
	t.Parallel()
	c := newHeldUp(t)
	c.killUnaware(c.other)
	c.cfgs[c.other].MaxTailBytes = 0 // the default: it makes no snapshot that knows more
	c.start(c.other)
	c.wantRecovery()
	snapshot := c.newest(c.other)
	for i := 0; ; i++ { // until it is on disk
		c.put(c.h, "k", fmt.Sprint(i))
		s := c.nodes[c.other].storage
		c.kill(c.other)
		if s.newest != snapshot {
			t.Fatalf("there is a newer snapshot at %d, not only that at %d", s.newest, snapshot)
		}
		if s.released >= snapshot {
			break
		}
		c.start(c.other)
	}
	c.kill(c.lead)
	c.kill(c.h)
	c.start(c.other)
	st := c.nodes[c.other].State()
	if st.index < snapshot || st.view.Revision() < c.revision {
		t.Errorf("it shows index %d, revision %d; what was released is %d, and revision %d was published", st.index, st.view.Revision(), snapshot, c.revision)
	}
}
