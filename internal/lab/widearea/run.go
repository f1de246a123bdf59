package widearea

import (
	"crypto/rand"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/replicasim"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// Run is one run of section 5.2: a policy under a workload.
type Run struct {
	Seed     uint64
	Policy   string        // of replicasim.Policies
	Length   time.Duration // of read leases; 0: the product's
	Workload Workload
	Size     Size
	// For, if set, is how long it takes, however much is done in it. Requests that begin in the
	// first third do not count: that goes for Size's numbers of requests.
	For      time.Duration
	Progress func(operations int) // called now and then, if set
}

// Size is how much there is to do.
type Size struct {
	Keys     int `json:"keys"`
	Clients  int `json:"clients_per_site"`
	Requests int `json:"requests_per_client"`
	Discard  int `json:"discarded_per_client"` // of these, the first: meanwhile a policy adapts
}

// Full is the paper's size.
var Full = Size{Keys: 100_000, Clients: 10, Requests: 10_000, Discard: 5_000}

// operations is how many operations a run of this size has.
func (s Size) operations() int { return len(Sites) * s.Clients * s.Requests }

// Outcome is the result of a run.
type Outcome struct {
	Policy   string        `json:"policy"`
	Workload string        `json:"workload"`
	Virtual  float64       `json:"virtual_s"` // how long it took, in the world's time
	Mean     float64       `json:"mean_ms"`   // of all operations
	Sites    []SiteOutcome `json:"sites"`
	// Stale counts operations that missed one on the same key that had ended before
	// they began, and Failed writes that were given up. Both have to be 0.
	Stale  int `json:"stale"`
	Failed int `json:"failed"`
	// Elections are terms that began meanwhile: in real time only, where a busy machine
	// may make another lead.
	Elections int `json:"elections,omitempty"`
}

// SiteOutcome is the view of a site's clients.
type SiteOutcome struct {
	Site   string    `json:"site"`
	Reads  Latencies `json:"reads"`
	Writes Latencies `json:"writes"`
	// AtMinimum is the share of writes that took no more than 1.1 times the least (the
	// 5th percentile) under the leader lease, whose writes wait for a majority only: see
	// Measured.MinimumOf.
	AtMinimum float64 `json:"writes_at_minimum"`
}

// run is a Run under way.
type run struct {
	Run
	witness
	w             *sim.World
	keys          [][]byte
	reads, writes [len(Sites)][]time.Duration
	done, failed  int
	begun         time.Duration
}

// counts reports whether an operation counts that is the nth of its client.
func (r *run) counts(n int, sent time.Duration) bool {
	if r.For > 0 {
		return sent >= r.begun+Settling(r.For)
	}
	return n > r.Size.Discard
}

// Settling is how much of a run of a certain length does not count.
func Settling(length time.Duration) time.Duration { return length / 3 }

// Play plays the run in virtual time. All that happens follows from the seed. No
// other world of replicas may be played meanwhile.
func (r Run) Play() (Outcome, error) {
	defer func(before io.Reader) { rand.Reader = before }(rand.Reader) // it is raft's, and the process's
	p := &run{Run: r, w: sim.NewWorld(r.Seed), keys: keyNames(r.Size.Keys), witness: witness{newest: make([]int64, r.Size.Keys)}}
	c, err := start(p.w, r.Policy, r.Length, control{}, r.Size.Keys)
	if err != nil {
		return Outcome{}, err
	}
	begun := p.w.Now()
	for site, load := range r.Workload.Loads(r.Seed, r.Size.Keys) {
		for i := range r.Size.Clients {
			source := mrand.NewPCG(r.Seed, uint64(100+site*r.Size.Clients+i))
			cl := &client{run: p, site: site, at: c.Member(replicaAt(site)), load: load, source: source}
			cl.next(p.w.Between(0, 50*time.Millisecond))
		}
	}
	p.begun = begun
	if r.For > 0 {
		p.w.Run(r.For)
		return p.outcome(r.For), nil
	}
	for p.done < r.Size.operations() {
		before := p.done
		p.w.Until(time.Minute, func() bool {
			if r.Progress != nil {
				r.Progress(p.done)
			}
			return p.done == r.Size.operations()
		})
		if p.done == before {
			return Outcome{}, fmt.Errorf("policy %q, %s, seed %d: after %d operations none ended for a minute", r.Policy, r.Workload.Name, r.Seed, p.done)
		}
	}
	return p.outcome(p.w.Now() - begun), nil
}

// StaticCells are the paper's two cells as text, with members by some name: half of the
// keys for JP and OR, the other half for VA and IRL, and all for CA.
func StaticCells(keys int, name func(site int) string) string {
	return fmt.Sprintf("range:key..%s = %s,%s,%s; default = %s,%s,%s", KeyName(keys/2), name(0), name(1), name(2), name(1), name(3), name(4))
}

// checkLength reports whether members take leases of this length; 0 is the product's.
func checkLength(length time.Duration) error {
	if length != 0 && (length < quorumlease.MinTTL || length > quorumlease.MaxTTL) {
		return fmt.Errorf("%w: %v is not from %v to %v", quorumlease.ErrTTL, length, quorumlease.MinTTL, quorumlease.MaxTTL)
	}
	return nil
}

// start starts the five replicas. A static policy has the paper's two cells: half of
// the keys for JP and OR, the other half for VA and IRL, and all for CA.
func start(w *sim.World, policy string, length time.Duration, control control, keys int) (*replicasim.Cluster, error) {
	if err := replicasim.CheckPolicy(policy); err != nil {
		return nil, err
	}
	if err := checkLength(length); err != nil {
		return nil, err
	}
	c := replicasim.Start(w, replicasim.Options{
		Voters: len(Sites), Tail: 1 << 30, Measured: true, // the log is kept whole, no snapshots
		OneWay: oneWay, ReadLease: policy, LeaseLength: length, Paper: control.Ways, PlanEvery: control.Plan,
	})
	if !c.Elect(replicaAt(Leader)) {
		return nil, fmt.Errorf("seed %d: the replica at %s does not become leader", w.Seed, Sites[Leader])
	}
	if policy == "static/key" && !c.Divide(StaticCells(keys, func(site int) string { return fmt.Sprint(replicaAt(site)) })) {
		return nil, fmt.Errorf("seed %d: the keys are not divided", w.Seed)
	}
	return c, nil
}

func (r *run) outcome(took time.Duration) Outcome {
	o := NewOutcome(r.Policy, r.Workload, took, r.reads, r.writes)
	o.Stale, o.Failed = r.stale, r.failed
	return o
}

// NewOutcome sums up latencies by site, of a run that took so long.
func NewOutcome(policy string, load Workload, took time.Duration, reads, writes [len(Sites)][]time.Duration) Outcome {
	o := Outcome{Policy: policy, Workload: load.Name, Virtual: took.Seconds()}
	sum, n := 0.0, 0
	for site, name := range Sites {
		s := SiteOutcome{Site: name, Reads: summarize(reads[site]), Writes: summarize(writes[site])}
		for _, l := range []Latencies{s.Reads, s.Writes} {
			sum, n = sum+l.Mean*float64(l.Count), n+l.Count
		}
		o.Sites = append(o.Sites, s)
	}
	o.Mean = sum / float64(max(n, 1))
	return o
}
