package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// latencies are what clients measured, in milliseconds.
type latencies struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
}

// site is what they measured at a site.
type site struct {
	Site    string    `json:"site"`
	Gets    latencies `json:"gets"`
	Puts    latencies `json:"puts"`
	Under10 float64   `json:"gets_under_10ms"`
	Local   float64   `json:"gets_under_a_lease"`
}

// result is a run, or the medians of those of all rounds.
type result struct {
	System    string  `json:"system"`
	Workload  string  `json:"workload"`
	Round     int     `json:"round"` // of medians, how many there were
	Mean      float64 `json:"mean_operation_ms"`
	Stale     int     `json:"stale"` // this and the following: of all rounds
	Failed    int     `json:"failed"`
	Elections int     `json:"elections"`
	Sites     []site  `json:"sites"`
}

func (r result) String() string {
	text := fmt.Sprintf("mean operation %.1f ms; gets' p50", r.Mean)
	for _, s := range r.Sites {
		text += fmt.Sprintf("  %s %.2f", s.Site, s.Gets.P50)
	}
	return text + r.trouble()
}

// trouble is what should not be, empty if there was none.
func (r result) trouble() (text string) {
	for _, t := range []struct {
		n    int
		what string
	}{{r.Stale, "stale"}, {r.Failed, "failed"}, {r.Elections, "elections"}} {
		if t.n > 0 {
			text += fmt.Sprintf("; %d %s", t.n, t.what)
		}
	}
	return text
}

// summarize makes one result of the rounds of each workload and system, in the order in
// which they first appear, workloads first.
func summarize(results []result) (medians []result) {
	var workloads []string
	for _, r := range results {
		if !slices.Contains(workloads, r.Workload) {
			workloads = append(workloads, r.Workload)
		}
		same := func(o result) bool { return o.System == r.System && o.Workload == r.Workload }
		if slices.ContainsFunc(medians, same) {
			continue
		}
		var rounds []result
		for _, o := range results {
			if same(o) {
				rounds = append(rounds, o)
			}
		}
		medians = append(medians, medianOf(rounds))
	}
	slices.SortStableFunc(medians, func(a, b result) int {
		return cmp.Compare(slices.Index(workloads, a.Workload), slices.Index(workloads, b.Workload))
	})
	return medians
}

func medianOf(rounds []result) result {
	median := func(of func(result) float64) float64 {
		var values []float64
		for _, r := range rounds {
			values = append(values, of(r))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	m := result{System: rounds[0].System, Workload: rounds[0].Workload, Round: len(rounds), Mean: median(func(r result) float64 { return r.Mean })}
	for _, r := range rounds {
		m.Stale, m.Failed, m.Elections = m.Stale+r.Stale, m.Failed+r.Failed, m.Elections+r.Elections
	}
	for i, s := range rounds[0].Sites {
		here := func(of func(site) float64) float64 { return median(func(r result) float64 { return of(r.Sites[i]) }) }
		all := func(of func(site) latencies) latencies {
			return latencies{
				Count: int(here(func(s site) float64 { return float64(of(s).Count) })),
				P50:   here(func(s site) float64 { return of(s).P50 }),
				P99:   here(func(s site) float64 { return of(s).P99 }),
			}
		}
		m.Sites = append(m.Sites, site{
			Site: s.Site, Gets: all(func(s site) latencies { return s.Gets }), Puts: all(func(s site) latencies { return s.Puts }),
			Under10: here(func(s site) float64 { return s.Under10 }), Local: here(func(s site) float64 { return s.Local }),
		})
	}
	return m
}

// judge returns an error if an answer was wrong.
func judge(medians []result) error {
	var wrong []string
	for _, m := range medians {
		if m.Stale > 0 {
			wrong = append(wrong, fmt.Sprintf("%s, %s: %d operations missed what others had seen", m.System, m.Workload, m.Stale))
		}
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("%s", strings.Join(wrong, "\n"))
}

// table prints medians: a table a workload, in which a site has a line for each system.
func table(w io.Writer, medians []result) {
	for len(medians) > 0 {
		n := 1
		for n < len(medians) && medians[n].Workload == medians[0].Workload {
			n++
		}
		workload(w, medians[:n])
		medians = medians[n:]
	}
}

func workload(w io.Writer, systems []result) {
	fmt.Fprintf(w, "%s, latencies in ms, medians of %d:\n", systems[0].Workload, systems[0].Round)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "site\tserver\tget p50\t×\tp99\t×\tput p50\t×\tp99\t×\tunder a lease\t< 10 ms\t")
	etcd := slices.IndexFunc(systems, func(r result) bool { return r.System == "etcd" })
	for i, here := range systems[0].Sites {
		name := here.Site
		for j, r := range systems {
			s := r.Sites[i]
			line := []string{name, r.System}
			for _, of := range []func(site) latencies{func(s site) latencies { return s.Gets }, func(s site) latencies { return s.Puts }} {
				var base latencies
				if etcd >= 0 && j != etcd {
					base = of(systems[etcd].Sites[i])
				}
				l := of(s)
				line = append(line, number(l.P50), times(base.P50, l.P50), number(l.P99), times(base.P99, l.P99))
			}
			leased := ""
			if r.System != "etcd" && s.Gets.Count > 0 {
				leased = percent(s.Local)
			}
			fmt.Fprintln(tw, strings.Join(append(line, leased, percent(s.Under10)), "\t")+"\t")
			name = ""
		}
	}
	tw.Flush()
	for _, r := range systems {
		fmt.Fprintf(w, "%s: the mean operation took %.1f ms%s\n", r.System, r.Mean, r.trouble())
	}
	fmt.Fprintln(w)
}

func number(ms float64) string {
	switch {
	case ms == 0:
		return ""
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// times is a ratio, as far as both are known.
func times(a, b float64) string {
	switch r := a / b; {
	case a == 0 || b == 0:
		return ""
	case r >= 10:
		return fmt.Sprintf("%.0f", r)
	default:
		return fmt.Sprintf("%.2f", r)
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
