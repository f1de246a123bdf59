package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	leases "github.com/tenure-lease/tenure/compat/storage"
	"github.com/tenure-lease/tenure/internal/holder/file"
)

// The parts, and the variants in the order in which they are printed.
var (
	parts    = []string{"acquire", "renew", "release", "takeover", "cost 0", "cost 1", "cost 8", "cost 64"}
	variants = []string{bySanlock, atOneSecond, byTenure, asSanlock,
		"server", "3 servers", "directory", "3 directories", "redis", "3 redis"}
)

const (
	bySanlock   = "sanlock"
	atOneSecond = "δ = 1 s"
	byTenure    = "tenure"
	asSanlock   = "Δ = 8 s"
)

// bench is one run of everything.
type bench struct {
	options
	dir      string
	delay    time.Duration // measured
	progress io.Writer
	sanlock  *sanlock // nil if it is not installed

	mu      sync.Mutex
	results []result
	stores  int
	names   int
}

func measure(ctx context.Context, opt options, progress io.Writer) (_ []result, err error) {
	dir, err := os.MkdirTemp(opt.dir, "storage-bench")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: opt, dir: dir, progress: progress}
	sample := filepath.Join(dir, "sample")
	if err := os.Mkdir(sample, 0o755); err != nil {
		return nil, err
	}
	h, err := file.Init(ctx, []string{sample}, file.Spec{})
	if err != nil {
		return nil, fmt.Errorf("%w (-dir names a directory on another filesystem)", err)
	}
	b.delay = h.Delay
	fmt.Fprintf(progress, "in %s, δ = %v\n", dir, b.delay)
	if b.sanlock, err = newSanlock(ctx, dir); errors.Is(err, errNoSanlock) {
		fmt.Fprintln(progress, err)
	} else if err != nil {
		return nil, err
	}
	// Waiting takes long and costs nothing: let it go on beside the rest.
	waits := b.begin(ctx)
	err = errors.Join(b.measureOperations(ctx), b.measureCosts(ctx), waits())
	return b.results, err
}

// begin starts what takes long; the function waits for it.
func (b *bench) begin(ctx context.Context) (wait func() error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs error
	start := func(part string, f func(context.Context) error) {
		if !b.wants(part) {
			return
		}
		all.Go(func() {
			if err := f(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = errors.Join(errs, fmt.Errorf("%s: %w", part, err))
			}
		})
	}
	if b.sanlock != nil {
		host := b.sanlock.next()
		start("takeover", func(ctx context.Context) error { return b.sanlockTakeover(ctx, host) })
	}
	start("takeover", func(ctx context.Context) error {
		return b.takeover(ctx, atOneSecond, leastTerm, time.Second)
	})
	start("takeover", func(ctx context.Context) error { return b.takeover(ctx, byTenure, 15*time.Second, b.delay) })
	start("takeover", func(ctx context.Context) error { return b.takeover(ctx, asSanlock, 8*time.Second, b.delay) })
	start("renew", func(ctx context.Context) error { return b.measureRenewals(ctx, atOneSecond, leastTerm, time.Second) })
	return func() error { all.Wait(); return errs }
}

// leastTerm is the shortest Δ at a δ of a second.
const leastTerm = 12 * time.Second

func (b *bench) add(r result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results = append(b.results, r)
	if r.Took > 0 || r.CPU > 0 {
		fmt.Fprintln(b.progress, r)
	}
}

func (b *bench) wants(part string) bool {
	return len(b.only) == 0 || slices.ContainsFunc(b.only, func(some string) bool { return strings.Contains(part, some) })
}

// store makes n stores of a set.
func (b *bench) store(n int, term, delay time.Duration) (dirs []string, err error) {
	b.mu.Lock()
	b.stores++
	number := b.stores
	b.mu.Unlock()
	for i := range n {
		dir := filepath.Join(b.dir, fmt.Sprintf("store%d-%d", number, i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, leases.Make(term, delay, dirs...)
}
