package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
)

// TestCases runs every case small, on each kind, and wants figures from all.
func TestCases(t *testing.T) {
	var kinds []string
	for _, k := range server.Kinds() {
		kinds = append(kinds, string(k))
	}
	opt, err := parse([]string{"-kinds=" + strings.Join(kinds, ","), "-clients=6", "-duration=300ms", "-runs=1", "-leases=0.01"})
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		opt.only = []string{"put", "keepalive", "cycle", "lock", "watch", "expiry-10k"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var progress bytes.Buffer
	results, err := measure(ctx, opt, &progress)
	t.Logf("\n%s", &progress)
	if err != nil {
		t.Fatal(err)
	}
	wanted := 0
	for _, c := range cases {
		if opt.wants(c.name) {
			wanted += len(kinds)
		}
	}
	if len(results) != wanted {
		t.Errorf("%d results, want %d", len(results), wanted)
	}
	for _, r := range results {
		if r.Rate <= 0 && r.Bytes == 0 && r.P99 <= 0 {
			t.Errorf("%s, %s: nothing measured", r.Case, r.Variant)
		}
	}
}

func TestSummarize(t *testing.T) {
	runs := []result{
		{Case: "put", Variant: "etcd", Rate: 100, CPU: 30, P99: 9},
		{Case: "put", Variant: "tenure", Rate: 400, CPU: 10, P99: 3},
		{Case: "put", Variant: "tenure", Rate: 200, CPU: 20, P99: 2},
		{Case: "put", Variant: "etcd", Rate: 120, CPU: 32, P99: 8},
		{Case: "put", Variant: "etcd", Rate: 90, CPU: 90, P99: 70},
		{Case: "put", Variant: "tenure", Rate: 300, CPU: 16, P99: 1},
	}
	medians := summarize(runs)
	if len(medians) != 2 {
		t.Fatalf("%d medians, want 2", len(medians))
	}
	if got, want := medians[1], (result{Case: "put", Variant: "tenure", Run: 3, Rate: 300, CPU: 16, P99: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	base, ok := baseline(medians, medians[1])
	if got, want := compare(base, medians[1]), (ratios{rate: 3, cpu: 2, p99: 4.5}); !ok || got != want {
		t.Errorf("ratios %+v, want %+v", got, want)
	}
	var text bytes.Buffer
	table(&text, medians)
	if !strings.Contains(text.String(), "3.00") || !strings.Contains(text.String(), "4.50") {
		t.Errorf("the table has no ratios:\n%s", &text)
	}
	if svg := string(plot(medians)); !strings.Contains(svg, "put CPU/op, tenure") || !strings.Contains(svg, ">2.00<") {
		t.Errorf("the plot has no bar:\n%s", svg)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"-runs=0"}, {"-o=xml"}, {"-clients=0"}, {"-duration=-1s"}, {"-nonsense"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
