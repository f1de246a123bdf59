package torture

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
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
				out, err := tortureOnce(t, server.Config{Kind: kind}, Config{Seed: seed, Time: span, Holders: 4})
				t.Log(out)
				complain := t.Errorf
				if kind == server.Etcd {
					complain = t.Logf // see doc.go: it is measured, not repaired here
				}
				if err != nil {
					complain("run again with -seed=%d -time=%v; the attacks: %v\n%v", seed, span, out.Attacks, err)
				}
				wantsEnough(t, out)
			})
		}
	}
}

func wantsEnough(t *testing.T, out Outcome) {
	t.Helper()
	if out.Operations < 100 || out.Tenures < 2 || out.Ended < 2 || out.Kept < 2 {
		t.Error("too little happened to say anything")
	}
}

// TestUpgrade has three members of an older version upgraded to this one, one after the other,
// under the same attacks: old leaders with new followers, and new ones with old. Read leases are in
// the order of the log, by which the audit goes.
func TestUpgrade(t *testing.T) {
	older := os.Getenv("TENURE_COMPAT_OLDER")
	if older == "" {
		t.Skip("`make upgrade` builds an older version, and names it in TENURE_COMPAT_OLDER")
	}
	newer, err := server.Binary(server.Tenure)
	if err != nil {
		t.Fatal(err)
	}
	from, n, span := uint64(1), *seeds, max(*timeFlag, time.Minute)
	if *seedFlag > 0 {
		from, n = *seedFlag, 1
	}
	for seed := from; seed < from+uint64(n); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			of := server.Config{Kind: server.Tenure, Binary: older, Args: []string{"--read-lease=" + []string{"off", "all", "leader"}[seed%3]}}
			out, err := tortureOnce(t, of, Config{Seed: seed, Time: span, Holders: 4, Newer: newer})
			t.Log(out)
			if err != nil {
				t.Errorf("run again with -seed=%d -time=%v; the attacks: %v\n%v", seed, span, out.Attacks, err)
			}
			wantsEnough(t, out)
		})
	}
}

// TestUpgradesAreSpread wants each member upgraded once, with attacks before, between and after.
func TestUpgradesAreSpread(t *testing.T) {
	for seed := range uint64(20) {
		attacks := schedule(seed, time.Minute)
		all := upgrades(seed, attacks, 3)
		var upgraded, others []int
		for i, a := range all {
			if a.Fault == upgrade {
				upgraded = append(upgraded, a.Pick)
				if i == 0 || i == len(all)-1 || all[i-1].Fault == upgrade {
					t.Errorf("seed %d: attack %d of %d is an upgrade, and no other attack comes before or after it", seed, i+1, len(all))
				}
			} else {
				others = append(others, i)
			}
		}
		if slices.Sort(upgraded); !slices.Equal(upgraded, []int{0, 1, 2}) || len(others) != len(attacks) {
			t.Errorf("seed %d: members %v are upgraded among %d attacks, want each of three once among %d", seed, upgraded, len(others), len(attacks))
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
		c := cluster(t, ctx, server.Config{Kind: kind})
		h := newHolders(os.Args[0], holderConfig{Endpoints: c.Endpoints(), Seed: seed, Naive: true})
		for range 4 {
			if err := h.start(); err != nil {
				t.Fatal(err)
			}
		}
		n := nemesis{cluster: c, holders: h}
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

func tortureOnce(t *testing.T, of server.Config, cfg Config) (Outcome, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := cluster(t, ctx, of)
	defer c.Stop()
	cfg.Cluster, cfg.Holder = c, os.Args[0]
	return Run(ctx, cfg)
}

func cluster(t *testing.T, ctx context.Context, of server.Config) *server.Cluster {
	t.Helper()
	of.Members, of.Dir = 3, t.TempDir()
	c, err := server.Start(ctx, of)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
