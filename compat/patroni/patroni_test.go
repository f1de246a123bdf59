package patroni

import (
	"context"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// TestFailover plays what Patroni is for, over each kind of server.
func TestFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	for _, kind := range server.Kinds() {
		t.Run(string(kind), func(t *testing.T) { failover(t, kind) })
	}
}

func failover(t *testing.T, kind server.Kind) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c, err := server.Start(ctx, server.Config{Kind: kind, Members: 3, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	s := newSite(t, c.Endpoints())
	a, b := s.node(t, "a"), s.node(t, "b")
	defer func() {
		if t.Failed() {
			t.Logf("a's log ends with\n%s\nb's with\n%s", a.tail(), b.tail())
		}
	}()

	// Never are there two primaries: one of them is asked before and after the other.
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	looks := 0
	watch.Go(func() {
		for ; watching.Err() == nil; looks++ {
			if a.primary(watching) && b.primary(watching) && a.primary(watching) {
				t.Error("a and b are primaries at one time")
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	defer watch.Wait()
	defer stop()

	a.start(t)
	await(t, "the first node is the primary", 2*time.Minute, func() bool { return a.primary(ctx) })
	b.start(t)
	await(t, "the second node is its replica", 2*time.Minute, func() bool { return b.replica(ctx) })

	// A member dies, the one that leads: nothing happens to the database.
	i, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.Members[i].Kill()
	for end := time.Now().Add(25 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if b.primary(ctx) {
			t.Fatal("the primary has changed though only a member died")
		}
	}
	if !a.primary(ctx) {
		t.Fatal("the primary is lost though only a member died")
	}
	if err := c.Members[i].Start(ctx); err != nil {
		t.Fatal(err)
	}

	// The primary's machine dies: the other node takes over once the lease is over.
	began := time.Now()
	a.kill()
	await(t, "the second node is the primary", time.Minute, func() bool { return b.primary(ctx) })
	took := time.Since(began)
	a.start(t)
	await(t, "the first node is back as a replica", 2*time.Minute, func() bool { return a.replica(ctx) })

	// An operator moves the primary back.
	out, err := exec.CommandContext(ctx, "patronictl", "-c", a.config, "switchover", "--force", "--candidate", "a", "demo").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	await(t, "the first node is the primary again", time.Minute, func() bool { return a.primary(ctx) })
	await(t, "the second node is its replica again", 2*time.Minute, func() bool { return b.replica(ctx) })
	stop()
	watch.Wait()
	t.Logf("the second node took over %v after the first one's death; in %d looks there were never two primaries", took.Round(100*time.Millisecond), looks)
}

func await(t *testing.T, state string, atMost time.Duration, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(atMost); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if reached() {
			return
		}
	}
	t.Fatalf("not within %v: %s", atMost, state)
}
