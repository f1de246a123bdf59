package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// broadcastReport is what tenure bench broadcast prints.
type broadcastReport struct {
	Rounds  int                `json:"rounds"`
	Summary []broadcastSummary `json:"summary"`
	Runs    []broadcastRun     `json:"runs"`
}

// broadcastSummary is the medians of a kind with so many clients, over the rounds.
type broadcastSummary struct {
	Kind     string  `json:"kind"`
	Clients  int     `json:"clients"`
	Payload  int     `json:"payload_bytes"`
	Rate     float64 `json:"messages_per_s"`
	RateMin  float64 `json:"messages_per_s_min"`
	RateMax  float64 `json:"messages_per_s_max"`
	Median   float64 `json:"median_ms"`
	P99      float64 `json:"p99_ms"`
	CPU      float64 `json:"cpu_us_per_message"`
	Recovery float64 `json:"leader_crash_ms,omitempty"`
	Hang     float64 `json:"leader_hangs_ms,omitempty"`
}

// summaries puts the rounds together, in the order of the first.
func summaries(runs []broadcastRun) (list []broadcastSummary) {
	for _, first := range runs {
		if first.Round != 1 {
			continue
		}
		all := func(value func(broadcastRun) float64) (values []float64) {
			for _, r := range runs {
				if r.Kind == first.Kind && r.Clients == first.Clients {
					values = append(values, value(r))
				}
			}
			slices.Sort(values)
			return values
		}
		median := func(value func(broadcastRun) float64) float64 {
			values := all(value)
			n := len(values)
			return (values[n/2] + values[(n-1)/2]) / 2
		}
		rates := all(func(r broadcastRun) float64 { return r.Rate })
		list = append(list, broadcastSummary{
			Kind: first.Kind, Clients: first.Clients, Payload: first.Payload,
			Rate: median(func(r broadcastRun) float64 { return r.Rate }), RateMin: rates[0], RateMax: rates[len(rates)-1],
			Median:   median(func(r broadcastRun) float64 { return r.Median }),
			P99:      median(func(r broadcastRun) float64 { return r.P99 }),
			CPU:      median(func(r broadcastRun) float64 { return r.CPU }),
			Recovery: median(func(r broadcastRun) float64 { return r.Recovery }),
			Hang:     median(func(r broadcastRun) float64 { return r.Hang }),
		})
	}
	return list
}

func (b broadcastReport) table(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "KIND\tCLIENTS\tMESSAGES/S\tFROM\tTO\tMEDIAN\tP99\tCPU\tLEADER KILLED\tLEADER STOPPED\t")
	for _, r := range b.Summary {
		crash, hang := "", ""
		if r.Recovery > 0 {
			crash, hang = fmt.Sprintf("%.0f ms", r.Recovery), fmt.Sprintf("%.0f ms", r.Hang)
		}
		fmt.Fprintf(tw, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.2f ms\t%.2f ms\t%.1f µs\t%s\t%s\t\n",
			r.Kind, r.Clients, r.Rate, r.RateMin, r.RateMax, r.Median, r.P99, r.CPU, crash, hang)
	}
	tw.Flush()
}
