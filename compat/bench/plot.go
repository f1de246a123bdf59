package main

import (
	"fmt"
	"math"
	"strings"
)

// plot draws one bar a case and variant: how much better than etcd at its
// defaults, on a logarithmic scale around 1. The figure is CPU per operation
// where it was measured, else memory, else the p99 latency.
func plot(medians []result) []byte {
	type bar struct {
		label string
		value float64
	}
	var bars []bar
	for _, r := range medians {
		base, ok := baseline(medians, r)
		if !ok || r.Variant == "etcd" || r.Variant == string(kindEcho) {
			continue
		}
		x := compare(base, r)
		switch {
		case strings.HasPrefix(r.Case, "expiry") || r.Case == "lock" || r.Case == "watch":
			bars = append(bars, bar{r.Case + " p99, " + r.Variant, x.p99})
		case x.cpu > 0:
			bars = append(bars, bar{r.Case + " CPU/op, " + r.Variant, x.cpu})
		case x.bytes > 0:
			bars = append(bars, bar{r.Case + ", " + r.Variant, x.bytes})
		default:
			bars = append(bars, bar{r.Case + ", " + r.Variant, x.p99})
		}
	}
	const (
		height = 22
		middle = 430 // where a ratio of 1 is
		width  = 800
		octave = 60 // pixels of a factor of two
	)
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		width, (len(bars)+2)*height)
	fmt.Fprintf(&svg, `<text x="8" y="15">Better than stock etcd by a factor of (right of the line is better)</text>`+"\n")
	for i, b := range bars {
		y := (i + 1) * height
		length := 0.0
		if b.value > 0 {
			length = max(-150, min(math.Log2(b.value)*octave, width-middle-50))
		}
		color := "#2a7"
		if length < 0 {
			color = "#c44"
		}
		fmt.Fprintf(&svg, `<text x="8" y="%d">%s</text>`+"\n", y+15, b.label)
		fmt.Fprintf(&svg, `<rect x="%.0f" y="%d" width="%.0f" height="%d" fill="%s"/>`+"\n",
			middle+min(length, 0), y+3, math.Abs(length), height-6, color)
		fmt.Fprintf(&svg, `<text x="%.0f" y="%d">%.2f</text>`+"\n", middle+max(length, 0)+6, y+15, b.value)
	}
	fmt.Fprintf(&svg, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="black"/>`+"\n</svg>\n",
		middle, height, middle, (len(bars)+1)*height)
	return []byte(svg.String())
}
