package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/tenure-lease/tenure/internal/lab/widearea"
)

//go:embed quorum_leases.html
var quorumLeasesPage string

// quorumLeasesHTML writes a page that needs no other file.
func quorumLeasesHTML(w io.Writer, r widearea.Report, figures []figure) error {
	page, err := template.New("report").Funcs(template.FuncMap{
		"figures": func(part string) (list []template.HTML) {
			for _, f := range figures {
				if f.part == part {
					list = append(list, template.HTML(f.svg)) // our own, with all names escaped
				}
			}
			return list
		},
		"percent":    percent,
		"minimum":    func(s widearea.SiteOutcome) string { return atMinimum(r, s) },
		"ms":         func(v float64) string { return fmt.Sprintf("%.1f", v) },
		"s":          func(v float64) string { return fmt.Sprintf("%.2f", v) },
		"lease":      leaseLength,
		"wait":       longestWait,
		"seconds":    func(ms float64) float64 { return ms / 1000 },
		"control":    controlName,
		"atMost":     lengths,
		"rate":       func(v float64) string { return fmt.Sprintf("%.0f", v) },
		"throughput": throughputName,
		"services":   func() any { return widearea.ServiceTimes },
		"floor":      func(site int) string { return fmt.Sprintf("%.0f", widearea.Floor(site).Seconds()*1000) },
		"floorByKey": func(site int) string { return fmt.Sprintf("%.0f", widearea.FloorByKey(site).Seconds()*1000) },
	}).Parse(quorumLeasesPage)
	if err != nil {
		return err
	}
	err = page.Execute(w, map[string]any{
		"Report": r, "Statements": statementRows(r), "Real": realRows(r.Real), "Sites": widearea.Sites, "RoundTrips": widearea.RoundTrips,
		"Deaths": slices.Concat(r.Measured.Deaths, r.Measured.Sweep), "Full": r.Measured.Size == widearea.Full,
		"Controls": slices.Concat(r.Measured.Controls.Deaths, r.Measured.Controls.Sweep),
	})
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
