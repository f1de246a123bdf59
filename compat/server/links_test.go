package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// TestLinks cuts a leader off in each way and wants what follows from that to follow.
func TestLinks(t *testing.T) {
	for _, kind := range server.Kinds() {
		t.Run(string(kind), func(t *testing.T) { testLinks(t, kind) })
	}
}

func testLinks(t *testing.T, kind server.Kind) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := server.Start(ctx, server.Config{Kind: kind, Members: 3, Dir: t.TempDir(), Links: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, hold := range []struct {
		name    string
		in, out bool
	}{{"mute", false, true}, {"deaf", true, false}, {"alone", true, true}} {
		old := leader(t, ctx, c)
		for other := range c.Members {
			if other == old {
				continue
			}
			if hold.out {
				c.Links.Hold(old, other)
			}
			if hold.in {
				c.Links.Hold(other, old)
			}
		}
		cli, err := c.Client((old+1)%3, (old+2)%3)
		if err != nil {
			t.Fatal(err)
		}
		_, err = cli.Put(ctx, hold.name, "v")
		for kind == server.Etcd && err != nil && ctx.Err() == nil { // it loses what the old leader got
			_, err = cli.Put(ctx, hold.name, "v")
		}
		if err != nil {
			t.Errorf("the leader is %s; a put at the others: %v", hold.name, err)
		}
		cli.Close()
		for elected := old; elected == old; {
			// The old leader may not know yet.
			for i, m := range c.Members {
				if st, err := m.Status(ctx); i != old && err == nil && st.Leader == st.Header.MemberId {
					elected = i
				}
			}
			if ctx.Err() != nil {
				t.Fatalf("the leader is %s, and nobody else was elected", hold.name)
			}
		}
		for other := range c.Members {
			c.Links.Release(old, other)
			c.Links.Release(other, old)
		}
		cli, err = c.Client(old)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := cli.Get(ctx, hold.name); err != nil || got.Count != 1 {
			t.Errorf("the old leader was %s; a get there afterwards: %v, %v", hold.name, got, err)
		}
		cli.Close()
	}
}

func leader(t *testing.T, ctx context.Context, c *server.Cluster) int {
	t.Helper()
	i, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestDelays delays all links of a cluster, and wants operations over them to take longer:
// a read goes from a follower to the leader and back, and a write takes the leader's round
// besides.
func TestDelays(t *testing.T) {
	const oneWay = 40 * time.Millisecond
	for _, kind := range server.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c, err := server.Start(ctx, server.Config{Kind: kind, Members: 3, Dir: t.TempDir(), Links: true})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for from := range c.Members {
				for to := range c.Members {
					c.Links.Delay(from, to, oneWay)
				}
			}
			at := (leader(t, ctx, c) + 1) % len(c.Members)
			cli, err := c.Client(at)
			if err != nil {
				t.Fatal(err)
			}
			defer cli.Close()
			for range 5 {
				begun := time.Now()
				if _, err := cli.Put(ctx, "k", "v"); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took < 4*oneWay {
					t.Errorf("a put at a follower took %v, want %v at least", took, 4*oneWay)
				}
				begun = time.Now()
				if _, err := cli.Get(ctx, "k"); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took < 2*oneWay {
					t.Errorf("a get at a follower took %v, want %v at least", took, 2*oneWay)
				}
			}
		})
	}
}
