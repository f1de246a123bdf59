package load

import (
	"cmp"
	"slices"
	"time"
)

// Result is what a case measured on a target in one run, or the medians of some runs. A value that
// the case does not measure is zero.
type Result struct {
	Case   string        `json:"case"`
	Target string        `json:"target"`
	Run    int           `json:"run"` // from 0; of medians, the number of runs
	Rate   float64       `json:"rate"`
	P50    time.Duration `json:"p50_ns"`
	P99    time.Duration `json:"p99_ns"`
	CPU    time.Duration `json:"cpu_ns"`          // of all members, for an operation
	Bytes  float64       `json:"bytes,omitempty"` // of memory, for a lease
	Local  float64       `json:"local,omitempty"` // share of the reads that were answered under a read lease
}

// Summary returns the result of operations that took some times, within a time that passed and a time of
// CPU.
func Summary(latencies []time.Duration, elapsed, cpu time.Duration) Result {
	if len(latencies) == 0 {
		return Result{}
	}
	slices.Sort(latencies)
	return Result{
		Rate: float64(len(latencies)) / elapsed.Seconds(),
		P50:  quantile(latencies, 0.50),
		P99:  quantile(latencies, 0.99),
		CPU:  cpu / time.Duration(len(latencies)),
	}
}

// quantile of a sorted list that is not empty.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Medians makes one result of the runs of each case on each target. The order is that of their first
// appearance, by case and then by target.
func Medians(runs []Result) (medians []Result) {
	var cases, targets []string
	for _, r := range runs {
		if !slices.Contains(cases, r.Case) {
			cases = append(cases, r.Case)
		}
		if !slices.Contains(targets, r.Target) {
			targets = append(targets, r.Target)
		}
	}
	for _, c := range cases {
		for _, t := range targets {
			var group []Result
			for _, r := range runs {
				if r.Case == c && r.Target == t {
					group = append(group, r)
				}
			}
			if len(group) > 0 {
				medians = append(medians, medianOf(group))
			}
		}
	}
	return medians
}

func medianOf(group []Result) Result {
	return Result{
		Case: group[0].Case, Target: group[0].Target, Run: len(group),
		Rate:  median(group, func(r Result) float64 { return r.Rate }),
		P50:   median(group, func(r Result) time.Duration { return r.P50 }),
		P99:   median(group, func(r Result) time.Duration { return r.P99 }),
		CPU:   median(group, func(r Result) time.Duration { return r.CPU }),
		Bytes: median(group, func(r Result) float64 { return r.Bytes }),
		Local: median(group, func(r Result) float64 { return r.Local }),
	}
}

func median[T cmp.Ordered](group []Result, of func(Result) T) T {
	var values []T
	for _, r := range group {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// Of returns the result of a case on a target.
func Of(results []Result, name, target string) (r Result, ok bool) {
	i := slices.IndexFunc(results, func(r Result) bool { return r.Case == name && r.Target == target })
	if i < 0 {
		return Result{}, false
	}
	return results[i], true
}

// Ratios are by what factor a result is better than a baseline, 0 where either is unknown.
type Ratios struct{ Rate, P50, P99, CPU, Bytes float64 }

// Better compares a result with a baseline. More operations a second are better, and less of all else.
func Better(baseline, r Result) Ratios {
	return Ratios{
		Rate:  ratio(r.Rate, baseline.Rate),
		P50:   ratio(float64(baseline.P50), float64(r.P50)),
		P99:   ratio(float64(baseline.P99), float64(r.P99)),
		CPU:   ratio(float64(baseline.CPU), float64(r.CPU)),
		Bytes: ratio(baseline.Bytes, r.Bytes),
	}
}

func ratio(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return a / b
}
