// Package chart draws a benchmark's results as SVG: lines, distributions and points on linear
// or logarithmic axes, groups of bars, and factors beside a baseline.
//
//	c := chart.Chart{Title: "Writes", X: "latency, ms", Y: "share", LinearY: true}
//	c.Lines = append(c.Lines, chart.Line{Name: "all", Shape: chart.Plain, Points: cdf})
//	err := c.SVG(w)
//
// A picture adapts to a dark page, and can stand alone or inside HTML. gonum/plot can
// do more and brings eight modules, PDF and TeX among them.
package chart
