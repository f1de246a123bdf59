package widearea

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/pushlease"
	"github.com/tenure-lease/tenure/internal/lab/replicasim"
)

// Plan is the plan of Evaluate.
type Plan struct {
	Seed     uint64
	Policies []string
	Length   time.Duration // of read leases; 0: the product's
	Size     Size
	Deaths   int             // of each kind, under leases of that length
	Lengths  []time.Duration // others, for the sweep
	Sweeps   int             // deaths for each of these
	Loads    int             // runs of each bar of Figure 8
	Controls controlPlan     // if the policies of controls are among Policies
	// Progress, if set, is called with the present step, and how far all of it is: units are
	// operations, or steps that take about as long.
	Progress func(what string, done, of int)
}

// FullPlan is the paper's evaluation, and QuickPlan shows in seconds that it works.
var (
	AllPolicies = []string{"off", "leader", "all", "leader/key", "all/key", "static/key", "quorum/key", "cost/key"}
	FullPlan    = Plan{
		Seed: 1, Policies: AllPolicies, Size: Full, Deaths: 20, Sweeps: 5, Loads: 5,
		Lengths: []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second},
		Controls: controlPlan{
			Lengths: pushlease.PaperLengths, Deaths: 20, Sweeps: 5, Sweep: sweepLengths(0.25, 0.5, 1, 2),
			Ours: []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second},
		},
	}
	QuickPlan = Plan{
		Seed: 1, Policies: AllPolicies, Size: Size{Keys: 10_000, Clients: 4, Requests: 120, Discard: 60}, Deaths: 2, Sweeps: 1, Loads: 2,
		Lengths: []time.Duration{500 * time.Millisecond, 2 * time.Second},
		Controls: controlPlan{
			Lengths: pushlease.PaperLengths, Deaths: 1, Sweeps: 1, Sweep: sweepLengths(0.5)[3:],
			Ours: []time.Duration{time.Second},
		},
	}
)

// Report is the paper's evaluation and ours.
type Report struct {
	Paper    Paper    `json:"paper"`
	Measured Measured `json:"measured"`
	// Real are runs in real time, if any were made, and virtual ones like them.
	Real []Pair `json:"real,omitempty"`
}

// Pair is the same run twice: once over real members, see package live, once in virtual
// time.
type Pair struct {
	Real    Outcome `json:"real"`
	Virtual Outcome `json:"virtual"`
}

// Measured is what Evaluate found.
type Measured struct {
	Seed    uint64    `json:"seed"`
	Length  float64   `json:"lease_s"` // 0: the product's
	Size    Size      `json:"size"`
	LeftOut []LeftOut `json:"left_out"`
	Runs    []Outcome `json:"runs"`
	Deaths  []Toll    `json:"deaths"`
	Sweep   []Toll    `json:"sweep"`
	// Throughput is Figure 8.
	Throughput []Rate `json:"throughput"`
	// Controls are the paper's own ways, and ours beside them.
	Controls ControlReport `json:"controls"`
	// MinimumOf is the policy whose writes set the minimum: the leader lease, in key
	// order if that was measured, or off; none if neither was.
	MinimumOf  string    `json:"minimum_of,omitempty"`
	Statements []Finding `json:"statements"` // those of the paper's that could be measured
}

// LeftOut is a policy that was not measured.
type LeftOut struct {
	Policy string `json:"policy"`
	Why    string `json:"why"`
}

// These take about as long as so many operations.
const (
	operationsPerDeath = 3000
	operationsPerLoad  = 15_000
)

// Evaluate carries out a plan. The measurements follow from the seed. With an error it returns
// the earlier measurements.
func (p Plan) Evaluate() (Report, error) {
	for _, length := range append([]time.Duration{p.Length}, p.Lengths...) {
		if err := checkLength(length); err != nil {
			return Report{}, err
		}
	}
	m := Measured{Seed: p.Seed, Length: p.Length.Seconds(), Size: p.Size, LeftOut: []LeftOut{}, Deaths: []Toll{}, Sweep: []Toll{}, Throughput: []Rate{}}
	var policies []string
	for _, policy := range p.Policies {
		if err := replicasim.CheckPolicy(policy); errors.Is(err, replicasim.ErrPolicy) {
			m.LeftOut = append(m.LeftOut, LeftOut{policy, err.Error()})
		} else if !slices.Contains(policies, policy) {
			policies = append(policies, policy)
		}
	}
	if len(policies) == 0 {
		return Report{}, fmt.Errorf("none of the policies %q can be measured: %w", p.Policies, replicasim.ErrPolicy)
	}
	err := p.measure(&m, policies)
	m.minimum()
	m.Statements = m.statements()
	return Report{Paper: ThePaper, Measured: m}, err
}

// measure measures these policies.
func (p Plan) measure(m *Measured, policies []string) (err error) {
	sites := []int{holderThatDies, Leader}
	if !slices.Contains(policies, controlPolicy) || !slices.Contains(policies, sweepPolicy) {
		p.Controls.Deaths = 0
	}
	done, of := 0, len(policies)*(len(Workloads)*p.Size.operations()+len(sites)*(p.Deaths+len(p.Lengths)*p.Sweeps)*operationsPerDeath)+p.Controls.units()*operationsPerDeath+len(figure8(policies))*p.Loads*operationsPerLoad
	at := func(n int, format string, args ...any) {
		if p.Progress != nil {
			p.Progress(fmt.Sprintf(format, args...), done+n, of)
		}
	}
	for _, policy := range policies {
		for _, load := range Workloads {
			o, err := Run{
				Seed: p.Seed, Policy: policy, Length: p.Length, Workload: load, Size: p.Size,
				Progress: func(n int) { at(n, "%s, %s", policy, load.Name) },
			}.Play()
			if err != nil {
				return err
			}
			m.Runs = append(m.Runs, o)
			done += p.Size.operations()
		}
		deaths := func(site, times int, length time.Duration) (Toll, error) {
			t, err := deaths{
				Seed: p.Seed, Policy: policy, Length: length, Site: site, Times: times,
				Progress: func(n int) { at(n*operationsPerDeath, "%s, deaths at %s", policy, Sites[site]) },
			}.play()
			done += times * operationsPerDeath
			return t, err
		}
		for _, site := range sites {
			t, err := deaths(site, p.Deaths, p.Length)
			if err != nil {
				return err
			}
			m.Deaths = append(m.Deaths, t)
			for _, length := range p.Lengths {
				if t, err = deaths(site, p.Sweeps, length); err != nil {
					return err
				}
				t.Held.Series, t.Other.Series = nil, nil
				m.Sweep = append(m.Sweep, t)
			}
		}
	}
	for _, t := range figure8(policies) {
		t.Seed, t.Runs = p.Seed, p.Loads
		t.Progress = func(n int) { at(n*operationsPerLoad, "%s, throughput", t.Policy) }
		r, err := t.play()
		if err != nil {
			return err
		}
		m.Throughput = append(m.Throughput, r)
		done += p.Loads * operationsPerLoad
	}
	m.Controls, err = p.Controls.measure(p.Seed, func(what string, n int) { at(n*operationsPerDeath, "%s", what) })
	return err
}

// minimum finds the share of writes that took little more than the least, as the leader lease
// has it. That is in key order, where a write takes three one-way delays as in the paper, or
// else in strict order or without leases. The least is what one write in twenty is done in:
// with luck there are some that are faster.
func (m *Measured) minimum() {
	for _, policy := range []string{"leader/key", "leader", "off"} {
		if slices.ContainsFunc(m.Runs, func(o Outcome) bool { return o.Policy == policy }) {
			m.MinimumOf = policy
			break
		}
	}
	for i := range m.Runs {
		o := &m.Runs[i]
		least := m.run(m.MinimumOf, o.Workload)
		if least == nil {
			continue
		}
		for s := range o.Sites {
			if w := &least.Sites[s].Writes; w.Count > 0 {
				o.Sites[s].AtMinimum = o.Sites[s].Writes.within(time.Duration(1.1 * w.at(0.05) * float64(time.Millisecond)))
			}
		}
	}
}

// run finds a run; nil if there is none.
func (m *Measured) run(policy, workload string) *Outcome {
	for i, o := range m.Runs {
		if o.Policy == policy && o.Workload == workload {
			return &m.Runs[i]
		}
	}
	return nil
}
