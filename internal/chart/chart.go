package chart

import (
	"fmt"
	"io"
	"strings"
)

// Chart is a picture of some lines.
type Chart struct {
	Title, X, Y string // of the axes: subject and unit
	// LinearX and LinearY make an axis linear; else it is logarithmic.
	LinearX, LinearY bool
	Lines            []Line
}

// Line is a series of points. Those that have no place on a logarithmic axis, because
// they are not positive, are left out.
type Line struct {
	Name   string
	Points [][2]float64
	Shape  Shape
}

// Shape is how a Line looks.
type Shape int

const (
	Marked Shape = iota // joined points, each with its values as a tooltip
	Plain               // joined points
	Steps               // level from each point to the next, as a distribution is
	Dots                // points alone, however many
)

// SVG writes the chart. It wants at least one point.
func (c Chart) SVG(out io.Writer) error {
	var xs, ys []float64
	lines := make([]Line, 0, len(c.Lines))
	for _, l := range c.Lines {
		shown := Line{Name: l.Name, Shape: l.Shape}
		for _, p := range l.Points {
			if (c.LinearX || p[0] > 0) && (c.LinearY || p[1] > 0) {
				xs, ys = append(xs, p[0]), append(ys, p[1])
				shown.Points = append(shown.Points, p)
			}
		}
		lines = append(lines, shown)
	}
	if len(xs) == 0 {
		return fmt.Errorf("chart %q has nothing to draw", c.Title)
	}
	x, y := newAxis(xs, !c.LinearX, left, right), newAxis(ys, !c.LinearY, bottom, top)
	p := newPicture(out, c.Title, c.X, c.Y)
	p.level(x)
	p.upright(y)
	for i, l := range lines {
		p.line(i, l, x, y)
		p.legend(i, l.Name)
	}
	return p.end()
}

// line draws the ith line.
func (p picture) line(i int, l Line, x, y axis) {
	var path strings.Builder
	for j, pt := range l.Points {
		px, py := x.at(pt[0]), y.at(pt[1])
		switch {
		case l.Shape == Dots:
			fmt.Fprintf(&path, "M%.1f %.1fh0", px, py)
		case l.Shape == Steps && j > 0:
			fmt.Fprintf(&path, "H%.1fV%.1f", px, py)
		default:
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(j, 1)], px, py)
		}
		if l.Shape == Marked {
			p.put(`<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"><title>%s: %g at %g</title></circle>`, px, py, color(i), escape(l.Name), pt[1], pt[0])
		}
	}
	look := ""
	if l.Shape == Dots {
		look = ` style="stroke-width:3;stroke-linecap:round;opacity:.6"`
	}
	p.put(`<path d="%s" stroke="%s"%s/>`, path.String(), color(i), look)
}
