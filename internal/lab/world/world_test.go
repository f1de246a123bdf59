package world_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

func TestFaultsAreBoundToOperations(t *testing.T) {
	plan := []world.Fault{
		{Who: "a", Seam: world.Disk, Op: "sync", Nth: 2, Kind: world.Fail},
		{Who: "a", Seam: world.Disk, Op: "write", Nth: 1, Kind: world.NoSpace, For: time.Second},
		{Who: "a", Seam: world.Disk, Nth: 6, Kind: world.Delay, For: time.Minute},
		{Who: "a", Seam: world.Network, Op: "read", Nth: 1, Kind: world.Freeze, For: time.Hour},
		{Who: "a", At: time.Second / 2, Kind: world.Cut, With: "b"},
		{Who: "b", Seam: world.Disk, Nth: 1, Kind: world.Fail},
	}
	var cuts []world.Fault
	r := world.Play(t, world.Options{Seed: 1, Plan: plan}, func(w *world.World) {
		w.Happen(func(f world.Fault) bool {
			cuts = append(cuts, f)
			return true
		})
		p := w.Start("a")
		do := func(seam world.Seam, op string) (time.Duration, error) {
			began := time.Now()
			err := p.Do(seam, op, "x")
			return time.Since(began), err
		}
		for i, want := range []error{nil, syscall.EIO, nil} {
			if _, err := do(world.Disk, "sync"); !errors.Is(err, want) {
				t.Errorf("sync %d: %v, want %v", i+1, err, want)
			}
		}
		for i, want := range []error{syscall.ENOSPC, syscall.ENOSPC} {
			if _, err := do(world.Disk, "write"); !errors.Is(err, want) {
				t.Errorf("write %d: %v, want %v", i+1, err, want)
			}
		}
		if took, _ := do(world.Disk, "sync"); took != time.Minute {
			t.Errorf("the sixth call took %v", took)
		}
		if _, err := do(world.Disk, "write"); err != nil {
			t.Errorf("a write with space again: %v", err)
		}
		if took, _ := do(world.Network, "read"); took != time.Hour {
			t.Errorf("the process stood still for %v", took)
		}
		p.End()
		if _, err := do(world.Network, "read"); !errors.Is(err, world.ErrDead) {
			t.Errorf("a read after the end: %v", err)
		}
	})
	if len(cuts) != 1 || cuts[0].With != "b" {
		t.Errorf("the world was told of %v", cuts)
	}
	for _, kind := range []string{"fail", "no space", "delay", "freeze", "cut"} {
		if r.Counters["fault: "+kind] == 0 {
			t.Errorf("%s was not counted", kind)
		}
	}
}

// TestFaultsLandAtTheirOperation ends a process at its third rename, again and again: two are done.
func TestFaultsLandAtTheirOperation(t *testing.T) {
	for seed := range uint64(20) {
		plan := []world.Fault{{Who: "a", Seam: world.Disk, Op: "rename", Nth: 3, Kind: world.Kill}}
		renames, syncs := 0, 0
		r := world.Play(t, world.Options{Seed: seed, Plan: plan}, func(w *world.World) {
			p := w.Start("a")
			w.Happen(func(world.Fault) bool {
				time.Sleep(10 * time.Millisecond)
				p.End()
				time.Sleep(time.Second) // until the process starts again
				return true
			})
			for p.Do(world.Disk, "sync", "") == nil {
				if syncs++; p.Do(world.Disk, "rename", "") == nil {
					renames++
				}
			}
		})
		if renames != 2 || syncs != 3 {
			t.Fatalf("a process that was killed at its third rename has done %d renames and %d syncs", renames, syncs)
		}
		if r.Counters["fault: kill"] != 1 {
			t.Errorf("counted: %v", r.Counters)
		}
	}
}

// TestTheDeadCountNoOperations has a process go on when it has ended, as goroutines do: the fault is
// for its successor, at that one's own operation.
func TestTheDeadCountNoOperations(t *testing.T) {
	plan := []world.Fault{{Who: "a", Seam: world.Disk, Op: "sync", Nth: 2, Kind: world.Fail}}
	world.Play(t, world.Options{Seed: 1, Plan: plan}, func(w *world.World) {
		p := w.Start("a")
		p.End()
		for range 5 {
			if err := p.Do(world.Disk, "sync", ""); !errors.Is(err, world.ErrDead) {
				t.Errorf("a sync after the end: %v", err)
			}
		}
		p = w.Start("a")
		for i, want := range []error{nil, syscall.EIO, nil} {
			if err := p.Do(world.Disk, "sync", ""); !errors.Is(err, want) {
				t.Errorf("sync %d: %v, want %v", i+1, err, want)
			}
		}
	})
}

// TestFaultsThatAreNotCarriedOut are not counted, and delay no process.
func TestFaultsThatAreNotCarriedOut(t *testing.T) {
	plan := []world.Fault{
		{Who: "a", Seam: world.Disk, Op: "sync", Nth: 1, Kind: world.Crash},
		{Who: "a", Seam: world.Disk, Op: "sync", Nth: 2, Kind: world.Restart},
	}
	r := world.Play(t, world.Options{Seed: 1, Plan: plan}, func(w *world.World) {
		p := w.Start("a")
		closed := make(chan struct{})
		w.Happen(func(f world.Fault) bool {
			if f.Kind == world.Restart { // which waits for the process's work
				<-closed
			}
			return f.Kind == world.Restart
		})
		for range 2 {
			if err := p.Do(world.Disk, "sync", ""); err != nil {
				t.Error(err)
			}
		}
		close(closed)
		time.Sleep(time.Second)
	})
	if r.Counters["fault: crash"] != 0 || r.Counters["fault: restart"] != 1 {
		t.Errorf("counted: %v", r.Counters)
	}
}

func TestForgoneFaultsDoNotHappen(t *testing.T) {
	plan := []world.Fault{
		{Who: "a", At: time.Second, Kind: world.Crash},
		{Who: "a", Seam: world.Disk, Nth: 1, Kind: world.Fail},
	}
	r := world.Play(t, world.Options{Seed: 1, Plan: plan}, func(w *world.World) {
		w.Happen(func(world.Fault) bool {
			t.Error("it happened")
			return true
		})
		p := w.Start("a")
		w.Forgo()
		if err := p.Do(world.Disk, "sync", ""); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
	if len(r.Counters) > 0 {
		t.Errorf("counted: %v", r.Counters)
	}
}

func TestASeedGivesTheSameNumbersForAPurpose(t *testing.T) {
	draw := func(seed uint64, purpose string) (list []uint64) {
		r := world.Rand(seed, purpose)
		for range 5 {
			list = append(list, r.Uint64())
		}
		return list
	}
	if !slices.Equal(draw(1, "a"), draw(1, "a")) {
		t.Error("the same seed and purpose differ")
	}
	if slices.Equal(draw(1, "a"), draw(1, "b")) || slices.Equal(draw(1, "a"), draw(2, "a")) {
		t.Error("another seed or purpose is the same")
	}
}

func TestTracesOfPackagesHaveNamesOfTheirOwn(t *testing.T) {
	got := filepath.Base(world.TraceFile("TestWorlds/seed=7", 7))
	if !strings.HasPrefix(got, "world-") || !strings.HasSuffix(got, "TestWorlds-seed=7-7.trace") {
		t.Errorf("the trace is in %q: want this package's name, the test's and the seed", got)
	}
}
