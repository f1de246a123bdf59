package chart

import (
	"fmt"
	"math"
)

// axis maps values to pixels.
type axis struct {
	low, high float64 // of values, or of their decimal logarithms
	from, to  float64 // pixels
	log       bool
	step      float64 // between lines of the grid, in what low and high are in
}

// newAxis covers all values. Logarithmic, it does so by whole decades, of which there
// is one at least.
func newAxis(values []float64, log bool, from, to float64) axis {
	a := axis{low: math.Inf(1), high: math.Inf(-1), from: from, to: to, log: log, step: 1}
	for _, v := range values {
		a.low, a.high = min(a.low, a.scale(v)), max(a.high, a.scale(v))
	}
	if !log {
		if a.low > 0 && a.low < a.high/2 {
			a.low = 0
		}
		if a.high == a.low {
			a.high++
		}
		a.step = niceStep(a.high - a.low)
	}
	a.low, a.high = math.Floor(a.low/a.step)*a.step, math.Ceil(a.high/a.step)*a.step
	a.high = max(a.high, a.low+a.step)
	return a
}

// niceStep is 1, 2 or 5 times a power of ten, of which a range has four to ten.
func niceStep(span float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(span/4)))
	for _, times := range []float64{5, 2} {
		if span/(times*unit) >= 4 {
			return times * unit
		}
	}
	return unit
}

// scale is what pixels are proportional to.
func (a axis) scale(v float64) float64 {
	if a.log {
		return math.Log10(v)
	}
	return v
}

func (a axis) at(v float64) float64 {
	return a.from + (a.scale(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

// ticks are the values at which the grid has lines.
func (a axis) ticks() (values []float64) {
	for i := range int(math.Round((a.high-a.low)/a.step)) + 1 {
		v := a.low + float64(i)*a.step
		if a.log {
			v = math.Pow10(int(math.Round(v)))
		}
		values = append(values, v)
	}
	return values
}

// label writes a tick's value without the noise of floating point.
func (a axis) label(v float64) string {
	if !a.log {
		v = math.Round(v/a.step) * a.step
	}
	return fmt.Sprintf("%.6g", v)
}
