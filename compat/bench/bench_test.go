package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/chart"
	"github.com/tenure-lease/tenure/internal/load"
)

func TestMain(m *testing.M) {
	if os.Getenv(echoVariable) != "" {
		fmt.Fprintln(os.Stderr, echo(os.Args[1:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestCases runs every case small, on each kind, and wants figures from all.
func TestCases(t *testing.T) {
	kinds := []string{string(kindEcho)}
	for _, k := range server.Kinds() {
		kinds = append(kinds, string(k))
	}
	opt, err := parse([]string{"-kinds=" + strings.Join(kinds, ","), "-clients=6", "-duration=300ms", "-runs=1", "-leases=0.01"})
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		opt.only = []string{"put", "reads", "lock", "watch"}
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
		for _, v := range opt.variants {
			if opt.wants(c.name) && v.has(c.name) {
				wanted++
			}
		}
	}
	if len(results) != wanted {
		t.Errorf("%d results, want %d", len(results), wanted)
	}
	for _, r := range results {
		if r.Rate <= 0 && r.Bytes == 0 && r.P99 <= 0 {
			t.Errorf("%s, %s: nothing measured", r.Case, r.Target)
		}
		leased := r.Case == "reads-leader" && (r.Target == "tenure leader" || r.Target == "tenure all") ||
			r.Case == "reads-follower" && r.Target == "tenure all"
		if leased != (r.Local > 0) {
			t.Errorf("%s, %s: %.2f of the reads were under a lease", r.Case, r.Target, r.Local)
		}
	}
}

func TestPlot(t *testing.T) {
	runs := []load.Result{
		{Case: "put", Target: "etcd", Rate: 100, CPU: 30, P99: 9},
		{Case: "put", Target: "tenure", Rate: 400, CPU: 10, P99: 3},
		{Case: "put", Target: "tenure", Rate: 200, CPU: 20, P99: 2},
		{Case: "put", Target: "etcd", Rate: 120, CPU: 32, P99: 8},
		{Case: "put", Target: "etcd", Rate: 90, CPU: 90, P99: 70},
		{Case: "put", Target: "tenure", Rate: 300, CPU: 16, P99: 1},
	}
	medians := load.Medians(runs)
	if len(medians) != 2 {
		t.Fatalf("%d medians, want 2", len(medians))
	}
	if got, want := medians[1], (load.Result{Case: "put", Target: "tenure", Run: 3, Rate: 300, CPU: 16, P99: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if svg := svgOf(t, medians); !strings.Contains(svg, "put CPU/op, tenure") || !strings.Contains(svg, ">2.00<") {
		t.Errorf("the plot has no bar:\n%s", svg)
	}
}

func svgOf(t *testing.T, medians []load.Result) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plot.svg")
	if err := chart.Write(path, plot(medians)); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(svg)
}

func TestReadsTable(t *testing.T) {
	var text bytes.Buffer
	printReads(&text, load.Medians([]load.Result{
		{Case: "put", Target: "tenure", Rate: 1, CPU: 1},
		{Case: "reads-follower", Target: "echo", Rate: 100, CPU: 10},
		{Case: "reads-follower", Target: "tenure all", Rate: 80, CPU: 15, Local: 0.995},
	}))
	got := strings.Join(strings.Fields(text.String()), " ")
	if want := "tenure all 80 0.80 0s 1.50 99.5 %"; !strings.Contains(got, want) || strings.Contains(got, "put") {
		t.Errorf("want %q, and nothing of other cases, in\n%s", want, &text)
	}
	text.Reset()
	if printReads(&text, []load.Result{{Case: "put"}}); text.Len() > 0 {
		t.Errorf("a table of no reads:\n%s", &text)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"-runs=0"}, {"-o=xml"}, {"-clients=0"}, {"-duration=-1s"}, {"-nonsense"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
