package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/replicasim"
	"github.com/tenure-lease/tenure/internal/lab/widearea"
	"github.com/tenure-lease/tenure/internal/lab/widearea/live"
)

// realRuns plays each policy for some time over real members, and in virtual time. An error or
// an interrupt ends it; earlier measurements are returned in any case.
func realRuns(ctx context.Context, plan widearea.Plan, length time.Duration) (pairs []widearea.Pair, err error) {
	line := cli.NewProgress(os.Stderr, 2*len(plan.Policies), "")
	defer line.Clear()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt) // members clean up behind them
	defer stop()
	for i, policy := range plan.Policies {
		if replicasim.CheckPolicy(policy) != nil {
			continue // the report names it
		}
		show := func(done int, how string) {
			line.What = fmt.Sprintf("runs of %v (now: %s, %s)", length, policy, how)
			line.Show(done, 0)
		}
		var p widearea.Pair
		show(2*i, "real time")
		p.Real, err = live.Run{Seed: plan.Seed, Policy: policy, Length: plan.Length, Workload: widearea.Table2, Size: plan.Size, For: length}.Play(ctx)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return pairs, err
		}
		show(2*i+1, "virtual time")
		p.Virtual, err = widearea.Run{Seed: plan.Seed, Policy: policy, Length: plan.Length, Workload: widearea.Table2, Size: plan.Size, For: length}.Play()
		if err != nil {
			return pairs, err
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// realRow is something that was measured in real and in virtual time, over all sites.
type realRow struct{ Policy, What, Real, Virtual, Difference string }

// realRows say by how much the two differ.
func realRows(pairs []widearea.Pair) (rows []realRow) {
	for _, p := range pairs {
		real, virtual := p.Real.Average(widearea.LocalReads), p.Virtual.Average(widearea.LocalReads)
		rows = append(rows, realRow{p.Real.Policy, "reads < 10 ms", percent(real), percent(virtual), fmt.Sprintf("%+.1f points", 100*(real-virtual))})
		for _, row := range []struct {
			what string
			of   func(widearea.SiteOutcome) float64
		}{{"mean read", widearea.MeanRead}, {"mean write", widearea.MeanWrite}} {
			real, virtual := p.Real.Average(row.of), p.Virtual.Average(row.of)
			rows = append(rows, realRow{p.Real.Policy, row.what, fmt.Sprintf("%.1f ms", real), fmt.Sprintf("%.1f ms", virtual), fmt.Sprintf("%+.1f ms", real-virtual)})
		}
		rows = append(rows, realRow{p.Real.Policy, "stale, failed", fmt.Sprintf("%d, %d", p.Real.Stale, p.Real.Failed), fmt.Sprintf("%d, %d", p.Virtual.Stale, p.Virtual.Failed), ""})
		if p.Real.Elections > 0 {
			rows = append(rows, realRow{p.Real.Policy, "elections", fmt.Sprint(p.Real.Elections), "0", "another may have led: run it again"})
		}
	}
	return rows
}

// realTable prints them.
func realTable(w io.Writer, pairs []widearea.Pair) {
	if len(pairs) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s, %.0f s from an empty store, of which the first %.0f do not count; means over the sites:\n",
		pairs[0].Virtual.Workload, pairs[0].Virtual.Virtual, widearea.Settling(time.Duration(pairs[0].Virtual.Virtual*float64(time.Second))).Seconds())
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, strings.Join([]string{"POLICY", "", "REAL TIME", "VIRTUAL TIME", "DIFFERENCE", ""}, "\t"))
	for _, r := range realRows(pairs) {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t\n", r.Policy, r.What, r.Real, r.Virtual, r.Difference)
	}
	tw.Flush()
}
