package sim

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// The picture's measures, in pixels.
const (
	svgWidth  = 1280
	svgLeft   = 140 // where time begins; the lanes' names are before it
	svgRight  = 1260
	svgTop    = 70
	svgLane   = 44
	svgBottom = 76 // for the axis and the legend
	svgLetter = 6  // about how wide a letter of a label is
)

const svgStyle = `
text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#23272e}
.title{font-size:15px;font-weight:600}.wrong{fill:#c8102e;font-weight:600}.faint{fill:#6b7280}
.paper{fill:#ffffff}.odd{fill:#f4f6f8}.grid{stroke:#dfe3e8}.axis{stroke:#8a929c}
.holds{fill:#3574e2}.shares{fill:#2a9d8f}.label{fill:#ffffff}
.fault{fill:#f0a030;fill-opacity:.3}.once{stroke:#f0a030;stroke-width:2}
.writes{stroke:#177a3a;fill:#177a3a}.reads{stroke:#7c8591;fill:#7c8591}.remark{fill:#8a929c}
.clash{fill:#e5002b}.column{fill:#e5002b;fill-opacity:.12}.violation{stroke:#c8102e;stroke-width:2}
@media(prefers-color-scheme:dark){
text{fill:#d9dee6}.wrong{fill:#ff6474}.faint{fill:#97a1ae}
.paper{fill:#15181d}.odd{fill:#1c2027}.grid{stroke:#323943}.axis{stroke:#7b8592}
.holds{fill:#4f86e8}.shares{fill:#2f9f92}.label{fill:#ffffff}
.writes{stroke:#5bc981;fill:#5bc981}.reads{stroke:#98a2af;fill:#98a2af}.remark{fill:#7b8592}
.clash{fill:#ff3b52}.violation{stroke:#ff6474}}
`

// SVG draws the timeline's last part, with a lane for each host and client. Rights are
// bars, in red where two held them at once. Operations are lines whose arrow is where they
// ended, and faults are shades. Every shape tells more as a tooltip. It is readable on
// light and dark grounds.
func (t *Timeline) SVG(w io.Writer) error {
	p := picture{Writer: bufio.NewWriter(w), view: t.view()}
	p.draw(t.Title)
	return p.Flush()
}

// picture writes a view as SVG.
type picture struct {
	*bufio.Writer
	view
}

func (p *picture) put(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// x is where a time is, or the border that it is beyond.
func (p *picture) x(at time.Duration) float64 {
	at = min(max(at, p.from), p.to)
	return svgLeft + float64(at-p.from)/float64(max(p.to-p.from, 1))*(svgRight-svgLeft)
}

func (p *picture) bottom() int { return svgTop + svgLane*len(p.lanes) }

// y is where a mark's lane begins and how high it is: the whole picture for a mark
// that is about the whole world.
func (p *picture) y(m Mark) (y, height int) {
	for i, lane := range p.lanes {
		if lane == m.Lane {
			return svgTop + svgLane*i, svgLane
		}
	}
	return svgTop, p.bottom() - svgTop
}

func (p *picture) draw(title string) {
	height := p.bottom() + svgBottom
	p.put(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`, svgWidth, height, svgWidth, height)
	p.put(`<title>%s</title><style>%s</style>`, escape(title), svgStyle)
	p.put(`<rect class="paper" width="%d" height="%d"/>`, svgWidth, height)
	p.put(`<text class="title" x="16" y="26">%s</text>`, escape(title))
	p.put(`<text class="faint" x="%d" y="26" text-anchor="end">%s to %s of %s of true time</text>`, svgRight,
		tickLabel(p.from, time.Millisecond), tickLabel(p.to, time.Millisecond), tickLabel(p.total, time.Millisecond))
	for i, lane := range p.lanes {
		if i%2 == 1 {
			p.put(`<rect class="odd" y="%d" width="%d" height="%d"/>`, svgTop+svgLane*i, svgWidth, svgLane)
		}
		p.put(`<text x="16" y="%d">%s</text>`, svgTop+svgLane*i+26, escape(short(lane, (svgLeft-20)/svgLetter)))
	}
	p.axis()
	// Lower layers come first.
	for _, kinds := range [][]Kind{{Fault}, {Shares, Holds}, {Reads, Writes, Remark}} {
		for _, m := range p.marks {
			for _, k := range kinds {
				if m.Kind == k {
					p.mark(m)
				}
			}
		}
	}
	for _, c := range p.clashes {
		p.clash(c)
	}
	for _, m := range p.marks {
		if m.Kind == Violation {
			p.violation(m)
		}
	}
	p.legend()
	p.put(`</svg>`)
}

func (p *picture) axis() {
	y := p.bottom()
	step := tickStep(p.to - p.from)
	for at := (p.from + step - 1) / step * step; at <= p.to; at += step {
		x := p.x(at)
		p.put(`<path class="grid" d="M%.1f %dV%d"/>`, x, svgTop, y)
		p.put(`<text class="faint" x="%.1f" y="%d" text-anchor="middle">%s</text>`, x, y+16, tickLabel(at, step))
	}
	p.put(`<path class="axis" d="M%d %dH%d"/>`, svgLeft, y, svgRight)
}

// mark draws what happened to one lane.
func (p *picture) mark(m Mark) {
	y, height := p.y(m)
	x, width := p.x(m.From), p.x(m.To)-p.x(m.From)
	p.put(`<g><title>%s</title>`, p.tip(m))
	switch m.Kind {
	case Holds, Shares:
		p.put(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="16" rx="2"/>`, m.Kind, x, y+6, max(width, 1))
		p.label("label", m.Text, x, width, y+18)
	case Fault:
		if m.From == m.To {
			p.put(`<path class="once" d="M%.1f %dV%d"/>`, x, y, y+height)
			break
		}
		p.put(`<rect class="fault" x="%.1f" y="%d" width="%.1f" height="%d"/>`, x, y, max(width, 1), height)
		p.label("faint", m.Text, x, width, y+height-4)
	case Writes, Reads:
		head := "m-3 0l3-6l3 6z" // an arrow up, for what goes to the store
		if m.Kind == Reads {
			head = "m-3 0l3 6l3-6z"
		}
		if m.open {
			head = "" // it never ended
		}
		p.put(`<path class="%s" d="M%.1f %dh%.1f%s"/>`, m.Kind, x, y+32, width, head)
	case Remark:
		if m.Lane == "" {
			y = p.bottom() - 32
		}
		p.put(`<circle class="remark" cx="%.1f" cy="%d" r="2.5"/>`, x, y+32)
	}
	p.put(`</g>`)
}

// label writes on a bar if it fits.
func (p *picture) label(class, text string, x, width float64, y int) {
	if text != "" && width > float64(svgLetter*len(text)+8) {
		p.put(`<text class="%s" x="%.1f" y="%d">%s</text>`, class, x+4, y, escape(text))
	}
}

func (p *picture) clash(c clash) {
	x, width := p.x(c.from), max(p.x(c.to)-p.x(c.from), 1.5)
	a, b := p.marks[c.a], p.marks[c.b]
	p.put(`<g><title>%s and %s at once for %s: %s</title>`, escape(a.Lane), escape(b.Lane), strings.TrimPrefix(lasting(c.to-c.from), "+"), escape(b.Right))
	p.put(`<rect class="column" x="%.1f" y="%d" width="%.1f" height="%d"/>`, x, svgTop, width, p.bottom()-svgTop)
	for _, m := range []Mark{a, b} {
		y, _ := p.y(m)
		p.put(`<rect class="clash" x="%.1f" y="%d" width="%.1f" height="16"/>`, x, y+6, width)
		if p.x(m.From) == x {
			p.label("label", m.Text, x, width, y+18)
		}
	}
	p.put(`</g>`)
}

func (p *picture) violation(m Mark) {
	x := p.x(m.From)
	p.put(`<g><title>%s</title><path class="violation" d="M%.1f %dV%d"/>`, p.tip(m), x, svgTop-12, p.bottom())
	anchor := "start"
	if x > svgWidth/2 {
		anchor = "end"
	}
	p.put(`<text class="wrong" x="%.1f" y="%d" text-anchor="%s">%s</text></g>`, x, svgTop-18, anchor, escape(short(m.Text, 120)))
}

func (p *picture) legend() {
	y := p.bottom() + 52
	x := svgLeft
	for _, e := range []struct{ shape, text string }{
		{`<rect class="holds" width="18" height="10" rx="2"/>`, "holds alone"},
		{`<rect class="shares" width="18" height="10" rx="2"/>`, "shares"},
		{`<rect class="clash" width="18" height="10"/>`, "held by two at once"},
		{`<path class="writes" d="M0 8h14m-3 0l3-6l3 6z"/>`, "writes"},
		{`<path class="reads" d="M0 3h14m-3 0l3 6l3-6z"/>`, "reads"},
		{`<circle class="remark" cx="9" cy="5" r="2.5"/>`, "remark"},
		{`<rect class="fault" width="18" height="10"/>`, "fault"},
		{`<line class="violation" x1="9" y1="-3" x2="9" y2="12"/>`, "violation"},
	} {
		p.put(`<g transform="translate(%d %d)">%s<text x="24" y="9">%s</text></g>`, x, y, e.shape, e.text)
		x += 42 + svgLetter*len(e.text)
	}
}

// tip is a mark's tooltip.
func (p *picture) tip(m Mark) string {
	s := fmt.Sprintf("%s %s, %.6f s %s", m.Lane, m.say(), m.From.Seconds(), lasting(m.To-m.From))
	return escape(strings.TrimSpace(s))
}

// tickStep is a round step that divides d into about ten.
func tickStep(d time.Duration) time.Duration {
	for step := time.Duration(1); ; step *= 10 {
		for _, n := range []time.Duration{1, 2, 5} {
			if n*step*12 >= d {
				return n * step
			}
		}
	}
}

// tickLabel writes a time with no more digits than steps of this size need.
func tickLabel(at, step time.Duration) string {
	digits := 0
	for s := step; s < time.Second && digits < 9; s *= 10 {
		digits++
	}
	return fmt.Sprintf("%.*f s", digits, at.Seconds())
}

func short(s string, n int) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
