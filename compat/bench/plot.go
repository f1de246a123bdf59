package main

import (
	"strings"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/chart"
	"github.com/tenure-lease/tenure/internal/load"
)

// plot shows by what factor each variant is better than etcd at its defaults: in the CPU of an operation
// where it was measured, else in memory, else in the 99th percentile.
func plot(medians []load.Result) chart.Ratios {
	c := chart.Ratios{Title: "Better than a stock etcd by a factor of (right of the line is better)"}
	for _, r := range medians {
		base, ok := load.Of(medians, r.Case, string(server.Etcd))
		if !ok || r.Target == string(server.Etcd) || r.Target == string(kindEcho) {
			continue
		}
		better, name := load.Better(base, r), r.Case
		switch {
		case strings.HasPrefix(r.Case, "expiry") || r.Case == "lock" || r.Case == "watch":
			c.Bars = append(c.Bars, chart.Ratio{Name: name + " p99, " + r.Target, Value: better.P99})
		case better.CPU > 0:
			c.Bars = append(c.Bars, chart.Ratio{Name: name + " CPU/op, " + r.Target, Value: better.CPU})
		case better.Bytes > 0:
			c.Bars = append(c.Bars, chart.Ratio{Name: name + ", " + r.Target, Value: better.Bytes})
		default:
			c.Bars = append(c.Bars, chart.Ratio{Name: name + ", " + r.Target, Value: better.P99})
		}
	}
	return c
}
