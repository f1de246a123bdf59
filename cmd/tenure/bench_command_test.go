package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A bench accesses each directory as often as it is told, and proposes how to keep leases in all of them.
func TestWhatABenchIsAskedFor(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	at := "file://" + one + "," + two
	b := jsonOf[benched](t, "lease", "bench", "--at", at, "--accesses", "3", "--single-host")
	if b.At != at || len(b.Medium) != 2 {
		t.Fatalf("benched are %d stores at %s, want two at %s", len(b.Medium), b.At, at)
	}
	for i, path := range []string{one, two} {
		s := b.Medium[i]
		if s.Store != path || s.Accesses != 3 || s.Read.P50 <= 0 || s.Write.P50 <= 0 || s.Read.Max < s.Read.P50 || s.Write.Max < s.Write.P50 {
			t.Errorf("store %d is %+v, want 3 accesses of %s", i, s, path)
		}
		if left, err := os.ReadDir(path); err != nil || len(left) > 0 {
			t.Errorf("a bench leaves %v, %v in %s", left, err, path)
		}
	}
	if p := b.Proposed; p.TTLMS < 100*p.DelayMS || p.DelayMS <= 0 || p.TakeoverMS <= p.TTLMS {
		t.Errorf("proposed is %+v, want a TTL of many delays, and a takeover after that", p)
	}
	if l := b.Leases; l.AcquireMS <= 0 || l.ReleaseMS <= 0 || l.RenewMS <= 0 {
		t.Errorf("leases take %+v, want how long each step takes", l)
	}
	out, err := command(t, "lease", "init", "--at", "file://"+filepath.Join(one, "none"), "--delay", "20ms")
	wantExit(t, err, 69)
	if out != "" {
		t.Errorf("nothing is made, and it prints %q", fmt.Sprint(out))
	}
}
