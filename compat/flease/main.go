package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

const (
	members = 3
	ttl     = 30 * time.Second
)

// contestant keeps leases. Each of its callers uses a member of its own choice.
type contestant interface {
	// caller makes the calls of one caller, by case.
	caller(ctx context.Context, i int) (map[string]call, error)
	cpu() time.Duration // of all processes but this one
	close()
}

// call does one operation on a name that no other call was given.
type call func(ctx context.Context, name string) error

// cases are what is measured, in this order.
var cases = []string{"turn", "take", "renew", "touch"}

// result is what one contestant did in one case.
type result struct {
	Contestant string  `json:"contestant"`
	Case       string  `json:"case"`
	Rate       float64 `json:"per_s"`
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	CPU        float64 `json:"cpu_us"` // of all processes, per operation
}

var contestants = map[string]func(ctx context.Context, dir string) (contestant, error){
	"flease": startFlease, "flease-clients": startFleaseClients, "etcd": startEtcd, "zookeeper": startZooKeeper,
}

func main() {
	callers := flag.Int("callers", 512, "callers at the same time")
	duration := flag.Duration("duration", 5*time.Second, "of each case, after a warm-up of a fifth of it")
	runs := flag.Int("runs", 3, "runs, interleaved; medians are printed")
	only := flag.String("only", "flease,flease-clients,etcd,zookeeper", "contestants, with commas in between")
	which := flag.String("cases", strings.Join(cases, ","), "cases, with commas in between")
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Parse()
	cases = strings.Split(*which, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var all []result
	for run := range *runs {
		for name := range strings.SplitSeq(*only, ",") {
			rs, err := measure(ctx, name, *callers, *duration)
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
				if ctx.Err() != nil {
					os.Exit(1)
				}
			}
			for _, r := range rs {
				fmt.Fprintf(os.Stderr, "run %d: %s %s %.0f/s\n", run+1, r.Contestant, r.Case, r.Rate)
			}
			all = append(all, rs...)
		}
	}
	medians := summarize(all)
	if *asJSON {
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"runs": all, "medians": medians})
		return
	}
	table(medians)
}

// measure starts a contestant and has it do all cases.
func measure(ctx context.Context, name string, callers int, d time.Duration) ([]result, error) {
	start, ok := contestants[name]
	if !ok {
		return nil, fmt.Errorf("there is no such contestant")
	}
	dir, err := os.MkdirTemp("", "flease-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c, err := start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer c.close()
	all := make([]map[string]call, callers)
	for i := range all {
		if all[i], err = c.caller(ctx, i); err != nil {
			return nil, err
		}
	}
	var rs []result
	for _, which := range cases {
		var r result
		switch p, self := c.(*peers); {
		case self && which == "renew":
			r, err = p.measureRenewals(ctx, d)
		case all[0][which] == nil:
			continue
		default:
			r, err = load(ctx, c, callers, d, func(ctx context.Context, i, n int) error {
				return all[i][which](ctx, fmt.Sprintf("%s-%d-%d", which, i, n))
			})
		}
		if err != nil {
			return rs, fmt.Errorf("%s: %w", which, err)
		}
		r.Contestant, r.Case = name, which
		rs = append(rs, r)
	}
	return rs, nil
}

// load has callers call, each as soon as its last call ended.
func load(ctx context.Context, c contestant, callers int, d time.Duration, call func(ctx context.Context, i, n int) error) (result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now().Add(d / 5)
	end := begin.Add(d)
	took := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				start := time.Now()
				if start.After(end) {
					return
				}
				if err := call(ctx, i, n); err != nil {
					cancel(err)
					return
				}
				if start.After(begin) {
					took[i] = append(took[i], time.Since(start))
				}
			}
		})
	}
	time.Sleep(time.Until(begin))
	cpu := c.cpu() + ownCPU()
	wg.Wait()
	cpu = c.cpu() + ownCPU() - cpu
	elapsed := time.Since(begin)
	if err := context.Cause(ctx); err != nil {
		return result{}, err
	}
	all := slices.Concat(took...)
	if len(all) == 0 {
		return result{}, fmt.Errorf("nothing was done in %v", d)
	}
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return result{
		Rate: float64(len(all)) / elapsed.Seconds(), P50: ms(all[len(all)/2]), P99: ms(all[len(all)*99/100]),
		CPU: float64(cpu) / float64(len(all)) / float64(time.Microsecond),
	}, nil
}

// summarize returns the medians of the runs, in the order of their first.
func summarize(all []result) (medians []result) {
	for _, r := range all {
		if slices.ContainsFunc(medians, func(m result) bool { return m.Contestant == r.Contestant && m.Case == r.Case }) {
			continue
		}
		var same []result
		for _, x := range all {
			if x.Contestant == r.Contestant && x.Case == r.Case {
				same = append(same, x)
			}
		}
		slices.SortFunc(same, func(a, b result) int { return int(a.Rate - b.Rate) })
		medians = append(medians, same[len(same)/2])
	}
	return medians
}

func table(medians []result) {
	tw := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "CASE\tCONTESTANT\tPER SECOND\tMEDIAN\t99 %\tCPU EACH\tFLEASE IS\t")
	var ours float64 // of the case, or of renew for touch, which flease has no other word for
	for _, which := range cases {
		if which != "touch" {
			ours = 0
		}
		for _, m := range medians {
			if m.Case == which && m.Contestant == "flease" {
				ours = m.Rate
			}
		}
		for _, m := range medians {
			if m.Case == which {
				fmt.Fprintf(tw, "%s\t%s\t%.0f\t%.2f ms\t%.2f ms\t%.0f µs\t%.1f times\t\n", m.Case, m.Contestant, m.Rate, m.P50, m.P99, m.CPU, ours/m.Rate)
			}
		}
	}
	tw.Flush()
}
