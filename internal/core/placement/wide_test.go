package placement

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/ycsb"
	"github.com/tenure-lease/tenure/internal/machine"
)

// The paper's five sites, and Table 1: round-trip times in milliseconds. California
// leads.
const (
	jp = iota
	ca
	or
	va
	irl
	sites
)

var table1 = [sites][sites]float64{
	{0.4, 120, 120, 180, 270},
	{120, 0.4, 20, 85, 150},
	{120, 20, 0.4, 75, 170},
	{180, 85, 75, 0.4, 92},
	{270, 150, 170, 92, 0.4},
}

var wide = []Member{{ID: 1, Name: "JP"}, {ID: 2, Name: "CA"}, {ID: 3, Name: "OR"}, {ID: 4, Name: "VA"}, {ID: 5, Name: "IRL"}}

func wideDistances() *Distances {
	d := NewDistances(sites, first(sites), ca)
	for a := range sites {
		for b := range a + 1 {
			d.Set(a, b, duration(table1[a][b]))
		}
	}
	return d
}

// widePlanner knows Table 1.
func widePlanner(s Settings) *Planner {
	s.Members, s.Leader = wide, 2
	p, err := NewPlanner(s, nil)
	if err != nil {
		panic(err)
	}
	for a := range sites {
		for b := range a + 1 {
			p.RTT(wide[a].ID, wide[b].ID, duration(table1[a][b]))
		}
	}
	return p
}

// workload is section 5.1's: 100,000 keys, Zipf 0.99, another popularity order at each
// site.
type workload struct {
	keys  [][]byte
	sites [sites]ycsb.Site
	mass  [sites][]float64 // of each key at each site
}

func newWorkload(keys int, theta, reads float64) *workload {
	w := &workload{}
	for k := range keys {
		w.keys = append(w.keys, fmt.Appendf(nil, "user%d", k))
	}
	zipf, src := ycsb.NewZipf(keys, theta), rand.NewPCG(7, 7)
	for s := range w.sites {
		w.sites[s] = ycsb.Site{Popularity: zipf, Order: ycsb.NewOrder(keys, src), Reads: reads}
		w.mass[s] = make([]float64, keys)
		for rank, key := range w.sites[s].Order {
			w.mass[s][key] = zipf.Mass(rank)
		}
	}
	return w
}

// quality is what a choice of holders makes of a workload, by its true frequencies, with
// no wait of reads for writes.
type quality struct {
	local           [sites]float64 // the part of the reads that are local
	read, write, op float64        // means over all sites, in milliseconds
}

func (q quality) mean() float64 {
	sum := 0.0
	for _, l := range q.local {
		sum += l / sites
	}
	return sum
}

func (q quality) String() string {
	return fmt.Sprintf("local %.1f %% (%.1f) read %.2f write %.1f op %.2f ms", 100*q.mean(), scaled(q.local), q.read, q.write, q.op)
}

func scaled(x [sites]float64) [sites]float64 {
	for i := range x {
		x[i] *= 100
	}
	return x
}

func (w *workload) quality(holders func(key int) Set) (q quality) {
	d := wideDistances()
	rows := map[Set]row{}
	for key := range w.keys {
		set := holders(key)
		r, ok := rows[set]
		if !ok {
			for s := range sites {
				r = append(r, d.read(s, set, 1000), d.write(s, set, 1000))
			}
			rows[set] = r
		}
		for s := range sites {
			mass := w.mass[s][key]
			q.read += mass * r[2*s] / sites
			q.write += mass * r[2*s+1] / sites
			if set.Has(s) {
				q.local[s] += mass
			}
		}
	}
	reads := w.sites[0].Reads
	q.op = reads*q.read + (1-reads)*q.write
	return q
}

func (w *workload) under(c *Configuration) quality {
	return w.quality(func(key int) Set { return c.Holders(w.keys[key]) })
}

// run has clients at all sites do so many operations each, counted at their own site.
func (w *workload) run(counters []*Counter, operations int, src ycsb.Source) {
	for s, site := range w.sites {
		for range operations {
			op := site.Next(src)
			if op.Read {
				counters[s].Read(w.keys[op.Key])
			} else {
				counters[s].Write(wide[s].ID, w.keys[op.Key])
			}
		}
	}
}

func newCounters(buckets int) (c []*Counter) {
	for range sites {
		c = append(c, NewCounter(buckets))
	}
	return c
}

func report(p *Planner, counters []*Counter) error {
	for s, c := range counters {
		if err := p.Observe(wide[s].ID, c.Take()); err != nil {
			return err
		}
	}
	return nil
}

func seconds(n float64) machine.Mono { return machine.Mono(n * float64(time.Second)) }
