package mutant

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// everywhere reads the mutants of all test packages below root, but for those of this
// package's own tests.
func everywhere(root string) (list []mutant, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return err
		case strings.HasSuffix(path, "internal/lab/mutant/testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "testdata/mutants"):
			some, err := load(filepath.Dir(filepath.Dir(path)))
			list = append(list, some...)
			return err
		}
		return nil
	})
	return list, err
}

// changedSince leaves those of a list whose files have changed since a commit.
func changedSince(root string, list []mutant, commit string) ([]mutant, error) {
	git := exec.Command("git", "diff", "--name-only", "--relative", commit, "--", "*testdata/mutants/*.txt")
	git.Dir = root
	out, err := git.Output()
	if err != nil {
		return nil, fmt.Errorf("finding the changes since %s: %w", commit, err)
	}
	changed := map[string]bool{}
	for name := range strings.Lines(string(out)) {
		changed[filepath.Join(root, strings.TrimSuffix(name, "\n"))] = true
	}
	return slices.DeleteFunc(list, func(m mutant) bool {
		return !changed[filepath.Join(m.dir, "testdata/mutants", m.name+".txt")]
	}), nil
}

// draws is what became of the mutants that were tried. Those of missed are among the noticed: they
// lived once, and were noticed when they were tried again.
type draws struct {
	mu                                sync.Mutex
	noticed, missed, lived, undecided []string
	alone                             int // tried in a program of their own
}

func (d *draws) add(to *[]string, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*to = append(*to, name)
}

// handful is how many mutants of a package a draw tries in one program, and all is how many of them
// a run of all does: enough for the build to be a small part of it.
const handful, all = 12, 120

// draw tries mutants of a list in an order that the seed decides, until they have used so much CPU;
// with a budget of 0, all of them. Mutants of one package are tried together. A mutant of a draw
// that takes longer than each is undecided: it is left to a run of all.
func draw(t *testing.T, root string, list []mutant, seed uint64, budget, each time.Duration) *draws {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	size := all
	if budget > 0 {
		size = handful
	}
	var results draws
	before := childrensCPU(t)
	spent := func() bool { return budget > 0 && childrensCPU(t)-before > budget }
	next := make(chan []mutant)
	var tries sync.WaitGroup
	for range 6 { // most of them wait most of the time
		tries.Go(func() {
			for some := range next {
				results.tryAll(t, root, some, each, spent)
			}
		})
	}
	for _, some := range together(list, size) {
		if spent() {
			break
		}
		next <- some
	}
	close(next)
	tries.Wait()
	slices.Sort(results.lived)
	slices.Sort(results.missed)
	tried := len(results.noticed) + len(results.lived) + len(results.undecided)
	t.Logf("noticed only when tried again: %v", results.missed)
	t.Logf("seed %d: of %d mutants %d were tried, %d of them alone: %d noticed, %d of them only when tried again, %d not, %d undecided, in %v of CPU",
		seed, len(list), tried, results.alone, len(results.noticed), len(results.missed), len(results.lived), len(results.undecided), (childrensCPU(t) - before).Round(time.Second))
	return &results
}

// together divides a list into parts of one package each, no longer than size. A part takes the
// place in the list that its first mutant has.
func together(list []mutant, size int) (parts [][]mutant) {
	open := map[string]int{} // the part of a package that has room
	for _, m := range list {
		i, ok := open[m.dir]
		if !ok || len(parts[i]) == size {
			i = len(parts)
			open[m.dir], parts = i, append(parts, nil)
		}
		parts[i] = append(parts[i], m)
	}
	return parts
}

// tryAll tries mutants of one package, until the budget is spent.
func (d *draws) tryAll(t *testing.T, root string, list []mutant, each time.Duration, spent func() bool) {
	dir, err := os.MkdirTemp("", "woven")
	if err != nil {
		t.Error(err)
		return
	}
	defer os.RemoveAll(dir)
	s, err := weave(t.Context(), root, dir, list)
	if err != nil {
		t.Errorf("%s: weaving: %v", list[0].dir, err)
		s = &schema{}
	}
	for _, m := range list {
		if spent() {
			return
		}
		d.try(t, root, m, s, each)
	}
}

func (d *draws) try(t *testing.T, root string, m mutant, s *schema, each time.Duration) {
	name, err := filepath.Rel(root, filepath.Join(m.dir, m.name))
	if err != nil {
		t.Error(err)
		return
	}
	ctx := t.Context()
	if each > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, each)
		defer cancel()
	}
	began := time.Now()
	said, in, err := s.caught(ctx, m)
	var first error
	if !in || err != nil {
		said, first, err = d.tryAlone(ctx, t, root, m)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		d.add(&d.undecided, name)
		t.Logf("%s: undecided after %v", name, each)
	case err != nil:
		d.add(&d.lived, name)
		t.Errorf("%s: %v", name, err)
	default:
		if first != nil {
			d.add(&d.missed, name)
			t.Logf("%s: at first: %v", name, first)
		}
		d.add(&d.noticed, name)
		t.Logf("%s: %.1f s: %s", name, time.Since(began).Seconds(), said)
	}
}

// tryAlone tries a mutant in a program of its own, up to twice.
func (d *draws) tryAlone(ctx context.Context, t *testing.T, root string, m mutant) (said string, first, err error) {
	d.mu.Lock()
	d.alone++
	d.mu.Unlock()
	overlay, err := Plant(root, t.TempDir(), m.edits, nil)
	if err != nil {
		return "", nil, err
	}
	return twice(ctx, func() (string, error) { return m.caught(ctx, overlay) })
}

// twice tries failures again, once: a test may be random, or the machine have been too busy. First is
// the error of the first try.
func twice(ctx context.Context, try func() (string, error)) (said string, first, err error) {
	if said, first = try(); first == nil || ctx.Err() != nil {
		return said, nil, first
	}
	said, err = try()
	return said, first, err
}

// childrensCPU is the CPU that the processes this one started have used.
func childrensCPU(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
