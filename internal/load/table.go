package load

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Table prints medians, a line each, and by what factor each is better than the baseline's. Columns that
// nobody has measured are left out.
func Table(w io.Writer, medians []Result, baseline string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer tw.Flush()
	columns := measured(medians)
	fmt.Fprint(tw, "case\tserver\t")
	for _, c := range columns {
		fmt.Fprintf(tw, "%s\t×\t", c.name)
	}
	fmt.Fprintln(tw)
	last := ""
	for _, r := range medians {
		name := r.Case
		if name == last {
			name = ""
		}
		last = r.Case
		var better Ratios
		if base, ok := Of(medians, r.Case, baseline); ok && r.Target != baseline {
			better = Better(base, r)
		}
		fmt.Fprintf(tw, "%s\t%s\t", name, r.Target)
		for _, c := range columns {
			fmt.Fprintf(tw, "%s\t%s\t", c.text(r), Times(c.better(better)))
		}
		fmt.Fprintln(tw)
	}
}

// column is one of the values of a result.
type column struct {
	name   string
	text   func(Result) string // empty for one that is not measured
	better func(Ratios) float64
}

var columns = []column{
	{"ops/s", func(r Result) string { return number(r.Rate) }, func(b Ratios) float64 { return b.Rate }},
	{"p50", func(r Result) string { return Brief(r.P50) }, func(b Ratios) float64 { return b.P50 }},
	{"p99", func(r Result) string { return Brief(r.P99) }, func(b Ratios) float64 { return b.P99 }},
	{"CPU/op", func(r Result) string { return Brief(r.CPU) }, func(b Ratios) float64 { return b.CPU }},
	{"bytes", func(r Result) string { return number(r.Bytes) }, func(b Ratios) float64 { return b.Bytes }},
}

// measured are the columns in which some result has a value.
func measured(results []Result) (list []column) {
	for _, c := range columns {
		for _, r := range results {
			if c.text(r) != "" {
				list = append(list, c)
				break
			}
		}
	}
	return list
}

func number(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", v)
}

// Times prints a factor, nothing if it is not known.
func Times(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}

// Brief prints a duration with three digits or so, nothing if there is none.
func Brief(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(100 * time.Nanosecond).String()
	}
}
