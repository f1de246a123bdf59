package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
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
			t.Errorf("%s, %s: nothing measured", r.Case, r.Variant)
		}
		leased := r.Case == "reads-leader" && (r.Variant == "tenure leader" || r.Variant == "tenure all") ||
			r.Case == "reads-follower" && r.Variant == "tenure all"
		if leased != (r.Local > 0) {
			t.Errorf("%s, %s: %.2f of the reads were under a lease", r.Case, r.Variant, r.Local)
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

func TestReadsTable(t *testing.T) {
	var text bytes.Buffer
	printReads(&text, summarize([]result{
		{Case: "put", Variant: "tenure", Rate: 1, CPU: 1},
		{Case: "reads-follower", Variant: "echo", Rate: 100, CPU: 10},
		{Case: "reads-follower", Variant: "tenure all", Rate: 80, CPU: 15, Local: 0.995},
	}))
	got := strings.Join(strings.Fields(text.String()), " ")
	if want := "tenure all 80 0.80 0s 1.50 99.5 %"; !strings.Contains(got, want) || strings.Contains(got, "put") {
		t.Errorf("want %q, and nothing of other cases, in\n%s", want, &text)
	}
	text.Reset()
	if printReads(&text, []result{{Case: "put"}}); text.Len() > 0 {
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
