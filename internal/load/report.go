package load

import (
	"bytes"
	_ "embed"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/chart"
)

// Report is a page about a measurement.
type Report struct {
	Title    string
	Began    time.Time
	Command  string      // that measures the same
	Facts    [][2]string // of the servers and of the machine, by name
	Baseline string      // the target to which others are compared; empty if there is but one
	Beside   string      // the baseline in words
	Medians  []Result
	Runs     []Result
}

//go:embed report.html
var reportHTML string

var reportPage = template.Must(template.New("report").Parse(reportHTML))

// HTML writes the page. It needs no other file.
func (r Report) HTML(w io.Writer) error {
	pictures, err := r.pictures()
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, c := range Cases {
		names[c.Name] = c.Text
	}
	var rows [][]string
	for _, m := range r.Medians {
		var b Ratios
		if base, ok := Of(r.Medians, m.Case, r.Baseline); ok && m.Target != r.Baseline {
			b = Better(base, m)
		}
		row := []string{m.Case, m.Target}
		for _, c := range measured(r.Medians) {
			row = append(row, c.text(m), Times(c.better(b)))
		}
		rows = append(rows, row)
	}
	head := []string{"case", "server"}
	for _, c := range measured(r.Medians) {
		head = append(head, c.name, "×")
	}
	var spread strings.Builder
	Table(&spread, r.Runs, "")
	return reportPage.Execute(w, map[string]any{
		"Report": r, "Began": r.Began.UTC().Format(time.RFC3339), "Head": head, "Rows": rows,
		"Pictures": pictures, "Texts": names, "Spread": spread.String(),
	})
}

// pictures shows by what factor each target is better than the baseline.
func (r Report) pictures() (list []template.HTML, err error) {
	if r.Baseline == "" {
		return nil, nil
	}
	for _, what := range []struct {
		title string
		of    func(Ratios) float64
	}{
		{"operations a second", func(b Ratios) float64 { return b.Rate }},
		{"CPU of the servers for an operation", func(b Ratios) float64 { return b.CPU }},
		{"latency, 99th percentile", func(b Ratios) float64 { return b.P99 }},
	} {
		c := chart.Ratios{Title: "Better than " + r.Beside + " by a factor of: " + what.title}
		known := false
		for _, m := range r.Medians {
			base, ok := Of(r.Medians, m.Case, r.Baseline)
			if !ok || m.Target == r.Baseline {
				continue
			}
			v := what.of(Better(base, m))
			known = known || v > 0
			c.Bars = append(c.Bars, chart.Ratio{Name: m.Case + ", " + m.Target, Value: v})
		}
		if !known {
			continue
		}
		var b bytes.Buffer
		if err := c.SVG(&b); err != nil {
			return nil, err
		}
		list = append(list, template.HTML(b.String())) // our own, and it escapes names
	}
	return list, nil
}
