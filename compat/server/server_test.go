package server_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// TestCluster walks one three-member cluster of each kind through what the
// other parts rely on.
func TestCluster(t *testing.T) {
	for _, kind := range server.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c, err := server.Start(ctx, server.Config{Kind: kind, Members: 3, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Stop()
			cli, err := c.Client()
			if err != nil {
				t.Fatal(err)
			}
			defer cli.Close()
			if _, err := cli.Put(ctx, "k", "v"); err != nil {
				t.Fatal(err)
			}

			old, err := c.Leader(ctx)
			if err != nil {
				t.Fatal(err)
			}
			c.Members[old].Kill()
			if c.Members[old].Running() {
				t.Fatal("a killed member runs")
			}
			next, err := c.Leader(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if next == old {
				t.Fatalf("member %d leads although it is dead", old)
			}
			if err := c.Members[old].Start(ctx); err != nil {
				t.Fatal(err)
			}

			c.Members[next].Pause()
			if after, err := c.Leader(ctx); err != nil || after == next {
				t.Fatalf("leader after pausing %d: %d, %v", next, after, err)
			}
			c.Members[next].Resume()

			for _, m := range c.Members {
				if !m.Terminate() {
					t.Errorf("%s did not end on SIGTERM", m.Name)
				}
			}
			if err := c.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			got, err := cli.Get(ctx, "k")
			if err != nil || got.Count != 1 || string(got.Kvs[0].Value) != "v" {
				t.Fatalf("k after a restart of all: %v, %v", got, err)
			}
			if runtime.GOOS == "linux" && (c.Members[0].Memory() < 1<<20 || c.Members[0].CPU() <= 0) {
				t.Errorf("memory %d, CPU %v", c.Members[0].Memory(), c.Members[0].CPU())
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	_, err := server.Start(t.Context(), server.Config{
		Kind: server.Etcd, Dir: t.TempDir(), Args: []string{"--no-such-flag"},
	})
	if err == nil {
		t.Fatal("a server with an unknown flag started")
	}
}
