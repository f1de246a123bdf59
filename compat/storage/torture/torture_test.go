package torture

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run this seed only")
	timeFlag = flag.Duration("time", 0, "time of attacks a seed; 0 is 12s with -short, else 45s")
	dirFlag  = flag.String("dir", "", "leave all files in a new directory below this one")
	seeds    = flag.Int("seeds", 9, "seeds to run without -short")
)

func TestMain(m *testing.M) {
	if os.Getenv(Variable) != "" {
		if err := Child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// config is what a seed is run with: one directory, three, or a device.
func config(t *testing.T, seed uint64) Config {
	t.Helper()
	dir := t.TempDir()
	if *dirFlag != "" {
		var err error
		if dir, err = os.MkdirTemp(*dirFlag, fmt.Sprintf("seed%d-", seed)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{
		Dir: dir, Seed: seed, Time: 45 * time.Second, Stores: 1, Self: os.Args[0],
		Term: 1500 * time.Millisecond, Delay: 25 * time.Millisecond, Children: 3, Guardians: 2,
	}
	switch seed % 3 {
	case 2:
		cfg.Stores = 3
	case 0:
		cfg.Stores = 0
	}
	if testing.Short() {
		cfg.Time = 12 * time.Second
	}
	if *timeFlag > 0 {
		cfg.Time = *timeFlag
	}
	var err error
	if cfg.Tenure, err = server.Binary(server.Tenure); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestTorture(t *testing.T) {
	from, n := uint64(1), *seeds
	if testing.Short() {
		n = 1
	}
	if *seedFlag > 0 {
		from, n = *seedFlag, 1
	}
	for seed := from; seed < from+uint64(n); seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			cfg := config(t, seed)
			out, err := once(t, cfg)
			t.Log(out)
			if err != nil {
				t.Errorf("run again with -seed=%d -time=%v; %v\nthe attacks:\n%s\nthe holders said:\n%s", seed, cfg.Time, err, out.deeds(), tail(cfg.stderr()))
			}
			if out.Tenures < 10 {
				t.Error("too little happened to say anything")
			}
		})
	}
}

// TestNaiveHoldersAreFound stops holders that never look at their deadline, and wants the
// judge to see two at once.
func TestNaiveHoldersAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("the judge's own tests run")
	}
	for seed := uint64(1); seed <= 5; seed++ {
		cfg := config(t, seed)
		cfg.Naive, cfg.Guardians = true, 0
		for i := range 4 {
			cfg.Attacks = append(cfg.Attacks, attack{fault: hangChild, pick: i, last: 3 * time.Second})
		}
		_, err := once(t, cfg)
		if err != nil && strings.Contains(err.Error(), "TWO HOLDERS") {
			return
		}
	}
	t.Error("holders that ignore their deadline were not found")
}

func once(t *testing.T, cfg Config) (Outcome, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	return Run(ctx, cfg)
}

func tail(s string) string { return s[max(0, len(s)-4000):] }
