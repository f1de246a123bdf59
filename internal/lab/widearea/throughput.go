package widearea

import (
	"crypto/rand"
	"fmt"
	"io"
	"math"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/replicasim"
	"github.com/tenure-lease/tenure/internal/lab/sim"
)

// throughput is section 5.4, Figure 8: how much five replicas in one cluster can do, if
// each has one processor and that is all there is. A client a replica keeps more
// requests under way than the replica can work off.
type throughput struct {
	Seed     uint64 // of the first run; the others follow
	Runs     int
	Policy   string
	Reads    bool // else all write
	Asks     Asks
	Progress func(runs int)
}

// Asks is what clients ask which replica.
type Asks string

// A replica's clients ask it for any key; for keys that it holds, as clients do that know; or
// they ask the leader.
const (
	Anything  Asks = "its own replica, any key"
	Held      Asks = "its own replica, keys that it holds"
	TheLeader Asks = "the leader"
)

// Rate is the result of a Throughput: operations a second, with its 95 % confidence interval
// over the runs.
type Rate struct {
	Policy string  `json:"policy"`
	What   string  `json:"what"` // "reads" or "writes"
	Asks   Asks    `json:"clients_ask"`
	Mean   float64 `json:"per_second"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Runs   int     `json:"runs"`
	// Leader and Others are how busy processors were: the leader's, and the others' mean.
	Leader float64 `json:"leader_busy"`
	Others float64 `json:"others_busy"`
	Stale  int     `json:"stale"`  // as in Outcome: it has to be 0
	Failed int     `json:"failed"` // this, too; they are not among the operations
}

// ServiceTimes are the product's costs, in processor time, on the machine of docs/performance.md's
// figures:
//
//   - Request: a serializable get over gRPC, `make compare`: 60 µs of the servers.
//   - Entry: a put there takes 208 µs of three servers. Less the request it is 49 µs
//     each, of which frames take some 4.
//   - Frame: `go test ./internal/host/peer -bench Messages/1$`: 14 µs at both ends of a connection.
//
// It includes the savings of batches, for the simulator batches as the product does.
// Nothing is in it that takes no messages: a leased read costs what a serializable one
// does.
var ServiceTimes = replicasim.Costs{
	Request: 60 * time.Microsecond, Entry: 45 * time.Microsecond, Frame: 7 * time.Microsecond,
}

// figure8 are the bars of Figure 8, as far as their policies are to be measured.
func figure8(policies []string) (list []throughput) {
	for _, t := range []throughput{
		{Policy: "leader", Reads: true, Asks: TheLeader}, {Policy: "leader", Reads: true, Asks: Anything}, {Policy: "all", Reads: true, Asks: Anything},
		{Policy: "all/key", Reads: true, Asks: Anything}, {Policy: "static/key", Reads: true, Asks: Held}, {Policy: "static/key", Reads: true, Asks: Anything},
		{Policy: "leader", Asks: Anything}, {Policy: "all", Asks: Anything},
		{Policy: "leader/key", Asks: Anything}, {Policy: "all/key", Asks: Anything}, {Policy: "static/key", Asks: Held},
	} {
		if slices.Contains(policies, t.Policy) {
			list = append(list, t)
		}
	}
	return list
}

const (
	clusterKeys = 10_000
	underWay    = 512 // requests of a client
	warmingUp   = 400 * time.Millisecond
	counting    = 400 * time.Millisecond
)

// t95 is Student's t for a two-sided 95 % by degrees of freedom, from 1 on.
var t95 = []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262}

// play plays them all.
func (t throughput) play() (Rate, error) {
	r := Rate{Policy: t.Policy, What: "writes", Asks: t.Asks, Runs: t.Runs}
	if t.Reads {
		r.What = "reads"
	}
	var rates []float64
	for i := range t.Runs {
		x, err := t.one(t.Seed + uint64(i))
		if err != nil {
			return Rate{}, err
		}
		rates = append(rates, float64(x.ended)/counting.Seconds())
		for site, busy := range x.worked {
			share := busy.Seconds() / counting.Seconds() / float64(t.Runs)
			if site == Leader {
				r.Leader += share
			} else {
				r.Others += share / float64(len(Sites)-1)
			}
		}
		r.Stale, r.Failed = r.Stale+x.stale, r.Failed+x.failed
		if t.Progress != nil {
			t.Progress(i + 1)
		}
	}
	r.Mean, r.Low, r.High = interval(rates)
	return r, nil
}

// interval is the mean of some measurements and its 95 % confidence interval; one has
// none.
func interval(list []float64) (mean, low, high float64) {
	for _, x := range list {
		mean += x / float64(len(list))
	}
	if len(list) < 2 {
		return mean, mean, mean
	}
	variance := 0.0
	for _, x := range list {
		variance += (x - mean) * (x - mean) / float64(len(list)-1)
	}
	half := t95[min(len(list)-1, len(t95))-1] * math.Sqrt(variance/float64(len(list)))
	return mean, mean - half, mean + half
}

// saturation is one run, under way.
type saturation struct {
	throughput
	witness
	w      *sim.World
	keys   [][]byte
	counts bool
	ended  int
	failed int
	worked [len(Sites)]time.Duration
}

func (t throughput) one(seed uint64) (*saturation, error) {
	defer func(before io.Reader) { rand.Reader = before }(rand.Reader)
	x := &saturation{throughput: t, w: sim.NewWorld(seed), keys: keyNames(clusterKeys), witness: witness{newest: make([]int64, clusterKeys)}}
	costs := ServiceTimes
	c := replicasim.Start(x.w, replicasim.Options{
		Voters: len(Sites), Tail: 1 << 30, Measured: true, ReadLease: t.Policy, Costs: &costs,
		LeaseIdle: -1, // leases are held all the time, though nobody reads while all write
	})
	if !c.Elect(replicaAt(Leader)) {
		return nil, fmt.Errorf("seed %d: the replica of %s does not become leader", seed, Sites[Leader])
	}
	if t.Policy == "static/key" && !c.Divide(fifths()) {
		return nil, fmt.Errorf("seed %d: the keys are not divided", seed)
	}
	for site := range Sites {
		source := mrand.NewPCG(seed, uint64(site))
		for range underWay {
			asked := site
			if t.Asks == TheLeader {
				asked = Leader
			}
			x.next(site, c.Member(replicaAt(asked)), mrand.New(source))
		}
	}
	x.w.Run(warmingUp)
	busy := func() (list [len(Sites)]time.Duration) {
		for site := range Sites {
			list[site] = c.Member(replicaAt(site)).Processor.Worked()
		}
		return list
	}
	before := busy()
	x.counts = true
	x.w.Run(counting)
	for site, after := range busy() {
		x.worked[site] = after - before[site]
	}
	return x, nil
}

// fifths divides the keys as if a fifth were popular at each replica: it holds those,
// with the leader and with one more. There are three holders of each, as in the paper.
func fifths() string {
	var text []string
	for site := range Sites {
		holders := []int{site + 1}
		for other := site; len(holders) < 3; {
			if other = (other + 1) % len(Sites); len(holders) == 1 && site != Leader {
				holders = append(holders, Leader+1)
			}
			if other != Leader && len(holders) < 3 {
				holders = append(holders, other+1)
			}
		}
		slices.Sort(holders)
		ids := strings.ReplaceAll(strings.Trim(fmt.Sprint(holders), "[]"), " ", ",")
		text = append(text, fmt.Sprintf("range:%s..%s = %s", KeyName(site*clusterKeys/len(Sites)), KeyName((site+1)*clusterKeys/len(Sites)), ids))
	}
	return strings.Join(append(text, fmt.Sprintf("default = %d", Leader+1)), "; ")
}

// next has a replica's client send a request, and another when it is answered.
func (x *saturation) next(site int, m *replicasim.Member, rnd *mrand.Rand) {
	key := rnd.IntN(clusterKeys)
	if x.Asks == Held {
		key = site*clusterKeys/len(Sites) + rnd.IntN(clusterKeys/len(Sites))
	}
	done := func() {
		if x.counts {
			x.ended++
		}
		x.next(site, m, rnd)
	}
	x.w.After(x.w.Between(Local/2, 3*Local/2), func() {
		seen := x.begin(key)
		m.Handle(func() {
			if x.Reads {
				m.Get(x.keys[key], func(written int64) {
					x.read([]int{key}, seen, []int64{written})
					done()
				})
				return
			}
			m.Put(x.keys[key], value, func(rev int64, err error) {
				if err != nil {
					x.failed++
					x.next(site, m, rnd)
					return
				}
				x.wrote([]int{key}, seen, rev)
				done()
			})
		})
	})
}
