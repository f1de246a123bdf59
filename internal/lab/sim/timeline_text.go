package sim

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"time"
)

// text writes the timeline's last part as lines: when, for how long, who, what.
func (t *Timeline) text(w io.Writer) error {
	v := t.view()
	b := bufio.NewWriter(w)
	if t.Title != "" {
		fmt.Fprintf(b, "%s: ", t.Title)
	}
	fmt.Fprintf(b, "from %.6f s to %.6f s of %.6f s\n", v.from.Seconds(), v.to.Seconds(), v.total.Seconds())
	width := 0
	for _, lane := range v.lanes {
		width = max(width, len(lane))
	}
	for i, m := range v.marks {
		fmt.Fprintf(b, "%14.6f %12s  %-*s  %s\n", m.From.Seconds(), lasting(m.To-m.From), width, m.Lane, m.say())
		for _, c := range v.clashes {
			if c.b == i {
				fmt.Fprintf(b, "%14.6f %12s  %-*s  AT ONCE WITH %s\n", c.from.Seconds(), lasting(c.to-c.from), width, m.Lane, v.marks[c.a].Lane)
			}
		}
	}
	return b.Flush()
}

// lasting is a duration with three digits.
func lasting(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	unit := time.Duration(1)
	for _, u := range []time.Duration{time.Microsecond, time.Millisecond, time.Second} {
		if d >= u {
			unit = u
		}
	}
	return "+" + d.Round(max(unit/1000, 1)).String()
}

// say says what a mark shows.
func (m *Mark) say() string {
	parts := []string{m.Kind.String(), m.Right, m.Text}
	s := ""
	for _, p := range slices.DeleteFunc(parts, func(p string) bool { return p == "" }) {
		if s != "" {
			s += " "
		}
		s += p
	}
	return s
}
