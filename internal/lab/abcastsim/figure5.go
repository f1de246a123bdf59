package abcastsim

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Figure5 is the paper's Figure 5: communication steps for 100 instances.
type Figure5 struct {
	Counted []Counted     `json:"counted"`
	Paper   []PaperFigure `json:"paper"`
	// Alone is one instance by itself: section 4.3.
	Alone []Counted `json:"alone"`
	// Starts is the first 100 instances with an adaptive λ of at most 100: section 5.
	Starts []Counted `json:"starts"`
	// Crashes is the other half of the trade.
	Crashes []Crash `json:"crashes"`
}

// Counted are the costs of a run in a stable period.
type Counted struct {
	Algorithm string `json:"algorithm"` // fastct or ct96
	Members   int    `json:"members"`
	Lambda    uint64 `json:"lambda,omitempty"`
	Start     string `json:"start,omitempty"` // of an adaptive λ
	Instances int    `json:"instances"`
	Steps     int    `json:"steps"` // communication steps, of all instances together
	Leases    int    `json:"leases"`
	// Messages and bytes between members, of consensus and of leases.
	Messages int `json:"messages"`
	Bytes    int `json:"bytes"`
	// Latency is the mean time from a broadcast to its delivery at the same member.
	Latency float64 `json:"latency_ms"`
}

// PaperFigure is a column of Figure 5 as printed.
type PaperFigure struct {
	Lambda uint64 `json:"lambda"`
	FastCT int    `json:"fastct"`
	CT96   int    `json:"ct96"`
}

// PaperFigure5 is Figure 5 as printed.
var PaperFigure5 = []PaperFigure{{1, 500, 400}, {10, 320, 400}, {20, 310, 400}, {50, 304, 400}, {100, 302, 400}}

// group is a world with some members, of which one broadcasts at a time.
type group struct {
	w       *sim.World
	count   *counter
	hosts   []*sim.Process[abcast.Input, abcast.Outcome]
	members []*abcast.Machine
	at      []uint64 // positions
	seq     uint64
	since   time.Duration
	waited  time.Duration // of all broadcasts together
	sender  int
	gaps    []time.Duration // times of delivery at the sender
}

// newGroup starts members. Messages take 0.5 to 1.5 ms, a forced write up to 2 ms.
func newGroup(seed uint64, n int, cfg fastct.Config) (*group, error) {
	w := sim.NewWorld(seed)
	net := sim.NewNetwork(w, func(b any) any { return b })
	net.Min, net.Max = 500*time.Microsecond, 1500*time.Microsecond
	g := &group{w: w, count: newCounter(), at: make([]uint64, n)}
	for i := range n {
		cfg.Members = append(cfg.Members, machine.NodeID(i+1))
	}
	for i, id := range cfg.Members {
		cfg.ID = id
		m, err := abcast.New(abcast.Config{
			Consensus: cfg, Life: 1, BatchCount: 100, BatchBytes: 1 << 20, PendingCount: 1000, PendingBytes: 1 << 24,
			Pipeline: 1, Relay: 4 * cfg.Retry, Clients: 100,
		}, nil)
		if err != nil {
			return nil, err
		}
		h := sim.NewProcess[abcast.Input, abcast.Outcome](w, net, id, 1e-5)
		h.Outcome = func(out abcast.Outcome) {
			if d, ok := out.(abcast.Delivered); ok {
				g.delivered(i, d)
			}
		}
		g.hosts, g.members = append(g.hosts, h), append(g.members, m)
		h.Start(newCounted(m, id, n, g.count))
	}
	return g, nil
}

// broadcast sends the next message, of 100 bytes.
func (g *group) broadcast() {
	g.seq++
	g.since = g.w.Now()
	g.hosts[g.sender].Step(abcast.Broadcast{Message: abcast.Message{Client: abcast.NewClient(0, 1), Seq: g.seq, Payload: make([]byte, 100)}})
}

// delivered broadcasts the next when all that are up have delivered the last.
func (g *group) delivered(i int, d abcast.Delivered) {
	g.at[i] = d.Position
	if i == g.sender {
		g.waited += g.w.Now() - g.since
		g.gaps = append(g.gaps, g.w.Now())
	}
	for k, h := range g.hosts {
		if h.Up() && g.at[k] < g.seq {
			return
		}
	}
	g.broadcast()
}

// instances is how many instances were decided, from the first on.
func (g *group) instances() (n int) {
	for g.count.steps[uint64(n+1)] > 0 {
		n++
	}
	return n
}

// stable is without failures and suspicions.
func stable(seed uint64, n, instances int, cfg fastct.Config) (Counted, error) {
	cfg.Retry = time.Second
	g, err := newGroup(seed, n, cfg)
	if err != nil {
		return Counted{}, err
	}
	g.sender = n - 1 // not the leader
	g.broadcast()
	if !g.w.Until(time.Minute, func() bool { return g.instances() > instances }) {
		return Counted{}, fmt.Errorf("%d members have decided %d instances of %d in a minute", n, g.instances(), instances)
	}
	c := Counted{Algorithm: "fastct", Members: n, Lambda: cfg.Lambda, Instances: instances}
	if cfg.Plain {
		c.Algorithm, c.Lambda = "ct96", 0
	}
	for cn := range instances {
		c.Steps += g.count.steps[uint64(cn+1)]
		if t := g.count.traffic[uint64(cn+1)]; t != nil {
			c.Leases += t.leases
			c.Messages += t.messages
			c.Bytes += t.bytes
		}
	}
	c.Latency = g.waited.Seconds() * 1000 / float64(len(g.gaps))
	return c, nil
}

// CountFigure5 counts the steps of 100 instances for each λ of the paper, in groups of
// these sizes, from runs of package abcast. Delays and writes follow from the seed; the
// steps do not depend on it.
func CountFigure5(seed uint64, sizes ...int) (Figure5, error) {
	f := Figure5{Paper: PaperFigure5}
	add := func(to *[]Counted, c Counted, err error) error {
		*to = append(*to, c)
		return err
	}
	for _, n := range sizes {
		for _, p := range PaperFigure5 {
			c, err := stable(seed, n, 100, fastct.Config{Lambda: p.Lambda, Fixed: true})
			if err := add(&f.Counted, c, err); err != nil {
				return f, err
			}
		}
		c, err := stable(seed, n, 100, fastct.Config{Plain: true})
		if err := add(&f.Counted, c, err); err != nil {
			return f, err
		}
		for _, plain := range []bool{false, true} {
			c, err := stable(seed, n, 1, fastct.Config{Plain: plain, Lambda: 1, Fixed: true})
			c.Lambda, c.Latency = 0, 0 // that is of more than one instance
			if err := add(&f.Alone, c, err); err != nil {
				return f, err
			}
		}
		for _, optimistic := range []bool{false, true} {
			c, err := stable(seed, n, 100, fastct.Config{Lambda: 100, Optimistic: optimistic})
			c.Start = map[bool]string{false: "λmax/2", true: "λmax"}[optimistic]
			if err := add(&f.Starts, c, err); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

// Crash is the cost of the death of a leader that has just got a lease.
type Crash struct {
	Members int    `json:"members"`
	Lambda  uint64 `json:"lambda"`
	// Gap is the longest time without a delivery after the crash, which a failure detector
	// with the timeout below finds.
	Gap     float64 `json:"gap_ms"`
	Timeout float64 `json:"timeout_ms"`
	// Normal is how many instances were decided in NORMAL mode until FAST mode was back,
	// after so long, to 10 ms.
	Normal int     `json:"normal"`
	Until  float64 `json:"until_fast_ms"`
	Leases uint64  `json:"leases"` // invocations by the next leader until then
}

// CountCrashes lets the leader crash right after it was granted a lease for λ instances, and
// measures the time after it: the median of some seeds.
func CountCrashes(seed uint64, runs int, n int, lambdas ...uint64) (crashes []Crash, err error) {
	for _, lambda := range lambdas {
		var some []Crash
		for i := range runs {
			c, err := crash(seed+uint64(i), n, lambda)
			if err != nil {
				return nil, err
			}
			some = append(some, c)
		}
		slices.SortFunc(some, func(a, b Crash) int { return int((a.Until - b.Until) * 1000) })
		crashes = append(crashes, some[len(some)/2])
	}
	return crashes, nil
}

const detected = 200 * time.Millisecond

func crash(seed uint64, n int, lambda uint64) (Crash, error) {
	g, err := newGroup(seed, n, fastct.Config{Lambda: lambda, Fixed: true, Spread: true, Retry: 50 * time.Millisecond, Heartbeat: 40 * time.Millisecond, Timeout: detected})
	if err != nil {
		return Crash{}, err
	}
	c := Crash{Members: n, Lambda: lambda, Timeout: detected.Seconds() * 1000}
	g.sender = n - 1
	g.broadcast()
	// The leader dies with a lease that is not its first, a few instances after it was granted.
	leader := g.members[0].Consensus()
	if !g.w.Until(time.Minute, func() bool { return leader.Leases >= 2 && uint64(g.instances())%lambda <= lambda/5 }) {
		return c, fmt.Errorf("λ = %d: the leader has no second lease that is new", lambda)
	}
	died, position := g.w.Now(), g.at[g.sender]
	last := uint64(g.instances())
	g.hosts[0].Crash()
	if !g.w.Until(time.Minute, func() bool { return g.at[g.sender] > position+3 }) {
		return c, fmt.Errorf("λ = %d: nothing is delivered after the leader's death", lambda)
	}
	before := died
	for _, at := range g.gaps {
		if at > died {
			c.Gap = max(c.Gap, (at-before).Seconds()*1000)
			before = at
		}
	}
	fast := func() bool {
		c.Normal = 0
		for cn := last + 1; ; cn++ {
			r, ok := g.count.rounds[cn]
			if !ok {
				return false
			}
			switch g.members[n-1].Consensus().FastLeader(r) {
			case 0:
				c.Normal++
			case 1: // it was under way when the leader died
			default:
				return true
			}
		}
	}
	if !g.w.Until(time.Minute, fast) {
		return c, fmt.Errorf("λ = %d: FAST mode is not back a minute after the leader's death", lambda)
	}
	c.Until = (g.w.Now() - died).Seconds() * 1000
	for _, m := range g.members[1:] {
		c.Leases += m.Consensus().Leases
	}
	return c, nil
}
