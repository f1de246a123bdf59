package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tenure-lease/tenure/internal/chart"
	"github.com/tenure-lease/tenure/internal/load"
)

func table(w io.Writer, medians []result) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer tw.Flush()
	fmt.Fprintln(tw, "part\tvariant\ttook\t×\tprocess\t×\tCPU\t×\treads\tbytes\twrites\tbytes\tother\tbatches\t")
	last := ""
	for _, r := range medians {
		base := baseline(medians, r)
		name := r.Part
		if name == last {
			name = ""
		}
		last = r.Part
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, r.Variant,
			load.Brief(r.Took), times(base, r, base.Took, r.Took), load.Brief(r.Process), times(base, r, base.Process, r.Process),
			load.Brief(r.CPU), times(base, r, base.CPU, r.CPU),
			number(r.Reads), number(r.ReadBytes), number(r.Writes), number(r.WrittenBytes), number(r.Others), number(r.Batches))
	}
}

// times is how much better than the first variant of its part a result is.
func times(base, r result, a, b time.Duration) string {
	x := ratio(float64(a), float64(b))
	if x == 0 || base.Variant == r.Variant {
		return ""
	}
	return fmt.Sprintf("%.3g", x)
}

func number(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 10:
		return fmt.Sprintf("%.0f", v)
	default:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
}

// draw plots the CPU of a renewal.
func draw(path string, medians []result) error {
	c := chart.Chart{Title: "A renewal, by how many leases one process holds", X: "leases", Y: "CPU of all processes, µs"}
	for _, variant := range variants {
		line := chart.Line{Name: variant}
		for _, r := range medians {
			var n float64
			if _, err := fmt.Sscanf(r.Part, "cost %g", &n); err == nil && r.Variant == variant {
				line.Points = append(line.Points, [2]float64{n, float64(r.CPU) / 1000})
			}
		}
		if len(line.Points) > 0 {
			c.Lines = append(c.Lines, line)
		}
	}
	return chart.Write(path, c)
}
