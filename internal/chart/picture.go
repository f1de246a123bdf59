package chart

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	width, height            = 760, 440
	left, right, top, bottom = 70, 590, 48, 390
)

var colors = []string{"#3574e2", "#e2703a", "#2a9d8f", "#b5489c", "#8a7a1f", "#6b7280", "#d11f5b", "#4a3aa7"}

const style = `text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#23272e}.title{font-size:15px;font-weight:600}
.paper{fill:#fff}.grid{stroke:#dfe3e8}.error{stroke:#23272e}path{fill:none;stroke-width:2}
@media(prefers-color-scheme:dark){text{fill:#d9dee6}.paper{fill:#15181d}.grid{stroke:#323943}.error{stroke:#d9dee6}}`

// Picture is what this package draws.
type Picture interface{ SVG(io.Writer) error }

// Write writes a picture to a file.
func Write(path string, p Picture) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(p.SVG(f), f.Close())
}

// picture is an SVG that is being written.
type picture struct{ out *bufio.Writer }

func (p picture) put(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// pictureOf begins an SVG of some size, with its title.
func pictureOf(out io.Writer, title string, wide, tall int) picture {
	p := picture{bufio.NewWriter(out)}
	p.put(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d"><style>%s</style>`, wide, tall, wide, tall, style)
	p.put(`<rect class="paper" width="%d" height="%d"/><text class="title" x="%d" y="24">%s</text>`, wide, tall, left, escape(title))
	return p
}

// newPicture begins an SVG with its title and the labels of the axes.
func newPicture(out io.Writer, title, x, y string) picture {
	p := pictureOf(out, title, width, height)
	p.put(`<text x="%d" y="%d" text-anchor="middle">%s</text>`, (left+right)/2, height-12, escape(x))
	p.put(`<text x="%d" y="%d">%s</text>`, 8, top-10, escape(y))
	return p
}

// upright draws the lines of the vertical axis, which lie across.
func (p picture) upright(y axis) {
	for _, v := range y.ticks() {
		at := y.at(v)
		p.put(`<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, left, at, right, at, left-8, at+4, y.label(v))
	}
}

// level draws the lines of the horizontal axis.
func (p picture) level(x axis) {
	for _, v := range x.ticks() {
		at := x.at(v)
		p.put(`<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`, at, top, at, bottom, at, bottom+18, x.label(v))
	}
}

// legend names the ith color.
func (p picture) legend(i int, name string) {
	p.put(`<rect x="%d" y="%d" width="14" height="4" fill="%s"/><text x="%d" y="%d">%s</text>`, right+16, top+12+i*22, color(i), right+36, top+18+i*22, escape(name))
}

// end ends the SVG, and reports whether all could be written.
func (p picture) end() error {
	p.put(`</svg>`)
	return p.out.Flush()
}

func color(i int) string { return colors[i%len(colors)] }

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes all
	return b.String()
}
