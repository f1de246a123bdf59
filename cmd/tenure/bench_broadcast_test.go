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

func TestBenchBroadcast(t *testing.T) {
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	dir := t.TempDir()
	root.SetArgs([]string{"bench", "broadcast", "--time", "100ms", "--rounds", "1", "--clients", "1,8", "--crash=false", "--dir", dir, "-o", "json"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var report broadcastReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Runs) != 6 || len(report.Summary) != 6 {
		t.Fatalf("want fastct, ct96 and raft with 1 and 8 clients: %+v", report)
	}
	for _, r := range report.Runs {
		if r.Round != 1 || r.Rate <= 0 || r.Median <= 0 || r.P99 < r.Median || r.CPU <= 0 {
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
	for i, rate := range []float64{100, 1, 110, 120} {
		for _, kind := range []string{"fastct", "raft"} {
			runs = append(runs, broadcastRun{Round: i + 1, Kind: kind, Clients: 1, Rate: rate, Median: 1 / rate}, broadcastRun{Round: i + 1, Kind: kind, Clients: 8, Rate: 8 * rate, Median: rate, Recovery: rate})
		}
	}
	list := summaries(runs)
	if len(list) != 4 {
		t.Fatalf("got %+v, want two kinds with two numbers of clients", list)
	}
	if want := (broadcastSummary{Kind: "raft", Clients: 8, Rate: 840, RateMin: 8, RateMax: 960, Median: 105, Recovery: 105}); list[3] != want {
		t.Errorf("got %+v, want %+v", list[3], want)
	}
	var out bytes.Buffer
	broadcastReport{4, list, runs}.table(&out)
	if !strings.Contains(out.String(), " 840 ") || !strings.Contains(out.String(), " 960 ") {
		t.Errorf("prints %s", out.String())
	}
}

// When it is interrupted nothing is left: no directory, and no processes, which a stopped
// member's would be else.
func TestBenchBroadcastInterrupted(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	var progress lockedBuffer
	go func() {
		for !strings.Contains(progress.String(), "fastct, 3 clients") {
			time.Sleep(time.Millisecond)
		}
		cancel(enough)
	}()
	root := rootCommand()
	root.SetOut(io.Discard)
	root.SetErr(&progress)
	root.SetArgs([]string{"bench", "broadcast", "--time", "10m", "--clients", "3", "--dir", dir})
	if err := root.ExecuteContext(ctx); !errors.Is(err, enough) {
		t.Errorf("got %v, want the interrupt", err)
	}
	empty(t, dir)
}

// A leader that fails is replaced. One that hangs is missed by its silence alone, which lasts
// for the timeout less a heartbeat at least; a slow machine may have replaced it before.
func TestBenchBroadcastFailures(t *testing.T) {
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
