package main

import (
	"bytes"
	"encoding/json"
	"testing"
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
		if r.Rate <= 0 || r.Median <= 0 || r.P99 < r.Median {
			t.Errorf("%+v", r)
		}
	}
}
