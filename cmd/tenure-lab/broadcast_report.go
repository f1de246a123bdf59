package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// broadcastReport is what tenure-lab broadcast prints.
type broadcastReport struct {
	Rounds   int                `json:"rounds"`
	Summary  []broadcastSummary `json:"summary"`
	Runs     []broadcastRun     `json:"runs"`
	Failures []broadcastFailure `json:"failures,omitempty"`
}

// broadcastSummary is the medians of a kind with so many clients, over all turns.
type broadcastSummary struct {
	Kind    string    `json:"kind"`
	Clients int       `json:"clients"`
	Payload int       `json:"payload_bytes"`
	Rate    quartiles `json:"messages_per_s"`
	Ratio   quartiles `json:"times_raft"` // the rate by raft's, turn by turn
	Median  float64   `json:"median_ms"`
	P99     float64   `json:"p99_ms"`
	CPU     float64   `json:"cpu_us_per_message"`
	Killed  float64   `json:"leader_crash_ms,omitempty"`
	Stopped float64   `json:"leader_hangs_ms,omitempty"`
}

// quartiles are a median and the bounds of the middle half of the values.
type quartiles struct {
	Median float64 `json:"median"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
}

func quartilesOf(values []float64) quartiles {
	return quartiles{quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75)}
}

// quantile returns the value below which a share of the values is; 0 if there are none.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := share * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

// summaries puts the turns together, in the order of the first.
func summaries(runs []broadcastRun, failures []broadcastFailure) (list []broadcastSummary) {
	type pair struct{ round, turn, clients int }
	raft := map[pair]float64{}
	for _, r := range runs {
		if r.Kind == "raft" {
			raft[pair{r.Round, r.Turn, r.Clients}] = r.Rate
		}
	}
	last := 0 // the cost of failures is beside the last number of clients
	for _, r := range runs {
		last = r.Clients
	}
	for _, first := range runs {
		if first.Round != 1 || first.Turn != 1 {
			continue
		}
		var rates, ratios, medians, p99s, cpus, killed, stopped []float64
		for _, r := range runs {
			if r.Kind != first.Kind || r.Clients != first.Clients {
				continue
			}
			rates, medians, p99s, cpus = append(rates, r.Rate), append(medians, r.Median), append(p99s, r.P99), append(cpus, r.CPU)
			if other := raft[pair{r.Round, r.Turn, r.Clients}]; other > 0 {
				ratios = append(ratios, r.Rate/other)
			}
		}
		for _, f := range failures {
			if f.Kind == first.Kind && first.Clients == last {
				killed, stopped = append(killed, f.Killed), append(stopped, f.Stopped)
			}
		}
		list = append(list, broadcastSummary{
			Kind: first.Kind, Clients: first.Clients, Payload: first.Payload, Rate: quartilesOf(rates), Ratio: quartilesOf(ratios),
			Median: quantile(medians, 0.5), P99: quantile(p99s, 0.5), CPU: quantile(cpus, 0.5),
			Killed: quantile(killed, 0.5), Stopped: quantile(stopped, 0.5),
		})
	}
	return list
}

func (b broadcastReport) table(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "KIND\tCLIENTS\tMESSAGES/S\tFROM\tTO\tTIMES RAFT\tFROM\tTO\tMEDIAN\tP99\tCPU\tLEADER KILLED\tLEADER STOPPED\t")
	for _, r := range b.Summary {
		crash, hang := "", ""
		if r.Killed > 0 {
			crash, hang = fmt.Sprintf("%.0f ms", r.Killed), fmt.Sprintf("%.0f ms", r.Stopped)
		}
		fmt.Fprintf(tw, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f ms\t%.2f ms\t%.1f µs\t%s\t%s\t\n",
			r.Kind, r.Clients, r.Rate.Median, r.Rate.From, r.Rate.To, r.Ratio.Median, r.Ratio.From, r.Ratio.To, r.Median, r.P99, r.CPU, crash, hang)
	}
	tw.Flush()
}
