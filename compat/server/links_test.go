package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// TestLinks cuts a leader off in each way and wants what follows from that to follow.
func TestLinks(t *testing.T) {
	if !server.Has(server.Tenure) {
		t.Skip("links are for Tenure")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := server.Start(ctx, server.Config{Kind: server.Tenure, Members: 3, Dir: t.TempDir(), Links: true})
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
		if _, err := cli.Put(ctx, hold.name, "v"); err != nil {
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
