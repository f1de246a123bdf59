package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/leasetest"
)

// Stores have a second to tell their state, and what is known by then is shown.
func TestStoresAreNotWaitedForForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd, begun := errors.New("odd"), time.Now()
		ask := func(ctx context.Context, name string) ([]int, error) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			return []int{1, 2}, fmt.Errorf("%s: %w", name, odd)
		}
		stores, err := healthOf(t.Context(), "n", ask, func(h int) shownStore { return shownStore{Handles: h} })
		if took := time.Since(begun); took != time.Second || len(stores) != 2 || stores[0].Handles != 1 || stores[1].Handles != 2 || !errors.Is(err, odd) || err.Error() != "n: odd" {
			t.Errorf("stores that do not answer are shown as %+v, %v, after %v; want both, and the error of n, after a second", stores, err, took)
		}
	})
}

// The accesses of a measurement are counted through all its stores.
func TestAMeasurementIsCountedThroughAllStores(t *testing.T) {
	const n = 3
	one, two := t.TempDir(), t.TempDir()
	var b benched
	var told []int
	delay, err := b.measure(t.Context(), []string{one, two}, true, n, func(done int) { told = append(told, done) })
	if err != nil || delay <= 0 || len(b.Medium) != 2 || b.Medium[0].Store != one || b.Medium[1].Store != two {
		t.Fatalf("measured are %+v, with a delay of %v, %v; want both stores", b.Medium, delay, err)
	}
	if !slices.Equal(told, []int{1, 2, 3, 4, 5, 6}) {
		t.Errorf("of two stores with three accesses each it is told that %d are done, want each of the six", told)
	}
	if _, err := b.measure(t.Context(), []string{one, one + "/none"}, true, n, func(int) {}); err == nil {
		t.Error("a store that is not there is measured")
	}
}

// A bench goes on with a store that has become slow, and ends with any other trouble.
func TestABenchOutlivesASlowStore(t *testing.T) {
	for err, want := range map[error]bool{fmt.Errorf("n: %w", tenure.ErrLost): true, fmt.Errorf("n: %w", tenure.ErrUnavailable): true, tenure.ErrClosed: false, context.Canceled: false, errors.New("odd"): false} {
		if got := slower(err); got != want {
			t.Errorf("a release fails with %q, and that is of a slow store: %v, want %v", err, got, want)
		}
	}
}

// The time of a step is from its begin to its end, and its error is its own.
func TestAStepIsTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Minute)
		odd := errors.New("odd")
		took, err := timed(func() error { time.Sleep(3 * time.Second); return odd })
		if took != 3*time.Second || err != odd {
			t.Errorf("a step of 3s that fails takes %v, with %v", took, err)
		}
	})
}

// A run that another host begins while this one gets the lease is done, as one that was found done before: the exit code and
// the event are the same, and the lease is free again.
func TestARunThatCameBetweenIsDone(t *testing.T) {
	memory := leasetest.NewMemory()
	l, next := memory.Open(), memory.Open()
	defer l.Close()
	defer next.Close()
	ten := fakeTenancy("true")
	nightly := func() {
		work := tenure.Periodic{Leaser: next, Claim: tenure.Claim{Name: "fake"}, Every: time.Hour}
		if err := work.Do(t.Context(), func(context.Context, tenure.Lease) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	list := told(t, ten, func() {
		_, err = (&every{period: time.Hour}).acquire(t.Context(), ten, overtaken{l, nightly, func() {}}, wait{})
	})
	if wantExit(t, err, cli.ExitDone); len(list) != 1 || list[0].Event != "done" || list[0].Name != "fake" {
		t.Errorf("another host's run came between, and the events are %+v; want that it is done", list)
	}
	if _, err := next.TryAcquire(t.Context(), ten.claim); err != nil {
		t.Errorf("another host's run came between, and the lease is not free: %v", err)
	}
}

// A command that takes the name of a lease is completed with the names that are held, and with files behind it.
func TestCompletesNamesOfLeases(t *testing.T) {
	spyOnEngines(t)
	completes := 0
	each(rootCommand(), nil, func(cmd *cobra.Command, path []string) {
		flag := cmd.Flag("at")
		if flag == nil || !slices.Equal(flag.Annotations[atKind], []string{atLeases}) || !strings.Contains(cmd.Use, " NAME") || cmd.Name() == "agree" {
			return
		}
		completes++
		args := append(slices.Clone(path), "--at", "etcd://spy")
		if got, directive := completed(t, append(args, "")...); !slices.Equal(got, []string{"held", "several", "waited-for"}) || directive != ":4" {
			t.Errorf("tenure %s is completed to %q, %s; want the names that are held, and no files", strings.Join(path, " "), got, directive)
		}
		if got, directive := completed(t, append(args, "held", "")...); len(got) > 0 || directive != ":0" {
			t.Errorf("tenure %s is completed to %q, %s behind a name; want what a shell chooses", strings.Join(path, " "), got, directive)
		}
	})
	if completes != 5 {
		t.Errorf("%d commands take the name of a lease, want 5: this test has lost some", completes)
	}
}

// A command that looks only makes no store, and says so at once.
func TestLookersMakeNoStore(t *testing.T) {
	for _, args := range []string{"lease list", "lease list --watch", "lease show n", "elect n --listen", "agree n"} {
		dir := t.TempDir()
		root := rootCommand()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs(append(strings.Fields(args), "--at", "file://"+dir))
		ended, looks := make(chan error, 1), true
		go func() { ended <- root.Execute() }()
		for end := time.Now().Add(20 * time.Second); looks; {
			select {
			case err := <-ended:
				if wantExit(t, err, cli.ExitUnavailable); t.Failed() {
					t.Errorf("tenure %s looks into an empty directory", args)
				}
				looks = false
			case <-time.After(10 * time.Millisecond):
				if time.Now().After(end) {
					t.Fatalf("tenure %s goes on to look into an empty directory", args)
				}
				left, _ := os.ReadDir(dir)
				looks = len(left) == 0
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Fatalf("tenure %s has looked, and left %v, %v", args, left, err)
		}
	}
}
