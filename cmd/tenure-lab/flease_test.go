package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
)

// TestFlease runs the benchmark with next to nothing.
func TestFlease(t *testing.T) {
	b := fleaseBench{Peers: 3, Callers: 4, Leases: bytesFrom}
	if err := b.run(time.Second, 100*time.Millisecond, 1500*time.Millisecond, io.Discard); err != nil {
		t.Fatal(err)
	}
	if b.TurnsPerS <= 0 || b.TakenPerS <= 0 || b.RenewalsS <= 0 || b.HeldBytes == nil || *b.HeldBytes <= 0 || b.IdleBytes == nil || b.AcquireP99 <= 0 {
		t.Errorf("something was not measured: %+v", b)
	}
}

// TestFleaseOfLittle: a run that cannot be measured is refused, or not reported.
func TestFleaseOfLittle(t *testing.T) {
	for _, flag := range []string{"--hold=0s", "--duration=-1s"} {
		cmd := fleaseCommand()
		cmd.SetArgs([]string{flag})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "give each a positive time") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	b := fleaseBench{Leases: 10, HeldBytes: (&fleaseBench{Leases: 10}).weigh(-4096)}
	said, err := json.Marshal(b)
	if err != nil || strings.Contains(string(said), "bytes_per_held") {
		t.Errorf("bytes of ten leases: %s, %v", said, err)
	}
	var table bytes.Buffer
	if b.table(&table); strings.Contains(table.String(), "bytes for each") {
		t.Errorf("bytes of ten leases:\n%s", table.String())
	}
}
