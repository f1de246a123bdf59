package chart

import (
	"fmt"
	"io"
	"math"
)

// Ratios is a picture of factors around 1, on a logarithmic scale: a bar to the right is better than the
// baseline, one to the left is worse.
type Ratios struct {
	Title string
	Bars  []Ratio
}

// Ratio is a bar. A value of 0 is not known, and has none.
type Ratio struct {
	Name  string
	Value float64
}

const (
	ratioRow    = 22
	ratioMiddle = 430 // where a factor of 1 is
	ratioOctave = 60  // pixels of a factor of two
)

// SVG writes the picture. It wants a bar.
func (r Ratios) SVG(out io.Writer) error {
	if len(r.Bars) == 0 {
		return fmt.Errorf("chart %q has nothing to draw", r.Title)
	}
	tall := (len(r.Bars) + 2) * ratioRow
	p := pictureOf(out, r.Title, width, tall)
	for i, b := range r.Bars {
		y := (i+1)*ratioRow + 12
		p.put(`<text x="%d" y="%d" text-anchor="end">%s</text>`, ratioMiddle-158, y+15, escape(b.Name))
		if b.Value <= 0 {
			continue
		}
		length := max(-150, min(math.Log2(b.Value)*ratioOctave, width-ratioMiddle-60))
		better := 2 // the index of a color
		if length < 0 {
			better = 1
		}
		p.put(`<rect x="%.0f" y="%d" width="%.0f" height="%d" fill="%s"/>`, ratioMiddle+min(length, 0), y+3, math.Abs(length), ratioRow-6, color(better))
		p.put(`<text x="%.0f" y="%d">%.2f</text>`, ratioMiddle+max(length, 0)+6, y+15, b.Value)
	}
	p.put(`<line class="error" x1="%d" y1="%d" x2="%d" y2="%d"/>`, ratioMiddle, ratioRow+12, ratioMiddle, tall-ratioRow+14)
	return p.end()
}
