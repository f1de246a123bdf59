package diff

import (
	"context"
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"google.golang.org/grpc"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed only")
	stepsFlag = flag.Int("steps", 0, "steps a seed; 0 is 400 with -short, else 3000")
	seedsFlag = flag.Int("seeds", 0, "seeds to run; 0 is 2 with -short, else 20")
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
		steps, seeds = 400, 2
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
		err := run(t, subject, all)
		var mismatch *Mismatch
		if errors.As(err, &mismatch) && *shrink > 0 {
			short := Shrink(all[:mismatch.Index+1], *shrink, func(fewer []Step) bool {
				var again *Mismatch
				return errors.As(run(t, subject, fewer), &again)
			})
			if again := run(t, subject, short); again != nil {
				err = again
			}
			t.Logf("shortened from %d steps to %d", mismatch.Index+1, len(short))
		}
		if err != nil {
			t.Fatalf("seed %d (run again with -seed=%d -steps=%d):\n%v", seed, seed, steps, err)
		}
	}
}

// run compares a new etcd with a new subject.
func run(t *testing.T, subject server.Kind, steps []Step) error {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	a := target(t, ctx, "etcd", server.Etcd)
	b := target(t, ctx, string(subject)+" (tested)", subject)
	defer a.stop()
	defer b.stop()
	err := Compare(ctx, a.Target, b.Target, steps)
	for _, s := range []started{a, b} {
		if m := s.cluster.Members[0]; err != nil && !m.Running() {
			t.Errorf("%s died:\n%s", s.Name, m.Tail())
		}
	}
	return err
}

type started struct {
	*Target
	cluster *server.Cluster
}

func (s started) stop() {
	s.Target.Close()
	s.cluster.Stop()
}

func target(t *testing.T, ctx context.Context, name string, kind server.Kind, options ...grpc.DialOption) started {
	t.Helper()
	cluster, err := server.Start(ctx, server.Config{Kind: kind, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	tg, err := Dial(name, cluster.Endpoints()[0], options...)
	if err != nil {
		cluster.Stop()
		t.Fatal(err)
	}
	return started{tg, cluster}
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
