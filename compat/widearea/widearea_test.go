package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/lab/widearea"
)

// Each kind takes at least as long as its messages are under way between the sites, but for
// reads under a lease, of which there are some.
func TestMeasure(t *testing.T) {
	var kinds []string
	for _, k := range server.Kinds() {
		kinds = append(kinds, string(k))
	}
	opt, err := parse([]string{"-kinds=" + strings.Join(kinds, ","), "-policies=off,all/key", "-clients=2", "-keys=20", "-reads=0.8", "-duration=6s", "-rounds=1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for attempt := 1; ; attempt++ {
		var progress bytes.Buffer
		results, err := measure(ctx, opt, &progress)
		t.Logf("\n%s", &progress)
		if err != nil {
			t.Fatal(err)
		}
		if len(results) != len(opt.systems) {
			t.Fatalf("%d results, want %d", len(results), len(opt.systems))
		}
		if err := judge(summarize(results)); err != nil {
			t.Fatal(err)
		}
		// On a machine that stands still for seconds another site may come to lead.
		if slices.ContainsFunc(results, func(r result) bool { return r.Elections > 0 }) && attempt < 5 {
			continue
		}
		for _, r := range results {
			check(t, r)
		}
		return
	}
}

func check(t *testing.T, r result) {
	t.Helper()
	if r.Elections > 0 {
		t.Errorf("%s: %d elections while it was measured", r.System, r.Elections)
	}
	leased := 0.0
	for i, s := range r.Sites {
		leased += s.Local
		read, write := widearea.RoundTrip(i, widearea.Leader), widearea.Floor(i)
		switch {
		case r.System == "tenure all/key":
			read, write = 0, widearea.FloorByKey(i)
		case i == widearea.Leader: // asks a majority
			read = write
		}
		if s.Gets.Count == 0 || s.Gets.P50 < float64(read)/1e6 {
			t.Errorf("%s: %d gets at %s with a median of %v ms, want %v at least", r.System, s.Gets.Count, s.Site, s.Gets.P50, read)
		}
		if s.Puts.Count == 0 || s.Puts.P50 < float64(write)/1e6 {
			t.Errorf("%s: %d puts at %s with a median of %v ms, want %v at least", r.System, s.Puts.Count, s.Site, s.Puts.P50, write)
		}
	}
	if want := r.System == "tenure all/key"; want != (leased > 0) {
		t.Errorf("%s: %.2f of the reads at the sites together were under a lease", r.System, leased)
	}
}

func TestSummarize(t *testing.T) {
	round := func(system, workload string, get, put float64, stale int) result {
		return result{System: system, Workload: workload, Round: 1, Stale: stale, Mean: get, Sites: []site{{
			Site: "JP", Gets: latencies{9, get, 2 * get}, Puts: latencies{1, put, put}, Local: get / 100,
		}}}
	}
	medians := summarize([]result{
		round("etcd", "a", 200, 80, 0), round("etcd", "b", 1, 1, 0), round("tenure all", "a", 4, 160, 1),
		round("etcd", "a", 100, 90, 0), round("tenure all", "a", 0.5, 100, 2), round("tenure all", "a", 0.25, 200, 0), round("etcd", "a", 600, 70, 0),
	})
	var order []string
	for _, m := range medians {
		order = append(order, m.System+" "+m.Workload)
	}
	if want := []string{"etcd a", "tenure all a", "etcd b"}; !slices.Equal(order, want) {
		t.Fatalf("medians are of %q, want %q", order, want)
	}
	m := medians[1]
	if got := m.Sites[0]; m.Round != 3 || m.Mean != 0.5 || m.Stale != 3 || got.Gets != (latencies{9, 0.5, 1}) || got.Puts.P50 != 160 || got.Local != 0.005 {
		t.Errorf("the medians are %+v", m)
	}
	if err := judge(medians); err == nil || !strings.Contains(err.Error(), "tenure all, a: 3 ") {
		t.Errorf("of stale reads it says %v", err)
	}
	var text bytes.Buffer
	table(&text, medians)
	got := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{"a, latencies in ms, medians of 3: ", "tenure all 0.50 400 1.00 400 160 0.50 160 0.50 0.5 %", "JP etcd 200 400 80 80 0.0 %", "0.5 ms; 3 stale", " b, latencies"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, &text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range []string{"-rounds=0", "-o=xml", "-clients=0", "-duration=-1s", "-pause=-1s", "-reads=1.5", "-reads=most", "-policies=unheard-of", "-kinds=zookeeper", "-nonsense"} {
		if _, err := parse([]string{args}); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
