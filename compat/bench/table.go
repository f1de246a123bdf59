package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// summarize makes one result of the runs of each case and variant: medians, in
// the order of the cases, variants as they first appear.
func summarize(results []result) (medians []result) {
	type id struct{ name, variant string }
	groups := map[id][]result{}
	var order []id
	for _, r := range results {
		k := id{r.Case, r.Variant}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
	}
	for _, k := range order {
		g := groups[k]
		medians = append(medians, result{
			Case: k.name, Variant: k.variant, Run: len(g),
			Rate:  median(g, func(r result) float64 { return r.Rate }),
			P50:   median(g, func(r result) time.Duration { return r.P50 }),
			P99:   median(g, func(r result) time.Duration { return r.P99 }),
			CPU:   median(g, func(r result) time.Duration { return r.CPU }),
			Bytes: median(g, func(r result) float64 { return r.Bytes }),
			Local: median(g, func(r result) float64 { return r.Local }),
		})
	}
	position := func(r result) int {
		return slices.IndexFunc(cases, func(c benchCase) bool { return c.name == r.Case })
	}
	slices.SortStableFunc(medians, func(a, b result) int { return cmp.Compare(position(a), position(b)) })
	return medians
}

func median[T cmp.Ordered](results []result, of func(result) T) T {
	var values []T
	for _, r := range results {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// baseline is the result of etcd at its defaults for the same case.
func baseline(medians []result, r result) (result, bool) {
	i := slices.IndexFunc(medians, func(o result) bool { return o.Case == r.Case && o.Variant == "etcd" })
	if i < 0 {
		return result{}, false
	}
	return medians[i], true
}

// ratios are how much better than the baseline a result is, 0 for unknown.
type ratios struct{ rate, p50, p99, cpu, bytes float64 }

func compare(base, r result) ratios {
	return ratios{
		rate:  ratio(r.Rate, base.Rate),
		p50:   ratio(float64(base.P50), float64(r.P50)),
		p99:   ratio(float64(base.P99), float64(r.P99)),
		cpu:   ratio(float64(base.CPU), float64(r.CPU)),
		bytes: ratio(base.Bytes, r.Bytes),
	}
}

func ratio(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return a / b
}

func table(w io.Writer, medians []result) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer tw.Flush()
	fmt.Fprintln(tw, "case\tserver\tops/s\t×\tp50\t×\tp99\t×\tCPU/op\t×\tbytes\t×\t")
	last := ""
	for _, r := range medians {
		name := r.Case
		if name == last {
			name = ""
		}
		last = r.Case
		var x ratios
		if base, ok := baseline(medians, r); ok && r.Variant != "etcd" {
			x = compare(base, r)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, r.Variant,
			number(r.Rate), times(x.rate), duration(r.P50), times(x.p50), duration(r.P99), times(x.p99),
			duration(r.CPU), times(x.cpu), number(r.Bytes), times(x.bytes))
	}
}

func number(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", v)
}

func times(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}

func duration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return brief(d)
}
