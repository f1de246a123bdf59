package widearea

import (
	"slices"
	"time"
)

// Latencies are what clients measured, in milliseconds.
type Latencies struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean_ms"`
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
	// Under10 is the share below 10 ms, which the paper calls local.
	Under10 float64 `json:"under_10ms"`
	// CDF are points of the distribution: a latency, and the share of operations
	// that took no longer. The first is the shortest of all.
	CDF [][2]float64 `json:"cdf"`

	sorted []time.Duration
}

// cdfPoints is how many steps a CDF has.
const cdfPoints = 200

// local is the paper's upper bound of a read from memory.
const local = 10 * time.Millisecond

func summarize(samples []time.Duration) Latencies {
	slices.Sort(samples)
	l := Latencies{Count: len(samples), CDF: [][2]float64{}, sorted: samples}
	if l.Count == 0 {
		return l
	}
	sum := time.Duration(0)
	for _, d := range samples {
		sum += d
	}
	l.Mean = ms(sum) / float64(l.Count)
	l.P50, l.P90, l.P99, l.Max = l.at(0.5), l.at(0.9), l.at(0.99), l.at(1)
	l.Under10 = l.within(local - 1)
	l.CDF = append(l.CDF, [2]float64{l.at(0), 0})
	for i := range cdfPoints {
		share := float64(i+1) / cdfPoints
		l.CDF = append(l.CDF, [2]float64{l.at(share), share})
	}
	return l
}

// at is the latency that a share of the operations did not exceed.
func (l *Latencies) at(share float64) float64 {
	return ms(l.sorted[max(0, int(share*float64(l.Count)+0.5)-1)])
}

// within is the share of the operations that took no longer than d.
func (l *Latencies) within(d time.Duration) float64 {
	if l.Count == 0 {
		return 0
	}
	n, _ := slices.BinarySearch(l.sorted, d+1)
	return float64(n) / float64(l.Count)
}

// ms rounds to microseconds: finer digits are the simulator's.
func ms(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }
