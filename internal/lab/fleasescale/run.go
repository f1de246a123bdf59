package fleasescale

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// Costs are the times that a peer's processor takes.
type Costs struct {
	// Frame is for each batch that comes or goes, Op for each operation in it.
	Frame, Op time.Duration
}

// ServiceTimes are the product's costs, in processor time, on the machine of docs/performance.md's
// figures:
//
//   - Frame: `go test ./internal/host/peer -bench Messages/1$`: 14 µs at both ends of a connection.
//   - Op: `go test ./internal/protocol/flease -bench Renew`: 8 operations of a renewal, at both ends each, the
//     frames' encoding included.
var ServiceTimes = Costs{Frame: 7 * time.Microsecond, Op: 500 * time.Nanosecond}

// Run is a cluster at work.
type Run struct {
	Seed      uint64
	Peers     int
	Resources int // the source of drawn names
	UnderWay  int // claims of each peer that are begun and not given back
	Costs     Costs
	Time      time.Duration // that counts
}

// Rate is the result.
type Rate struct {
	Peers     int     `json:"peers"`
	PerSecond float64 `json:"leases_per_s"`
	// Refused is how many claims a second met a resource that another had, or was about to.
	Refused float64 `json:"refused_per_s"`
	// Latency is the mean time from a claim to its lease.
	Latency float64 `json:"latency_ms"`
	// Ops is how many operations a frame has, in the mean.
	Ops float64 `json:"ops_per_frame"`
	// Busy is the share of the time that processors work: the mean, and the busiest.
	Busy    float64 `json:"busy"`
	Busiest float64 `json:"busiest"`
}

// MaxPeers is how many there may be.
const MaxPeers = flease.MaxMember

const (
	tmax    = 10 * time.Second
	epsilon = 20 * time.Millisecond
	warming = 60 * time.Millisecond // before anything counts, longer than a lease takes
	oneWay  = 50 * time.Microsecond // to 150 µs
)

// peer is a host with the claims of its callers.
type peer struct {
	*sim.Process[flease.Input, flease.Report]
	run   *cluster
	next  uint64
	since map[uint64]time.Duration // of claims that are under way
}

type cluster struct {
	Run
	w        *sim.World
	peers    []*peer
	serving  int
	counts   bool
	granted  int
	refused  int
	latency  time.Duration
	frames   int
	ops      int
	failures error
}

// Play plays it. The same Run always gives the same Rate.
func (r Run) Play() (Rate, error) {
	c := &cluster{Run: r, w: sim.NewWorld(r.Seed)}
	net := sim.NewNetwork(c.w, func(body any) any { return body }) // batches are never changed
	net.Min, net.Max = oneWay, 3*oneWay
	view := flease.View{Epoch: 1}
	for i := range r.Peers {
		view.Members = append(view.Members, machine.NodeID(i+1))
	}
	for _, id := range view.Members {
		m, err := flease.New(flease.Config{
			Self: id, Incarnation: 1, View: view, TMax: tmax, Epsilon: epsilon, Seed: r.Seed<<10 + uint64(id),
			MaxAttempts: r.UnderWay, MaxQueued: r.UnderWay,
		})
		if err != nil {
			return Rate{}, err
		}
		p := &peer{Process: sim.NewProcess[flease.Input, flease.Report](c.w, net, id, 0), run: c, since: map[uint64]time.Duration{}}
		p.Lag = 0 // the processor is what takes time
		p.Processor, p.Takes, p.Outcome = &sim.Processor{}, c.turnCost, p.outcome
		c.peers = append(c.peers, p)
		p.Start(m)
	}
	if !c.w.Until(2*tmax, func() bool { return c.serving == r.Peers }) {
		return Rate{}, fmt.Errorf("after %v %d of %d peers serve", 2*tmax, c.serving, r.Peers)
	}
	for _, p := range c.peers {
		for range r.UnderWay { // not all at the same moment
			c.w.After(c.w.Between(0, warming/2), p.claim)
		}
	}
	c.w.Run(warming)
	worked := make([]time.Duration, len(c.peers))
	for i, p := range c.peers {
		worked[i] = p.Processor.Worked()
	}
	c.counts = true
	c.w.Run(r.Time)
	if c.failures != nil {
		return Rate{}, c.failures
	}
	s := r.Time.Seconds()
	out := Rate{
		Peers: r.Peers, PerSecond: float64(c.granted) / s, Refused: float64(c.refused) / s,
		Latency: float64(c.latency.Microseconds()) / 1000 / float64(max(1, c.granted)), Ops: float64(c.ops) / float64(max(1, c.frames)),
	}
	for i, p := range c.peers {
		busy := (p.Processor.Worked() - worked[i]).Seconds() / s
		out.Busy += busy / float64(r.Peers)
		out.Busiest = max(out.Busiest, busy)
	}
	return out, nil
}

// turnCost is the cost of a turn.
func (c *cluster) turnCost(received []machine.Envelope, rd machine.Ready[flease.Report]) time.Duration {
	frames, ops := len(rd.Sends), 0
	for _, env := range rd.Sends {
		ops += len(env.Body.(*flease.Batch).Ops)
	}
	if c.counts {
		c.frames += frames
		c.ops += ops
	}
	for _, env := range received {
		frames++
		ops += len(env.Body.(*flease.Batch).Ops)
	}
	return time.Duration(frames)*c.Costs.Frame + time.Duration(ops)*c.Costs.Op
}

// claim begins a claim of any resource.
func (p *peer) claim() {
	p.next++
	p.since[p.next] = p.run.w.Now()
	name := fmt.Sprintf("resource/%d", p.run.w.Rand.IntN(p.run.Resources))
	p.Step(flease.Acquire{ID: p.next, Name: name, Try: true})
}

func (p *peer) outcome(out flease.Report) {
	c := p.run
	switch out := out.(type) {
	case flease.Serving:
		c.serving++
	case flease.Acquired:
		if c.counts {
			c.granted++
			c.latency += c.w.Now() - p.since[out.ID]
		}
		p.Step(flease.Release{ID: out.ID})
	case flease.Refused:
		delete(p.since, out.ID)
		if out.Err != nil {
			c.failures = fmt.Errorf("peer %d was refused: %w", p.ID, out.Err)
		}
		if c.counts {
			c.refused++
		}
		p.claim()
	case flease.Released:
		delete(p.since, out.ID)
		if !out.Confirmed {
			c.failures = fmt.Errorf("peer %d could not give back what it had", p.ID)
		}
		p.claim()
	case flease.Lost:
		c.failures = fmt.Errorf("peer %d has lost a lease: %s", p.ID, out.Why)
	}
}
