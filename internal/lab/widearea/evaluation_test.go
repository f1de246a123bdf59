package widearea

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/replicasim"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

func TestEvaluate(t *testing.T) {
	last := 0
	plan := Plan{
		Seed: 3, Policies: []string{"off", "no such policy", "off"}, Size: small, Deaths: 1, Sweeps: 1, Loads: 1, Lengths: []time.Duration{time.Second},
		Progress: func(_ string, done, of int) {
			if done < last || done > of {
				t.Errorf("%d of %d done after %d", done, of, last)
			}
			last = done
		},
	}
	r, err := plan.Evaluate()
	if err != nil {
		t.Fatal(err)
	}
	m := r.Measured
	if len(m.LeftOut) != 1 || m.LeftOut[0].Policy != "no such policy" {
		t.Errorf("left out: %+v", m.LeftOut)
	}
	if len(m.Runs) != len(Workloads) || len(m.Deaths) != 2 || len(m.Sweep) != 2 {
		t.Errorf("%d runs, %d and %d deaths, want %d, 2 and 2", len(m.Runs), len(m.Deaths), len(m.Sweep), len(Workloads))
	}
	for _, o := range m.Runs {
		for _, s := range o.Sites {
			if s.AtMinimum < 0.1 || s.AtMinimum > 1 {
				t.Errorf("%s, %s: %v of the writes are at the minimum, which is their own", o.Workload, s.Site, s.AtMinimum)
			}
		}
	}
	plan.Policies = []string{"no such policy"}
	if _, err := plan.Evaluate(); !errors.Is(err, replicasim.ErrPolicy) {
		t.Errorf("got %v", err)
	}
}

// A length that no member would take is refused, and not played.
func TestLengthsOfNoMember(t *testing.T) {
	for _, length := range []time.Duration{time.Millisecond, time.Hour, -time.Second} {
		plan := QuickPlan
		plan.Length = length
		_, whole := plan.Evaluate()
		plan.Length, plan.Lengths = 0, []time.Duration{length}
		_, sweep := plan.Evaluate()
		_, run := Run{Seed: 1, Policy: "all", Length: length, Workload: Figure6, Size: small}.Play()
		_, deaths := deaths{Seed: 1, Policy: "all", Length: length, Site: 3, Times: 1}.play()
		for what, err := range map[string]error{"the evaluation": whole, "its sweep": sweep, "a run": run, "deaths": deaths} {
			if !errors.Is(err, quorumlease.ErrTTL) {
				t.Errorf("%s with leases of %v: got %v", what, length, err)
			}
		}
	}
}

// The paper's statements are measured by the runs that they are about.
func TestStatements(t *testing.T) {
	outcome := func(policy string, load Workload, local, minimal, read, write float64) Outcome {
		o := Outcome{Policy: policy, Workload: load.Name}
		for i := range Sites {
			s := SiteOutcome{AtMinimum: minimal, Reads: Latencies{Mean: read, Under10: local}, Writes: Latencies{Mean: write}}
			s.Reads.Under10 -= float64(i) / 100
			o.Sites = append(o.Sites, s)
		}
		return o
	}
	m := Measured{
		MinimumOf: "leader/key",
		Runs: []Outcome{
			outcome("leader/key", Figure6, 0.2, 1, 100, 110), outcome("all/key", Figure6, 0.97, 0, 0.5, 220),
			outcome("leader", Figure6, 0.2, 0, 90, 160), outcome("all", Figure6, 0.4, 0, 150, 230),
			outcome("quorum/key", Figure6, 0.9, 0.75, 5, 150), outcome("quorum/key", Table2, 0.1, 0.1, 1, 1),
			outcome("static/key", Uniform, 0.52, 0.5, 1, 1),
			outcome("quorum/key", Together, 0, 0, 6, 120), outcome("quorum/key", Apart, 0, 0, 1, 198), outcome("all/key", Apart, 0, 0, 1, 220),
		},
		Deaths: []Toll{{Policy: "quorum/key", Site: "CA", Held: Writes{Slowest: 5000}}, {Policy: "quorum/key", Site: "VA", Held: Writes{Slowest: 1250}}},
		Controls: ControlReport{Deaths: []Toll{
			{Control: "", Site: "VA", Held: Writes{Slowest: 1}}, {Control: "pushed", Site: "VA", Held: Writes{Slowest: 8900}},
			{Control: "pushed", Site: "CA", Held: Writes{Slowest: 9000}, Other: Writes{Slowest: 9100}},
			{Control: "the paper's", Site: "VA", Held: Writes{Slowest: 2}},
		}},
	}
	want := map[string]float64{
		"quorum-local-reads": 0.86, "quorum-minimal-writes": 0.75, "all-local-reads": 0.95, "all-write-ratio": 2,
		"leader-read-ratio": 200, "static-local-reads": 0.5, "static-minimal-writes": 0.5, "quorum-stall": 1.25,
		"together-read-ratio": 1.2, "together-write-ratio": 0.8, "apart-write-ratio": 0.9, "apart-ratio": 1.5,
		"all-read-throughput": 3, "quorum-read-throughput": 0.99, "quorum-write-throughput": 0.5,
		"pushed-stall": 8.9, "pushed-leader-stall": 9.1,
	}
	m.Runs[8].Mean, m.Runs[9].Mean = 150, 100
	for policy, mean := range map[string]float64{"static/key": 95, "all/key": 100, "leader/key": 96, "all": 90} {
		m.Throughput = append(m.Throughput, Rate{Policy: policy, What: "reads", Asks: Anything, Mean: mean}, Rate{Policy: policy, What: "writes", Asks: Anything, Mean: mean})
	}
	m.Throughput = append(m.Throughput, Rate{Policy: "static/key", What: "reads", Asks: Held, Mean: 99},
		Rate{Policy: "static/key", What: "writes", Asks: Held, Mean: 48}, Rate{Policy: "leader", What: "reads", Asks: TheLeader, Mean: 30})
	got := m.statements()
	if len(got) != len(ThePaper.Statements) {
		t.Errorf("%d of %d statements are measured", len(got), len(ThePaper.Statements))
	}
	for _, s := range got {
		if w, ok := want[s.ID]; !ok || math.Abs(s.Value-w) > 1e-9 || s.Text != "" || s.Under == "" {
			t.Errorf("%s: got %v %q under %q, want %v", s.ID, s.Value, s.Text, s.Under, w)
		}
	}
	// The paper's statements on systems whose writes take three one-way delays are not compared
	// with ours that take four, unless nothing else was measured; and then the text says so.
	m.Runs = append(m.Runs[:1:1], m.Runs[2:4]...)
	for _, s := range m.statements() {
		want := map[string]Finding{
			"all-local-reads":   {Statement{Value: 0.38}, "all"},
			"all-write-ratio":   {Statement{Value: 230.0 / 160}, "all over leader"},
			"leader-read-ratio": {Statement{Value: 0.6}, "leader over all"},
		}
		if w, ok := want[s.ID]; ok && (math.Abs(s.Value-w.Value) > 1e-9 || s.Under != w.Under) {
			t.Errorf("%s: got %v under %q, want %v under %q", s.ID, s.Value, s.Under, w.Value, w.Under)
		}
	}
	if none := (&Measured{}).statements(); len(none) != 0 {
		t.Errorf("without a run there is %+v", none)
	}
}

func TestMinimum(t *testing.T) {
	const load = "zipf 1:1"
	run := func(policy string, latencies ...time.Duration) Outcome {
		o := Outcome{Policy: policy, Workload: load}
		for range Sites {
			o.Sites = append(o.Sites, SiteOutcome{Writes: summarize(latencies)})
		}
		return o
	}
	ms := time.Millisecond
	m := Measured{Runs: []Outcome{run("all", 100*ms, 110*ms, 111*ms, 200*ms), run("off", 10*ms), run("leader", 200*ms), run("leader/key", 100*ms)}}
	m.minimum()
	if got := m.Runs[0].Sites[0].AtMinimum; got != 0.5 {
		t.Errorf("got %v, want the two writes that took 1.1 times the leader lease's at most", got)
	}
	m = Measured{Runs: m.Runs[:3]}
	m.minimum()
	if got := m.Runs[0].Sites[0].AtMinimum; got != 1 {
		t.Errorf("got %v, want all: the leader lease in strict order is the minimum where key order was not measured", got)
	}
	m = Measured{Runs: m.Runs[:2]}
	m.minimum()
	if got := m.Runs[0].Sites[0].AtMinimum; got != 0 {
		t.Errorf("got %v, want none: without the leader lease no lease at all is the minimum", got)
	}
	m = Measured{Runs: m.Runs[:1]}
	if m.minimum(); m.MinimumOf != "" {
		t.Errorf("%q set the minimum, but was not measured", m.MinimumOf)
	}
}
