package live

import (
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/widearea"
)

// Real members answer as those in virtual time: nothing is stale, nothing is faster than
// the links, and holders read from their memory.
func TestRun(t *testing.T) {
	size := widearea.Size{Keys: 100, Clients: 2}
	o, err := Run{Seed: 1, Policy: "all/key", Workload: widearea.Table2, Size: size, For: 6 * time.Second, Dir: t.TempDir()}.Play(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.Stale != 0 || o.Failed != 0 {
		t.Errorf("%d operations are stale and %d failed, want none", o.Stale, o.Failed)
	}
	local := 0
	for i, s := range o.Sites {
		if s.Reads.Count == 0 || s.Writes.Count == 0 {
			t.Fatalf("%s: %d reads and %d writes", s.Site, s.Reads.Count, s.Writes.Count)
		}
		if s.Reads.CDF[0][0] < 10 {
			local++
		}
		// Every other replica has to have it: the furthest from the leader in any case.
		if least := s.Writes.CDF[0][0]; least < float64(widearea.RoundTrip(i, widearea.Leader))/1e6 {
			t.Errorf("%s: a write took %v ms, less than to the leader and back", s.Site, least)
		}
	}
	if local != len(o.Sites) {
		t.Errorf("at %d of %d sites some read was local", local, len(o.Sites))
	}
}
