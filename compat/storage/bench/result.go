package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/load"
)

// result is a variant of a part in one run, or the medians of several. Values that were not
// measured are zero.
type result struct {
	Part, Variant string
	Runs          int
	Took          time.Duration // the operation; the median of all renewals
	Process       time.Duration // of a whole process that does only that
	CPU           time.Duration // for an operation; without leases, for a second
	Reads, Writes float64       // for an operation
	ReadBytes     float64
	WrittenBytes  float64
	Others        float64 // other system calls on the files
	Batches       float64 // asked of stores
}

func (r result) String() string {
	parts := []string{fmt.Sprintf("%-9s %-13s %s", r.Part, r.Variant, load.Brief(r.Took))}
	if r.Process > 0 {
		parts = append(parts, "process "+load.Brief(r.Process))
	}
	if r.CPU > 0 {
		parts = append(parts, "CPU "+load.Brief(r.CPU))
	}
	return strings.Join(parts, "  ")
}

// summarize makes one result of all of each variant of each part, in the order of parts
// and, within, of variants.
func summarize(results []result) (medians []result) {
	type id struct{ part, variant string }
	groups := map[id][]result{}
	for _, r := range results {
		groups[id{r.Part, r.Variant}] = append(groups[id{r.Part, r.Variant}], r)
	}
	for _, part := range parts {
		for _, variant := range variants {
			g := groups[id{part, variant}]
			if g == nil {
				continue
			}
			medians = append(medians, result{
				Part: part, Variant: variant, Runs: len(g),
				Took:         median(g, func(r result) float64 { return float64(r.Took) }, time.Duration(0)),
				Process:      median(g, func(r result) float64 { return float64(r.Process) }, time.Duration(0)),
				CPU:          median(g, func(r result) float64 { return float64(r.CPU) }, time.Duration(0)),
				Reads:        median(g, func(r result) float64 { return r.Reads }, 0.0),
				Writes:       median(g, func(r result) float64 { return r.Writes }, 0.0),
				ReadBytes:    median(g, func(r result) float64 { return r.ReadBytes }, 0.0),
				WrittenBytes: median(g, func(r result) float64 { return r.WrittenBytes }, 0.0),
				Others:       median(g, func(r result) float64 { return r.Others }, 0.0),
				Batches:      median(g, func(r result) float64 { return r.Batches }, 0.0),
			})
		}
	}
	return medians
}

// median is that of the results in which a value was measured, as a number like zero.
func median[T time.Duration | float64](results []result, of func(result) float64, zero T) T {
	var values []float64
	for _, r := range results {
		if v := of(r); v != 0 {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return zero + T(quantile(values, 0.5))
}

// baseline is the first variant of the same part.
func baseline(medians []result, r result) result {
	i := slices.IndexFunc(medians, func(o result) bool { return o.Part == r.Part })
	return medians[i]
}

func ratio(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return a / b
}
