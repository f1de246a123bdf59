package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/storage"
)

// benched is what `lease bench` prints.
type benched struct {
	At     string         `json:"at"`
	Medium []benchedStore `json:"stores"`
	// Proposed is what to make the store with.
	Proposed struct {
		TTLMS      float64 `json:"ttl_ms"`
		DelayMS    float64 `json:"delay_ms"`
		TakeoverMS float64 `json:"takeover_ms"`
	} `json:"proposed"`
	// Leases are medians with these.
	Leases struct {
		AcquireMS float64 `json:"acquire_ms"`
		RenewMS   float64 `json:"renew_ms"`
		ReleaseMS float64 `json:"release_ms"`
	} `json:"leases"`
}

type benchedStore struct {
	Store    string    `json:"store"`
	Accesses int       `json:"accesses"` // of each kind
	Read     quantiles `json:"read"`
	Write    quantiles `json:"write"`
}

type quantiles struct {
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

func quantilesOf(sorted []time.Duration) quantiles {
	q := func(part float64) float64 { return millis(file.Quantile(sorted, part)) }
	return quantiles{q(0.5), q(0.99), q(0.999), q(1)}
}

func leaseBenchCommand() *cobra.Command {
	var at string
	var o cli.Output
	var n int
	var single bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a directory, and propose how to keep leases in it",
		Long: `Accesses a directory as leases do, in a directory below it that is removed afterwards,
and shows what a read and a write take. From that it proposes δ and the TTL for tenure
lease init, and says how soon a dead holder's lease is another's; then it takes, renews and
releases leases with these for a while. Run it while the storage is as busy as it will be.`,
		Example: `  tenure lease bench --at file:///mnt/shared
  tenure lease bench --at file:///mnt/a,/mnt/b,/mnt/c --accesses 10000 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 1 {
				return cli.Usagef("--accesses %d: want at least 1", n)
			}
			paths, err := benchPaths(at, &single)
			if err != nil {
				return err
			}
			ctx, stop := cli.UntilSignal(cmd.Context())
			defer stop()
			b := benched{At: at}
			if err := stoppedBy(ctx, b.run(ctx, paths, single, n)); err != nil {
				return cli.Otherwise(cli.ExitUnavailable, cli.Interrupted(err))
			}
			return o.Print(cmd.OutOrStdout(), b, func() { b.table(cmd.OutOrStdout()) })
		},
	}
	flags := cmd.Flags()
	storeFlag(flags, &at)
	o.Register(cmd)
	flags.IntVar(&n, "accesses", 1000, "`number` of reads and of writes")
	flags.BoolVar(&single, "single-host", false, "as for a store of one machine's processes")
	return cmd
}

func benchPaths(at string, single *bool) ([]string, error) {
	var cfg file.Config
	var err error
	switch at {
	case "":
		return nil, cli.Usagef("which directory? write: tenure lease bench --at file:///DIRECTORY")
	case atLocal:
		*single = true
		cfg, err = local()
	default:
		cfg, err = file.ReadURL(at)
		err = cli.Usage(err)
	}
	if err != nil {
		return nil, err
	}
	for _, path := range cfg.Paths {
		if st, err := os.Stat(path); err == nil && !st.IsDir() {
			return nil, cli.Usagef("%s is no directory: bench a directory on the same device", path)
		}
	}
	return cfg.Paths, nil
}

// stoppedBy is the error of something that a signal may have ended: then it is that signal.
func stoppedBy(ctx context.Context, err error) error {
	var signal cli.Interrupt
	if err != nil && errors.As(context.Cause(ctx), &signal) {
		return signal
	}
	return err
}

// run fills b in.
func (b *benched) run(ctx context.Context, paths []string, single bool, n int) error {
	bar := cli.NewProgress(os.Stderr, n*len(paths), "accesses")
	delay, err := b.measure(ctx, paths, single, n, func(done int) { bar.Show(done, 0) })
	bar.Clear()
	if err != nil {
		return err
	}
	if err := b.propose(delay); err != nil {
		return err
	}
	return b.benchLeases(ctx, paths, single, delay)
}

// measure takes in the times of all stores, and returns the δ that they bear. It tells how many accesses are done.
func (b *benched) measure(ctx context.Context, paths []string, single bool, n int, tell func(done int)) (delay time.Duration, err error) {
	delay = storage.LeastDelay
	for i, path := range paths {
		times, err := file.Measure(ctx, path, single, n, func(done int) { tell(i*n + done) })
		if err != nil {
			return 0, err
		}
		delay = b.add(benchedStore{Store: path, Accesses: n}, times, delay)
	}
	return delay, nil
}

// add takes in the times of a store, and returns the δ that it and all stores before it bear.
func (b *benched) add(s benchedStore, times file.Times, before time.Duration) (delay time.Duration) {
	s.Read, s.Write = quantilesOf(times.Read), quantilesOf(times.Write)
	b.Medium = append(b.Medium, s)
	return max(before, times.Delay().Round(time.Millisecond))
}

// propose proposes leases in all stores that were measured.
func (b *benched) propose(delay time.Duration) error {
	h, err := storage.Spec{Term: max(tenure.DefaultTTL, 100*delay), Delay: delay}.Header(len(b.Medium))
	if err != nil {
		return err
	}
	b.Proposed.TTLMS, b.Proposed.DelayMS, b.Proposed.TakeoverMS = millis(h.Term), millis(h.Delay), millis(storage.Takeover(h))
	return nil
}

// rounds is how many leases are taken, and how often one is renewed.
const rounds = 20

// benchLeases uses the engine, on stores that are made for the occasion.
func (b *benched) benchLeases(ctx context.Context, paths []string, single bool, delay time.Duration) error {
	var dirs []string
	for _, path := range paths {
		dir, err := os.MkdirTemp(path, "TENURE.bench*.new") // which stores take for litter
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		dirs = append(dirs, dir)
	}
	term := 30 * delay // so that there is something to renew soon
	if _, err := file.Init(ctx, dirs, file.Spec{Spec: storage.Spec{Term: term, Delay: delay}, SingleHost: single}); err != nil {
		return err
	}
	l, err := file.Open(ctx, file.Config{Paths: dirs, State: filepath.Join(dirs[0], "state")})
	if err != nil {
		return err
	}
	defer l.Close()
	var acquired, renewed, released []time.Duration
	for range rounds {
		var lease tenure.Lease
		took, err := timed(func() (err error) {
			lease, err = l.Acquire(ctx, tenure.Claim{Name: "bench"})
			return err
		})
		if err != nil {
			return err
		}
		acquired = append(acquired, took)
		for last := l.Renewal(); len(renewed) < rounds && ctx.Err() == nil && lease.Check() == nil; {
			<-time.After(term / 20)
			if d := l.Renewal(); d != last {
				renewed, last = append(renewed, d), d
			}
		}
		took, err = timed(func() error { return lease.Release(ctx) })
		if err != nil && !slower(err) {
			return err
		}
		released = append(released, took)
	}
	b.medians(acquired, renewed, released)
	return ctx.Err()
}

// slower reports whether a release failed because a store is slower than it was when it was measured: medians show
// that, too.
func slower(err error) bool {
	return errors.Is(err, tenure.ErrLost) || errors.Is(err, tenure.ErrUnavailable)
}

// timed does something, and returns how long it took.
func timed(do func() error) (time.Duration, error) {
	began := time.Now()
	err := do()
	return time.Since(began), err
}

// medians takes in how long it took to acquire, to renew and to release leases.
func (b *benched) medians(acquired, renewed, released []time.Duration) {
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return millis(file.Quantile(all, 0.5))
	}
	b.Leases.AcquireMS, b.Leases.RenewMS, b.Leases.ReleaseMS = median(acquired), median(renewed), median(released)
}

func (b *benched) table(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "STORE\tACCESS\tp50\tp99\tp99.9\tMAX")
	for _, s := range b.Medium {
		for i, q := range []quantiles{s.Read, s.Write} {
			fmt.Fprintf(tw, "%s\t%s\t%.2f ms\t%.2f ms\t%.2f ms\t%.2f ms\n", s.Store, []string{"read", "write"}[i], q.P50, q.P99, q.P999, q.Max)
		}
	}
	tw.Flush()
	p := b.Proposed
	fmt.Fprintf(w, "\nproposed: tenure lease init --at %s --ttl %v --delay %v\n", b.At, duration(p.TTLMS), duration(p.DelayMS))
	fmt.Fprintf(w, "  a dead holder's lease is another's %v after its last renewal\n", duration(p.TakeoverMS))
	fmt.Fprintf(w, "  medians: acquire %.1f ms, renew %.1f ms, release %.1f ms\n", b.Leases.AcquireMS, b.Leases.RenewMS, b.Leases.ReleaseMS)
}

func duration(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond)
}
