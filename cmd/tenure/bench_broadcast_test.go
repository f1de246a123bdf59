package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

func TestBenchBroadcast(t *testing.T) {
	var out bytes.Buffer
	root := rootCommand()
	root.SetOut(&out)
	root.SetArgs([]string{"bench", "broadcast", "--time", "100ms", "--clients", "1,8", "--crash=false", "--dir", t.TempDir(), "-o", "json"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	var runs []broadcastRun
	if err := json.Unmarshal(out.Bytes(), &runs); err != nil {
		t.Fatal(err)
	}
	if len(runs) != 6 {
		t.Fatalf("%d runs, want fastct, ct96 and raft with 1 and 8 clients: %+v", len(runs), runs)
	}
	for _, r := range runs {
		if r.Rate <= 0 || r.Median <= 0 || r.P99 < r.Median || r.CPU <= 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestBenchBroadcastFailures(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		gap, err := failure("fastct", t.TempDir(), hangs, time.Second)
		if err != nil || gap <= 0 {
			t.Errorf("the leader fails, hangs: %v: nothing for %v, %v", hangs, gap, err)
		}
	}
}
