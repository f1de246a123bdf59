package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/widearea"
)

func TestQuorumLeases(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute under the race detector")
	}
	dir := t.TempDir()
	page, figures := filepath.Join(dir, "report.html"), filepath.Join(dir, "figures")
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetArgs([]string{"quorum-leases", "--quick", "--real", "--real-time", "3s", "--policy", "leader,unheard-of", "--html", page, "--svg", figures, "-o", "json"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var r widearea.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Measured.Runs) != len(widearea.Workloads) || r.Measured.Runs[0].Policy != "leader" || len(r.Measured.LeftOut) != 1 || r.Paper.Table2[0] != 0.81 {
		t.Errorf("got %d runs, left out %+v, the paper's Table 2 %v", len(r.Measured.Runs), r.Measured.LeftOut, r.Paper.Table2)
	}
	if len(r.Real) != 1 || r.Real[0].Real.Sites[widearea.Leader].Reads.Count == 0 || r.Real[0].Virtual.Sites[widearea.Leader].Reads.Count == 0 {
		t.Errorf("in real time: %+v", r.Real)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(figures, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	// Table 2; reads and writes at five sites, twice; means; a death at two sites,
	// and the stalls; the sweep at two sites, and its reads; several keys twice; throughput
	// of reads and of writes.
	if want := 1 + 2*2*5 + 3 + 2 + 2 + 2 + 1 + 2 + 2; len(files) != want || strings.Count(string(html), "</svg>") != want {
		t.Errorf("%d files and %d pictures in the report, want %d", len(files), strings.Count(string(html), "</svg>"), want)
	}
	for _, want := range []string{
		"This is no full run", "&#34;unheard-of&#34;: this build has no such policy", "<td>81.0 %<td>95.0 %<td>89.0 %<td>89.0 %<td>81.0 %",
		"over 70 %<td>not measured", "JP, zipf 1:1: writes", "Policy leader: the replica at CA dies", "In real time", "<td>JP<td>0<td>120<td>120<td>180<td>270<td>205<td>130",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	for _, outside := range []string{"src=", "href=", "url(", "ZgotmplZ", "NaN", "&lt;svg"} {
		if strings.Contains(string(html), outside) {
			t.Errorf("the report has %q in it", outside)
		}
	}

	var table strings.Builder
	quorumLeasesTable(&table, r)
	for _, want := range []string{"zipf 9:1  leader", "mean write", "left out: \"unheard-of\"", "as shipped", "DEATH AT", "REAL TIME"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
}

// An impossible plan is refused before anything is measured: here that would be nothing, and an
// error of its own.
func TestQuorumLeasesRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("an earlier report"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"--lease 1h", "--lease 1h0m0s: want from 20ms to 10s"},
		{"--lease 1ms", "--lease 1ms: want from 20ms to 10s"},
		{"--lease -1s", "--lease -1s: want from 20ms to 10s"},
		{"--real-time 1s", "--real-time 1s: want 3 s at least"},
		{"--html " + dir + "/none/x.html", "--html: open " + dir + "/none/x.html: no such file"},
		{"--html " + dir, "--html: open " + dir + ": is a directory"},
		{"--svg " + file, "--svg: mkdir " + file},
		{"--lease 20ms --svg " + dir + "/new --html " + file, "none of the policies"},
	} {
		root := rootCommand()
		root.SetArgs(append([]string{"quorum-leases", "--policy", "unheard-of"}, strings.Fields(tt.args)...))
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.args, err, tt.want)
		}
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != "an earlier report" {
		t.Errorf("the earlier report is %q, %v", kept, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "new", "*")); err != nil || len(left) > 0 {
		t.Errorf("files that nobody wants: %v, %v", left, err)
	}
}

// Measurements are printed although something else fails.
func TestQuorumLeasesKeeps(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	b := quorumLeasesBench{
		plan: widearea.Plan{
			Seed: 1, Policies: []string{"off"}, Size: widearea.Size{Keys: 100, Clients: 2, Requests: 40, Discard: 10}, Deaths: 1, Loads: 1,
		},
		real: true, realTime: 3 * time.Second, html: t.TempDir(), output: "table",
	}
	var out strings.Builder
	err := b.run(ended, &out)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "write the report:") {
		t.Errorf("got %v, want that the runs in real time were interrupted and that the report cannot be written", err)
	}
	for _, want := range []string{"zipf 9:1", "DEATH AT", "THE PAPER"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("what was measured lacks %q:\n%s", want, out.String())
		}
	}
}

func TestStatementRows(t *testing.T) {
	r := widearea.Report{Paper: widearea.ThePaper}
	r.Measured.Statements = []widearea.Finding{
		{Statement: widearea.Statement{ID: "quorum-local-reads", Value: 0.87, Unit: "share"}},
		{Statement: widearea.Statement{ID: "all-write-ratio", Value: 2.25, Unit: "times"}, Under: "all over leader"},
		{Statement: widearea.Statement{ID: "quorum-stall", Value: 1.234, Unit: "s"}},
	}
	want := map[string]string{"over 80 %": "87.0 %", "2 to 3 times": "2.2 times (all over leader)", "about 9 s: grace, guard and lease": "1.23 s", "95 %": "not measured"}
	for _, row := range statementRows(r) {
		if w, ok := want[row.Paper]; ok && row.Here != w {
			t.Errorf("%s: got %s, want %s", row.What, row.Here, w)
		}
	}
}

func TestRealRows(t *testing.T) {
	outcome := func(local, read, write float64) (o widearea.Outcome) {
		o.Policy = "all"
		o.Sites = []widearea.SiteOutcome{{Reads: widearea.Latencies{Under10: local, Mean: read}, Writes: widearea.Latencies{Mean: write}}}
		return o
	}
	pair := widearea.Pair{Real: outcome(0.9, 3, 210), Virtual: outcome(0.95, 2.5, 200)}
	pair.Real.Elections = 2
	want := []realRow{
		{"all", "reads < 10 ms", "90.0 %", "95.0 %", "-5.0 points"}, {"all", "mean read", "3.0 ms", "2.5 ms", "+0.5 ms"},
		{"all", "mean write", "210.0 ms", "200.0 ms", "+10.0 ms"}, {"all", "stale, failed", "0, 0", "0, 0", ""},
		{"all", "elections", "2", "0", "another may have led: run it again"},
	}
	if got := realRows([]widearea.Pair{pair}); !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}
