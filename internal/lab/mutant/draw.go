package mutant

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

// partOf leaves those of a list that are in one part of several: "2/4" is the second of four. A mutant
// stays in its part when others are added.
func partOf(root string, list []mutant, part string) (some []mutant, err error) {
	which, parts, _ := strings.Cut(part, "/")
	n, err := strconv.ParseUint(parts, 10, 32)
	var k uint64
	if err == nil {
		k, err = strconv.ParseUint(which, 10, 32)
	}
	if err != nil || k < 1 || k > n {
		return nil, fmt.Errorf("part %q: give its number and how many there are, such as 2/4", part)
	}
	for _, m := range list {
		name, err := filepath.Rel(root, filepath.Join(m.dir, m.name))
		if err != nil {
			return nil, err
		}
		hash := fnv.New64a()
		hash.Write([]byte(filepath.ToSlash(name)))
		if hash.Sum64()%n == k-1 {
			some = append(some, m)
		}
	}
	return some, nil
}

// draws is what became of the mutants that were tried. Those of missed are among the noticed: they
// lived once, and were noticed when they were tried again.
type draws struct {
	mu                                sync.Mutex
	noticed, missed, lived, undecided []string
}

func (d *draws) add(to *[]string, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*to = append(*to, name)
}

// draw tries mutants of a list in an order that the seed decides, two at a time,
// until they have used so much CPU; with a budget of 0, all of them. A mutant of a draw
// that takes longer than each is undecided: it is left to a run of all.
func draw(t *testing.T, root string, list []mutant, seed uint64, budget, each time.Duration) *draws {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	next := make(chan mutant)
	var results draws
	var tries sync.WaitGroup
	for range 2 {
		tries.Go(func() {
			for m := range next {
				results.try(t, root, m, each)
			}
		})
	}
	before := childrensCPU(t)
	tried := 0
	for _, m := range list {
		if budget > 0 && childrensCPU(t)-before > budget {
			break
		}
		next <- m
		tried++
	}
	close(next)
	tries.Wait()
	slices.Sort(results.lived)
	slices.Sort(results.missed)
	t.Logf("noticed only when tried again: %v", results.missed)
	t.Logf("seed %d: of %d mutants %d were tried: %d noticed, %d of them only when tried again, %d not, %d undecided, in %v of CPU",
		seed, len(list), tried, len(results.noticed), len(results.missed), len(results.lived), len(results.undecided), (childrensCPU(t) - before).Round(time.Second))
	return &results
}

func (d *draws) try(t *testing.T, root string, m mutant, each time.Duration) {
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
	overlay, err := Plant(root, t.TempDir(), m.edits, nil)
	var said string
	var first error
	if err == nil {
		began := time.Now()
		said, first, err = twice(ctx, func() (string, error) { return m.caught(ctx, overlay) })
		said = fmt.Sprintf("%.1f s: %s", time.Since(began).Seconds(), said)
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
		t.Logf("%s: %s", name, said)
	}
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
