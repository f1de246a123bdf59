package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestBroadcast(t *testing.T) {
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	dir := t.TempDir()
	root.SetArgs([]string{"broadcast", "--time", "200ms", "--rounds", "2", "--clients", "1,8", "--crash=false", "--dir", dir, "-o", "json"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var report broadcastReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Runs) != 12 || len(report.Summary) != 6 {
		t.Fatalf("want fastct, ct96 and raft with 1 and 8 clients: %+v", report)
	}
	for _, r := range report.Runs {
		if r.Turn != 1 || r.Rate <= 0 || r.Median <= 0 || r.P99 < r.Median || r.CPU <= 0 {
			t.Errorf("%+v", r)
		}
	}
	empty(t, dir)
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// The kinds take turns, and one number that is far off moves no median.
func TestBroadcastSummaries(t *testing.T) {
	var runs []broadcastRun
	var failures []broadcastFailure
	for i, rate := range []float64{100, 1, 110, 120, 130} {
		round, turn := i/2+1, i%2+1
		for _, kind := range []string{"fastct", "raft"} {
			times := 1.0
			if kind == "fastct" {
				times = float64(i + 1)
			}
			runs = append(runs,
				broadcastRun{Round: round, Turn: turn, Kind: kind, Clients: 1, Rate: rate},
				broadcastRun{Round: round, Turn: turn, Kind: kind, Clients: 8, Rate: 8 * rate * times, Median: rate, P99: 2 * rate, CPU: 3 * rate})
			failures = append(failures, broadcastFailure{Round: round, Kind: kind, Killed: rate, Stopped: 2 * rate})
		}
	}
	list := summaries(runs, failures)
	if len(list) != 4 {
		t.Fatalf("got %+v, want two kinds with two numbers of clients", list)
	}
	if want := (quartiles{3, 2, 4}); list[1].Kind != "fastct" || list[1].Clients != 8 || list[1].Ratio != want {
		t.Errorf("got %+v, want ratios to raft in the same turn of %+v", list[1], want)
	}
	want := broadcastSummary{
		Kind: "raft", Clients: 8, Rate: quartiles{880, 800, 960}, Ratio: quartiles{1, 1, 1}, Median: 110, P99: 220, CPU: 330, Killed: 110, Stopped: 220,
	}
	if list[3] != want {
		t.Errorf("got %+v, want %+v", list[3], want)
	}
	if list[2].Killed != 0 {
		t.Errorf("got %+v, want failures beside the last number of clients only", list[2])
	}
	var out bytes.Buffer
	broadcastReport{Summary: list}.table(&out)
	if !strings.Contains(out.String(), " 880 ") || !strings.Contains(out.String(), " 3.00 ") {
		t.Errorf("prints %s", out.String())
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values      []float64
		share, want float64
	}{{nil, 0.5, 0}, {[]float64{7}, 0.25, 7}, {[]float64{4, 2}, 0.5, 3}, {[]float64{3, 1, 2}, 0.5, 2}, {[]float64{3, 1, 2}, 1, 3}, {[]float64{4, 3, 2, 1}, 0.25, 1.75}} {
		if got := quantile(c.values, c.share); got != c.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", c.values, c.share, got, c.want)
		}
	}
}

// When it is interrupted nothing is left: no directory, and no processes, which a stopped
// member's would be else.
func TestBroadcastInterrupted(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var progress lockedBuffer
	go func() {
		for !strings.Contains(progress.String(), "3 clients") {
			time.Sleep(time.Millisecond)
		}
		cancel(enough)
	}()
	root := rootCommand()
	root.SetOut(io.Discard)
	root.SetErr(&progress)
	root.SetArgs([]string{"broadcast", "--time", "10m", "--clients", "3", "--dir", dir})
	if err := root.ExecuteContext(ctx); !errors.Is(err, enough) {
		t.Errorf("got %v, want the interrupt", err)
	}
	empty(t, dir)
}

// A leader that fails is replaced. One that hangs is missed by its silence alone, which lasts
// for the timeout less a heartbeat at least; a slow machine may have replaced it before.
func TestBroadcastFailures(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		least := time.Duration(0)
		if hangs {
			least = failTimeout / 2
		}
		var gap time.Duration
		var replaced bool
		for try := 0; try < 5 && (!replaced || gap <= least); try++ {
			var err error
			if gap, replaced, err = failure(t.Context(), "fastct", t.TempDir(), hangs, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if !replaced || gap <= least {
			t.Errorf("the leader fails, hangs: %v: nothing for %v, replaced: %v", hangs, gap, replaced)
		}
	}
}
