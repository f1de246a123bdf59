package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/tenure-lease/tenure/internal/chart"
	"github.com/tenure-lease/tenure/internal/lab/widearea"
)

// figure is a picture, and in which part of the report it belongs.
type figure struct {
	part, name string
	svg        []byte
}

// The parts of the report that have figures.
const (
	partTable2  = "table-2"
	partFigure6 = "figure-6"
	partUniform = "uniform"
	partMeans   = "means"
	partSeveral = "several-keys"
	partFigure8 = "figure-8"
	partFigure7 = "figure-7"
	partSweep   = "sweep"

	partControls     = "controls"
	partControlSweep = "control-sweep"
)

// quorumLeasesFigures draws all that was measured.
func quorumLeasesFigures(r widearea.Report) (figures []figure, err error) {
	add := func(part, name string, picture chart.Picture) {
		var b bytes.Buffer
		if e := picture.SVG(&b); e != nil && err == nil {
			err = fmt.Errorf("draw %s: %w", name, e)
		}
		figures = append(figures, figure{part, part + "-" + strings.NewReplacer(" ", "-", "/", "-").Replace(name), b.Bytes()})
	}
	measured := func(loads ...widearea.Workload) []widearea.Workload {
		return slices.DeleteFunc(loads, func(load widearea.Workload) bool {
			return !slices.ContainsFunc(r.Measured.Runs, func(o widearea.Outcome) bool { return o.Workload == load.Name })
		})
	}
	add(partTable2, "reads", table2Bars(r))
	for _, load := range measured(widearea.Figure6, widearea.Uniform) {
		part := partFigure6
		if load == widearea.Uniform {
			part = partUniform
		}
		for site, name := range widearea.Sites {
			reads, writes := distributions(r, load, site)
			add(part, name+" reads", reads)
			add(part, name+" writes", writes)
		}
	}
	for _, load := range measured(widearea.Figure6, widearea.Uniform, widearea.Table2) {
		add(partMeans, strings.ReplaceAll(load.Name, ":", "-"), meanBars(r, load))
	}
	for _, load := range measured(widearea.Together, widearea.Apart) {
		add(partSeveral, load.Name, meanBars(r, load))
	}
	for _, t := range r.Measured.Deaths {
		add(partFigure7, t.Policy+" "+t.Site, deathOverTime(t))
	}
	for _, what := range []string{"reads", "writes"} {
		if b := throughputBars(r, what); len(b.Series) > 0 {
			add(partFigure8, what, b)
		}
	}
	if len(r.Measured.Deaths) > 0 {
		for _, site := range deathSites(r) {
			add(partFigure7, "stalls "+site, stallBars(r, site))
		}
	}
	if len(r.Measured.Sweep) > 0 {
		for _, site := range deathSites(r) {
			add(partSweep, "stall "+site, sweepOf(r, site, "Stall of writes to keys read at "+site+", whose replica dies", "seconds, longest",
				func(t widearea.Toll) float64 { return t.Held.MaxStall }))
		}
		local := sweepOf(r, deathSites(r)[0], "Reads below 10 ms", "share", func(t widearea.Toll) float64 { return t.Local })
		local.LinearY = true
		add(partSweep, "local reads", local)
	}
	for _, d := range controlDrawings(r) {
		add(d.part, d.name, d.picture)
	}
	return figures, err
}

// table2Bars are the shares of local reads, the paper's last, so that a policy has
// one color in all figures.
func table2Bars(r widearea.Report) chart.Bars {
	b := chart.Bars{Title: "Table 2: reads below 10 ms, nine reads for a write", Y: "%", Groups: widearea.Sites[:]}
	for _, o := range r.Measured.Runs {
		if o.Workload == widearea.Table2.Name {
			s := chart.Series{Name: o.Policy}
			for _, site := range o.Sites {
				s.Bars = append(s.Bars, chart.Bar{Value: 100 * site.Reads.Under10})
			}
			b.Series = append(b.Series, s)
		}
	}
	paper := chart.Series{Name: "the paper's"}
	for _, share := range r.Paper.Table2 {
		paper.Bars = append(paper.Bars, chart.Bar{Value: 100 * share})
	}
	b.Series = append(b.Series, paper)
	return b
}

// distributions are a site's latencies under each policy.
func distributions(r widearea.Report, load widearea.Workload, site int) (reads, writes chart.Chart) {
	name := widearea.Sites[site]
	reads = chart.Chart{Title: fmt.Sprintf("%s, %s: reads", name, load.Name), X: "latency, ms", Y: "share", LinearY: true}
	writes = chart.Chart{Title: fmt.Sprintf("%s, %s: writes", name, load.Name), X: "latency, ms", Y: "share", LinearY: true}
	for _, o := range r.Measured.Runs {
		if o.Workload == load.Name {
			reads.Lines = append(reads.Lines, chart.Line{Name: o.Policy, Points: o.Sites[site].Reads.CDF, Shape: chart.Steps})
			writes.Lines = append(writes.Lines, chart.Line{Name: o.Policy, Points: o.Sites[site].Writes.CDF, Shape: chart.Steps})
		}
	}
	return reads, writes
}

// meanBars are the means over all sites, each of which counts as much.
func meanBars(r widearea.Report, load widearea.Workload) chart.Bars {
	b := chart.Bars{Title: "Means over the sites, " + load.Name, Y: "ms", Groups: []string{"read", "write", "operation"}}
	for _, o := range r.Measured.Runs {
		if o.Workload != load.Name {
			continue
		}
		read, write := 0.0, 0.0
		for _, s := range o.Sites {
			read += s.Reads.Mean / float64(len(o.Sites))
			write += s.Writes.Mean / float64(len(o.Sites))
		}
		b.Series = append(b.Series, chart.Series{Name: o.Policy, Bars: []chart.Bar{{Value: read}, {Value: write}, {Value: o.Mean}}})
	}
	return b
}

// throughputBars is Figure 8: means, and the intervals in which they are with 95 %
// confidence.
func throughputBars(r widearea.Report, what string) chart.Bars {
	b := chart.Bars{Title: "Figure 8: " + what + " in a local cluster of five", Y: what + " a second", Groups: []string{what}}
	for _, t := range r.Measured.Throughput {
		if t.What == what {
			b.Series = append(b.Series, chart.Series{Name: throughputName(t), Bars: []chart.Bar{{Value: t.Mean, Low: t.Low, High: t.High}}})
		}
	}
	return b
}

// throughputName is the paper's name, where clients differ.
func throughputName(t widearea.Rate) string {
	switch {
	case t.What == "writes" || t.Policy != "static/key" && t.Asks == widearea.Anything:
		return t.Policy
	case t.Asks == widearea.Held:
		return t.Policy + ", clients aware"
	case t.Asks == widearea.TheLeader:
		return t.Policy + ", clients ask it"
	}
	return t.Policy + ", clients oblivious"
}

// deathOverTime is Figure 7 under a policy.
func deathOverTime(t widearea.Toll) chart.Chart {
	return chart.Chart{
		Title: fmt.Sprintf("Policy %s: the replica at %s dies", t.Policy, t.Site),
		X:     "seconds since the death, when the write was sent", Y: "latency, ms", LinearX: true,
		Lines: []chart.Line{
			{Name: "keys read at " + t.Site, Points: t.Held.Series, Shape: chart.Dots},
			{Name: "other keys", Points: t.Other.Series, Shape: chart.Dots},
		},
	}
}

// deathSites are the sites of the replicas that died.
func deathSites(r widearea.Report) (sites []string) {
	seen := map[string]bool{}
	for _, t := range r.Measured.Deaths {
		if !seen[t.Site] {
			seen[t.Site] = true
			sites = append(sites, t.Site)
		}
	}
	return sites
}

// stallBars are the medians of the stalls, and up to the longest.
func stallBars(r widearea.Report, site string) chart.Bars {
	b := chart.Bars{
		Title: "Slowest write after the death at " + site + ", beyond the slowest before", Y: "seconds: median, and up to the longest",
		Groups: []string{"keys read at " + site, "other keys"},
	}
	for _, t := range r.Measured.Deaths {
		if t.Site == site {
			b.Series = append(b.Series, chart.Series{Name: t.Policy, Bars: []chart.Bar{
				{Value: t.Held.Stall, Low: t.Held.Stall, High: t.Held.MaxStall}, {Value: t.Other.Stall, Low: t.Other.Stall, High: t.Other.MaxStall},
			}})
		}
	}
	return b
}

// sweepOf shows something against the length of leases.
func sweepOf(r widearea.Report, site, title, y string, of func(widearea.Toll) float64) chart.Chart {
	c := chart.Chart{Title: title, X: "length of leases, seconds", Y: y}
	for _, t := range r.Measured.Sweep {
		if t.Site != site {
			continue
		}
		n := len(c.Lines)
		if n == 0 || c.Lines[n-1].Name != t.Policy {
			c.Lines = append(c.Lines, chart.Line{Name: t.Policy})
			n++
		}
		c.Lines[n-1].Points = append(c.Lines[n-1].Points, [2]float64{t.Length, of(t)})
	}
	return c
}
