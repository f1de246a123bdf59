package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/tenure-lease/tenure/internal/chart"
	"github.com/tenure-lease/tenure/internal/lab/widearea"
)

// controlName describes how promises come about, and with which lengths.
func controlName(t widearea.Toll) string {
	if t.Control == "" {
		return "asked for, " + leaseLength(t.Length)
	}
	return fmt.Sprintf("%s, %g+%g+%g s", t.Control, t.Grace, t.Guard, t.Length)
}

// longestWait is how long a write waited at most, in seconds.
func longestWait(t widearea.Toll) float64 { return t.Held.Slowest / 1000 }

// drawing is a figure to be.
type drawing struct {
	part, name string
	picture    chart.Picture
}

// controlDrawings are all figures of the paper's own protocol, and ours beside.
func controlDrawings(r widearea.Report) (list []drawing) {
	deaths := r.Measured.Controls.Deaths
	if len(deaths) == 0 {
		return nil
	}
	var sites []string
	for i, t := range deaths {
		list = append(list, drawing{partControls, fmt.Sprintf("%d %s", i+1, t.Site), controlOverTime(t)})
		if !slices.Contains(sites, t.Site) {
			sites = append(sites, t.Site)
		}
	}
	for _, site := range sites {
		list = append(list, drawing{partControls, "waits " + site, controlBars(r, site)})
	}
	list = append(list, drawing{partControls, "local reads", localBefore(r)})
	if len(r.Measured.Controls.Changes) > 0 {
		list = append(list, drawing{partControls, "changes", localAround(r)})
	}
	return append(list, drawing{partControlSweep, "lengths", controlSweep(r)}, drawing{partControlSweep, "messages", controlCost(r)})
}

// controlBars are the longest waits when a replica dies, under our protocol and the
// paper's.
func controlBars(r widearea.Report, site string) chart.Bars {
	b := chart.Bars{
		Title: "Longest wait of a write when the replica at " + site + " dies", Y: "seconds",
		Groups: []string{"keys read at " + site, "other keys"},
	}
	if site != widearea.Sites[widearea.Leader] {
		b.Title += " (the paper: about 9 s)"
	}
	for _, t := range r.Measured.Controls.Deaths {
		if t.Site == site {
			b.Series = append(b.Series, chart.Series{Name: controlName(t), Bars: []chart.Bar{
				{Value: longestWait(t)}, {Value: t.Other.Slowest / 1000},
			}})
		}
	}
	return b
}

// controlOverTime is Figure 7 under our protocol or the paper's.
func controlOverTime(t widearea.Toll) chart.Chart {
	c := deathOverTime(t)
	c.Title = fmt.Sprintf("Promises %s: the replica at %s dies", controlName(t), t.Site)
	return c
}

// localBefore shows the share of local reads before the first death: under the paper's ways
// leases lapse whenever the configuration changes.
func localBefore(r widearea.Report) chart.Chart {
	c := chart.Chart{
		Title: "Reads below 10 ms, over all sites", X: "seconds from the first death", Y: "share", LinearX: true, LinearY: true,
	}
	for _, t := range r.Measured.Controls.Deaths {
		if t.Site != widearea.Sites[widearea.Leader] && len(t.Before) > 0 {
			c.Lines = append(c.Lines, chart.Line{Name: controlName(t), Points: t.Before})
		}
	}
	return c
}

// controlSeries are the tolls of the sweep in which one length differs from the
// paper's, or all do.
func controlSeries(r widearea.Report) (list []chartOf) {
	paper := [3]float64{2, 2, 5} // lease, guard, grace
	list = []chartOf{{name: "asked for"}, {name: "lease differs"}, {name: "guard differs"}, {name: "grace differs"}, {name: "all differ"}}
	for _, t := range r.Measured.Controls.Sweep {
		if t.Control == "" {
			list[0].tolls = append(list[0].tolls, t)
			continue
		}
		same := [3]bool{t.Length == paper[0], t.Guard == paper[1], t.Grace == paper[2]}
		for i := range same {
			if same[(i+1)%3] && same[(i+2)%3] { // the paper's own is in each
				list[1+i].tolls = append(list[1+i].tolls, t)
			}
		}
		if f := t.Length / paper[0]; t.Guard == f*paper[1] && t.Grace == f*paper[2] {
			list[4].tolls = append(list[4].tolls, t)
		}
	}
	return list
}

// chartOf is a line to be.
type chartOf struct {
	name  string
	tolls []widearea.Toll
}

// line shows the longest waits against something.
func (c chartOf) line(against func(widearea.Toll) float64) chart.Line {
	l := chart.Line{Name: c.name}
	for _, t := range c.tolls {
		l.Points = append(l.Points, [2]float64{against(t), longestWait(t)})
	}
	slices.SortFunc(l.Points, func(a, b [2]float64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return l
}

// lengths is how long section 3.8 says that writes wait at most: for grace, guard and
// lease, of which ours has the last.
func lengths(t widearea.Toll) float64 { return t.Grace + t.Guard + t.Length }

// controlSweep shows the longest waits against the lengths that they come from.
func controlSweep(r widearea.Report) chart.Chart {
	c := chart.Chart{
		Title: "Longest wait after a holder's death, and its parts",
		X:     "grace, guard and lease together, seconds", Y: "seconds", LinearX: true, LinearY: true,
	}
	longest := 0.0
	for _, s := range controlSeries(r) {
		if len(s.tolls) > 0 {
			c.Lines = append(c.Lines, s.line(lengths))
		}
		for _, t := range s.tolls {
			longest = max(longest, lengths(t))
		}
	}
	c.Lines = append(c.Lines, chart.Line{Name: "section 3.8", Points: [][2]float64{{0, 0}, {longest, longest}}, Shape: chart.Plain})
	return c
}

// controlCost shows the longest waits against the messages that they are bought with.
func controlCost(r widearea.Report) chart.Chart {
	c := chart.Chart{
		Title: "Longest wait after a holder's death, and messages for promises",
		X:     "messages a second, of all replicas", Y: "seconds",
	}
	for _, s := range controlSeries(r) {
		if len(s.tolls) > 0 && s.name != "guard differs" && s.name != "grace differs" {
			c.Lines = append(c.Lines, s.line(func(t widearea.Toll) float64 { return t.Messages }))
		}
	}
	return c
}

// shiftName says in which way holders change.
func shiftName(s widearea.Shift) string {
	if s.Control == "" {
		return "ours, " + leaseLength(s.Length)
	}
	return fmt.Sprintf("%s, %g+%g s", s.Control, s.Guard, s.Length)
}

// localAround shows how many reads are local while keys get other holders.
func localAround(r widearea.Report) chart.Chart {
	c := chart.Chart{
		Title: "Reads below 10 ms while half of the keys get other holders", X: "seconds from the change", Y: "share", LinearX: true, LinearY: true,
	}
	for _, s := range r.Measured.Controls.Changes {
		c.Lines = append(c.Lines, chart.Line{Name: shiftName(s), Points: s.Local})
	}
	return c
}

// printShifts prints what changes of holders cost, the paper's ways and ours.
func printShifts(w io.Writer, r widearea.Report) {
	if len(r.Measured.Controls.Changes) == 0 {
		return
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "HOLDERS CHANGE, GUARD+LEASE\tCHANGES\tLOCAL READS BEFORE\tIN 5 S AFTER\tSLOWEST READ\tMEAN WRITE BEFORE\tIN 5 S AFTER\tSLOWEST WRITE\tSTALE\tFAILED\t")
	for _, s := range r.Measured.Controls.Changes {
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%.0f ms\t%.0f ms\t%.0f ms\t%.0f ms\t%d\t%d\t\n",
			shiftName(s), s.Changes, percent(s.Before.Local), percent(s.After.Local), s.After.SlowestRead,
			s.Before.MeanWrite, s.After.MeanWrite, s.After.SlowestWrite, s.Stale, s.Failed)
	}
	tw.Flush()
	fmt.Fprintln(w)
}

// printControls prints what deaths cost under the paper's own protocol and under ours.
func printControls(w io.Writer, r widearea.Report) {
	c := r.Measured.Controls
	if len(c.Deaths) == 0 {
		return
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "DEATH AT\tPOLICY\tPROMISES, GRACE+GUARD+LEASE\tDEATHS\tLONGEST WAIT, KEYS READ THERE\tOTHER KEYS\tLOCAL READS BEFORE\tMESSAGES/S\tSTALE\tFAILED\t")
	for _, t := range slices.Concat(c.Deaths, c.Sweep) {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%.2f s\t%.2f s\t%s\t%.0f\t%d\t%d\t\n",
			t.Site, t.Policy, controlName(t), t.Deaths, longestWait(t), t.Other.Slowest/1000, percent(t.Local), t.Messages, t.Stale, t.Failed)
	}
	tw.Flush()
	fmt.Fprintln(w)
}
