package main

import (
	"io"
	"testing"
	"time"
)

// TestBenchFlease runs the benchmark with next to nothing.
func TestBenchFlease(t *testing.T) {
	b := fleaseBench{Peers: 3, Callers: 4, Leases: 100}
	if err := b.run(time.Second, 100*time.Millisecond, 1500*time.Millisecond, io.Discard); err != nil {
		t.Fatal(err)
	}
	if b.TurnsPerS <= 0 || b.TakenPerS <= 0 || b.RenewalsS <= 0 || b.HeldBytes <= 0 || b.AcquireP99 <= 0 {
		t.Errorf("something was not measured: %+v", b)
	}
}
