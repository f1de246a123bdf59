package diff

import (
	"context"
	"errors"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"google.golang.org/grpc"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed only")
	stepsFlag = flag.Int("steps", 0, "steps a seed; 0 is 400 with -short, else 3000")
	seedsFlag = flag.Int("seeds", 0, "seeds to run; 0 is 3 with -short, else 20")
	members   = flag.Int("members", 0, "members of the tested server; 0 is 3 for two seeds of three, else 1")
	stock     = flag.Int("stock", 0, "members of the etcd that it is held against; 0 is 3 for every third seed, else 1")
	shrink    = flag.Int("shrink", 60, "tries to shorten a failing list, about a second each")
)

// TestDifferential holds Tenure against etcd.
func TestDifferential(t *testing.T) {
	subject := server.Tenure
	if !server.Has(server.Tenure) {
		subject = server.Etcd // checks the test itself: two etcds must agree
	}
	steps, seeds := 3000, 20
	if testing.Short() {
		steps, seeds = 400, 3
	}
	if *stepsFlag > 0 {
		steps = *stepsFlag
	}
	if *seedsFlag > 0 {
		seeds = *seedsFlag
	}
	from := uint64(1)
	if *seedFlag > 0 {
		from, seeds = *seedFlag, 1
	}
	for seed := from; seed < from+uint64(seeds); seed++ {
		all := Generate(seed, steps)
		n, m := sizes(seed)
		err := run(t, subject, n, m, all)
		var mismatch *Mismatch
		if errors.As(err, &mismatch) && *shrink > 0 {
			short := Shrink(all[:mismatch.Index+1], *shrink, func(fewer []Step) bool {
				var again *Mismatch
				return errors.As(run(t, subject, n, m, fewer), &again)
			})
			if again := run(t, subject, n, m, short); again != nil {
				err = again
			}
			t.Logf("shortened from %d steps to %d", mismatch.Index+1, len(short))
		}
		if err != nil {
			t.Fatalf("seed %d (run again with -seed=%d -steps=%d -members=%d -stock=%d):\n%v", seed, seed, steps, n, m, err)
		}
	}
}

// patient keeps members from electing another leader on a busy machine, as
// answers differ then.
const patient = "--election-timeout=3000"

// sizes are how many members the subject and the etcd of a seed have: one and one, three and three, or three and one. The
// last holds the work of three against that of one.
func sizes(seed uint64) (subject, etcd int) {
	subject, etcd = 1, 1
	if seed%3 != 1 {
		subject = 3
	}
	if seed%3 == 2 {
		etcd = 3
	}
	if *members > 0 {
		subject = *members
	}
	if *stock > 0 {
		etcd = *stock
	}
	return subject, etcd
}

// run compares a new subject of n members with a new etcd of m.
func run(t *testing.T, subject server.Kind, n, m int, steps []Step) error {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	var args []string // of both: the shortest time to live depends on it
	if n > 1 || m > 1 {
		args = []string{patient}
	}
	a := target(t, ctx, "etcd", server.Config{Kind: server.Etcd, Members: m, Args: args})
	b := target(t, ctx, string(subject)+" (tested)", server.Config{Kind: subject, Members: n, Args: args})
	defer a.stop()
	defer b.stop()
	err := Compare(ctx, a.Target, b.Target, steps)
	for _, s := range []started{a, b} {
		for _, m := range s.cluster.Members {
			if err != nil && !m.Running() {
				t.Errorf("%s died:\n%s", s.Name, m.Tail())
			}
		}
	}
	return err
}

type started struct {
	*Target
	cluster *server.Cluster
	ordered []*server.Member // the leader first, as the Target has them
}

func (s started) stop() {
	s.Target.Close()
	s.cluster.Stop()
}

func target(t *testing.T, ctx context.Context, name string, cfg server.Config, options ...grpc.DialOption) started {
	t.Helper()
	cfg.Dir = t.TempDir()
	cluster, err := server.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	leader, err := cluster.Leader(ctx)
	if err != nil {
		cluster.Stop()
		t.Fatal(err)
	}
	endpoints := cluster.Endpoints()
	tg, err := Dial(name, slices.Concat(endpoints[leader:], endpoints[:leader]), options...)
	if err != nil {
		cluster.Stop()
		t.Fatal(err)
	}
	return started{tg, cluster, slices.Concat(cluster.Members[leader:], cluster.Members[:leader])}
}

// TestGenerateRepeats wants the same steps from the same seed only.
func TestGenerateRepeats(t *testing.T) {
	text := func(seed uint64) (all string) {
		for _, s := range Generate(seed, 200) {
			all += s.Method + string(mustMarshal(t, s))
		}
		return all
	}
	once := text(1)
	if again := text(1); again != once {
		t.Error("seed 1 gives two lists")
	}
	if once == text(2) {
		t.Error("seeds 1 and 2 give the same list")
	}
}

func TestShrink(t *testing.T) {
	all := Generate(1, 100)
	calls := 0
	fails := func(steps []Step) bool { // wants steps 17 and 70, by identity of their messages
		calls++
		found := 0
		for _, s := range steps {
			if s.Req == all[17].Req || s.Req == all[70].Req {
				found++
			}
		}
		return found == 2
	}
	short := Shrink(all, 1000, fails)
	if len(short) != 2 || short[0].Req != all[17].Req || short[1].Req != all[70].Req {
		t.Errorf("got %d steps after %d tries: %v", len(short), calls, short)
	}
	calls = 0
	if Shrink(all, 7, fails); calls != 7 {
		t.Errorf("%d tries with a budget of 7", calls)
	}
}
