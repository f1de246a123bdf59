package chart

import (
	"fmt"
	"io"
)

// Bars is a picture of groups of bars, from zero up.
type Bars struct {
	Title, Y string // subject and unit
	Groups   []string
	Series   []Series
}

// Series has a bar in each group.
type Series struct {
	Name string
	Bars []Bar
}

// Bar is a value, and between which bounds it may lie; without them there is no error
// bar.
type Bar struct{ Value, Low, High float64 }

// SVG writes the picture. It wants a group, and for each group a bar of each series.
func (b Bars) SVG(out io.Writer) error {
	values := []float64{0}
	for _, s := range b.Series {
		if len(s.Bars) != len(b.Groups) {
			return fmt.Errorf("chart %q: %q has %d bars for %d groups", b.Title, s.Name, len(s.Bars), len(b.Groups))
		}
		for _, v := range s.Bars {
			values = append(values, v.Value, v.High)
		}
	}
	if len(values) == 1 {
		return fmt.Errorf("chart %q has nothing to draw", b.Title)
	}
	y := newAxis(values, false, bottom, top)
	p := newPicture(out, b.Title, "", b.Y)
	p.upright(y)
	group := float64(right-left) / float64(len(b.Groups))
	wide := 0.8 * group / float64(len(b.Series))
	for g, name := range b.Groups {
		from := left + (float64(g)+0.1)*group
		p.put(`<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, from+0.4*group, bottom+18, escape(name))
		for i, s := range b.Series {
			v, x := s.Bars[g], from+float64(i)*wide
			p.put(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s, %s: %.4g</title></rect>`,
				x, y.at(v.Value), 0.9*wide, y.at(0)-y.at(v.Value), color(i), escape(name), escape(s.Name), v.Value)
			if v.Low < v.High {
				middle := x + 0.45*wide
				p.put(`<line class="error" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, middle, y.at(v.Low), middle, y.at(v.High))
			}
		}
	}
	for i, s := range b.Series {
		p.legend(i, s.Name)
	}
	return p.end()
}
