package torture

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run this seed only")
	timeFlag = flag.Duration("time", 0, "time of attacks a seed; 0 is 12s with -short, else 60s")
	seeds    = flag.Int("seeds", 5, "seeds to run without -short")
)

func TestMain(m *testing.M) {
	if os.Getenv(HolderVariable) != "" {
		if err := Holder(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestTorture(t *testing.T) {
	for _, kind := range server.Kinds() {
		if testing.Short() && kind == server.Etcd && len(server.Kinds()) > 1 {
			continue // etcd's turn is in the long run
		}
		from, n, span := uint64(1), *seeds, time.Minute
		if testing.Short() {
			n, span = 1, 12*time.Second
		}
		if *seedFlag > 0 {
			from, n = *seedFlag, 1
		}
		if *timeFlag > 0 {
			span = *timeFlag
		}
		for seed := from; seed < from+uint64(n); seed++ {
			t.Run(fmt.Sprintf("%s/seed=%d", kind, seed), func(t *testing.T) {
				out, err := tortureOnce(t, kind, Config{Seed: seed, Time: span, Holders: 4})
				t.Log(out)
				complain := t.Errorf
				if kind == server.Etcd {
					complain = t.Logf // see doc.go: it is measured, not repaired here
				}
				if err != nil {
					complain("run again with -seed=%d -time=%v; the attacks: %v\n%v", seed, span, out.Attacks, err)
				}
				if out.Operations < 100 || out.Tenures < 2 || out.Ended < 2 || out.Kept < 2 {
					t.Error("too little happened to say anything")
				}
			})
		}
	}
}

// TestNaiveHoldersAreFound stops holders that never look at their deadline, and
// wants the judge to see two at once.
func TestNaiveHoldersAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("the judge's own tests run")
	}
	kind := server.Kinds()[0]
	for seed := uint64(1); seed <= 5; seed++ {
		ctx := t.Context()
		c := cluster(t, ctx, kind)
		h := newHolders(os.Args[0], holderConfig{Endpoints: c.Endpoints(), Seed: seed, Naive: true})
		for range 4 {
			if err := h.start(); err != nil {
				t.Fatal(err)
			}
		}
		n := nemesis{c, h}
		for i := range 4 {
			if err := n.attack(ctx, attack{Fault: stopHolder, Pick: i, Last: (holderTTL + 2) * time.Second}); err != nil {
				t.Fatal(err)
			}
		}
		_, err := exclusive(h.stop())
		c.Stop()
		if err != nil {
			t.Logf("found with seed %d: %v", seed, err)
			return
		}
	}
	t.Error("holders that ignore their deadline were not found")
}

func tortureOnce(t *testing.T, kind server.Kind, cfg Config) (Outcome, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := cluster(t, ctx, kind)
	defer c.Stop()
	cfg.Cluster, cfg.Holder = c, os.Args[0]
	return Run(ctx, cfg)
}

func cluster(t *testing.T, ctx context.Context, kind server.Kind) *server.Cluster {
	t.Helper()
	c, err := server.Start(ctx, server.Config{Kind: kind, Members: 3, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
