package widearea

import (
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/replicasim"
	"github.com/tenure-lease/tenure/internal/lab/sim"
)

// deaths are runs of section 5.3: writes at a steady rate while a replica dies, host and all,
// so that no other is told. Half of the keys, the upper, are read at the site of that replica
// and nowhere else, the other half everywhere but there.
type deaths struct {
	Seed     uint64 // of the first; the others follow
	Policy   string
	Length   time.Duration // of read leases; 0: the product's
	Control  control
	Site     int // the site whose replica dies
	Times    int // how many there are
	Progress func(deaths int)
}

// Toll is what deaths cost.
type Toll struct {
	Policy string  `json:"policy"`
	Site   string  `json:"site"`
	Length float64 `json:"lease_s"` // 0: the product's
	// Control names the ways of the paper's that replaced the product's; Guard and Grace are
	// the lengths that go with them.
	Control string  `json:"control,omitempty"`
	Guard   float64 `json:"guard_s,omitempty"`
	Grace   float64 `json:"grace_s,omitempty"`
	Deaths  int     `json:"deaths"`
	// Messages is how many a second all replicas together send to have promises, before
	// the death.
	Messages float64 `json:"lease_messages_per_s"`
	// Local is the share of reads below 10 ms before the death, over all sites.
	Local float64 `json:"local_reads"`
	// Before is the share of such reads in each half second before the first death: when,
	// in seconds from the death, and the share.
	Before [][2]float64 `json:"local_reads_before"`
	Held   Writes       `json:"held"`  // writes to keys that were read where the replica died, or held there unread
	Other  Writes       `json:"other"` // and to others
	// Stale and Failed are as in Outcome: they have to be 0. A write that failed counts in Held
	// and Other, too, for its sender waited for that.
	Stale  int `json:"stale"`
	Failed int `json:"failed"`
}

// Writes are the writes to a class of keys.
type Writes struct {
	// Stall is how much longer than the slowest write before the death the slowest of
	// those took that ended after it: the median of all deaths, and the longest.
	Stall    float64 `json:"stall_s"`
	MaxStall float64 `json:"max_stall_s"`
	// Usual is the greatest latency before the death, and Slowest that after it.
	Usual   float64 `json:"usual_ms"`
	Slowest float64 `json:"slowest_ms"`
	// Series are the writes through the first death: when each was sent, in seconds
	// from the death, and its latency in milliseconds.
	Series [][2]float64 `json:"series"`
}

const (
	deathKeys  = 200
	writeEvery = 10 * time.Millisecond // alternately of the two classes
	readEvery  = 25 * time.Millisecond // at each site
	adapting   = 20 * time.Second      // before anything counts
	before     = 3 * time.Second       // of the death, that counts
	after      = 15 * time.Second
	// Local reads are shown for so long before the death, in steps.
	shown  = 12 * time.Second
	inStep = 500 * time.Millisecond
)

// play plays them all.
func (d deaths) play() (Toll, error) {
	t := Toll{Policy: d.Policy, Site: Sites[d.Site], Length: d.Length.Seconds(), Control: d.Control.Name, Deaths: d.Times}
	if w := d.Control.Ways; w != nil {
		l := w.Push
		t.Length, t.Guard, t.Grace = l.Lease.Seconds(), l.Guard.Seconds(), l.Grace.Seconds()
	}
	reads, fast, messages := 0, 0, 0
	stalls := [2][]time.Duration{}
	for i := range d.Times {
		x, err := d.one(d.Seed + uint64(i))
		if err != nil {
			return Toll{}, err
		}
		reads, fast, messages = reads+x.reads, fast+x.fast, messages+x.messages
		t.Stale, t.Failed = t.Stale+x.stale, t.Failed+x.failed
		for k, class := range []*Writes{&t.Other, &t.Held} {
			stalls[k] = append(stalls[k], x.stall(k))
			for _, w := range x.writes[k] {
				latency := ms(w.ended - w.sent)
				if w.ended <= 0 {
					class.Usual = max(class.Usual, latency)
				} else {
					class.Slowest = max(class.Slowest, latency)
				}
				if i == 0 {
					class.Series = append(class.Series, [2]float64{float64(w.sent.Round(time.Microsecond)) / 1e9, latency})
				}
			}
		}
		if i == 0 {
			t.Before = x.localBefore()
		}
		if d.Progress != nil {
			d.Progress(i + 1)
		}
	}
	for k, class := range []*Writes{&t.Other, &t.Held} {
		slices.Sort(stalls[k])
		class.Stall, class.MaxStall = stalls[k][len(stalls[k])/2].Seconds(), stalls[k][len(stalls[k])-1].Seconds()
	}
	t.Local = float64(fast) / float64(max(reads, 1))
	t.Messages = float64(messages) / (before.Seconds() * float64(d.Times))
	return t, nil
}

// death is one of them, under way.
type death struct {
	witness
	w           *sim.World
	c           *replicasim.Cluster
	keys        [][]byte
	at          time.Duration // when the replica dies
	site        int
	reads, fast int
	steps       [shown / inStep]struct{ reads, fast int }
	writes      [2][]write // of keys that the site does not read, and of those that it does
	open        int        // writes that have not ended
	failed      int        // and that have, in an error
	messages    int        // about promises, in the time before the death that counts
}

// write is a write that ended; the times are from the death on.
type write struct{ sent, ended time.Duration }

func (d deaths) one(seed uint64) (*death, error) {
	defer func(before io.Reader) { rand.Reader = before }(rand.Reader)
	x := &death{w: sim.NewWorld(seed), keys: keyNames(deathKeys), site: d.Site, witness: witness{newest: make([]int64, deathKeys)}}
	var err error
	if x.c, err = start(x.w, d.Policy, d.Length, d.Control, deathKeys); err != nil {
		return nil, err
	}
	// A death may come at any time between two plans.
	x.at = x.w.Now() + adapting + d.Control.Plan + before + x.w.Between(0, max(time.Second, d.Control.Plan))
	for s := range Sites {
		x.reader(s)
	}
	// As in the paper the writers are with the leader, or near it if that dies.
	writer := Leader
	if d.Site == Leader {
		writer = 2
	}
	x.writer(x.c.Member(replicaAt(writer)), 0)
	x.w.Run(x.at - before - x.w.Now())
	messages := x.c.CountLeaseMessages()
	x.w.Run(x.at - x.w.Now())
	x.messages = *messages
	x.c.Member(replicaAt(d.Site)).Die()
	x.w.Run(after)
	if !x.w.Until(time.Minute, func() bool { return x.open == 0 }) {
		return nil, fmt.Errorf("policy %q, seed %d: a minute after the death at %s %d writes have not ended", d.Policy, seed, Sites[d.Site], x.open)
	}
	return x, nil
}

// reader has a site read for ever.
func (x *death) reader(site int) {
	m := x.c.Member(replicaAt(site))
	x.w.After(readEvery, func() {
		if !m.Up() {
			return
		}
		sent, counts := x.w.Now(), x.w.Now() > x.at-before && x.w.Now() < x.at
		step := &x.steps[0]
		if x.at-shown <= sent && sent < x.at {
			step = &x.steps[(sent-x.at+shown)/inStep]
		}
		step.reads++
		key := x.key(site == x.site)
		seen := x.begin(key)
		m.Get(x.keys[key], func(written int64) {
			x.witness.read([]int{key}, seen, []int64{written})
			if x.w.Now()+Local-sent < local {
				step.fast++
			}
			if counts {
				x.reads++
				if x.w.Now()+Local-sent < local {
					x.fast++
				}
			}
		})
		x.reader(site)
	})
}

// localBefore are the shares of local reads before the death.
func (x *death) localBefore() (list [][2]float64) {
	for i, s := range x.steps {
		if i > 0 && s.reads > 0 { // the first step has all that was earlier, or later, too
			list = append(list, [2]float64{(time.Duration(i)*inStep - shown).Seconds(), float64(s.fast) / float64(s.reads)})
		}
	}
	return list
}

// key draws a key, of those that the site which dies reads or of the others.
func (x *death) key(held bool) int {
	k := x.w.Rand.IntN(deathKeys / 2)
	if held {
		k += deathKeys / 2
	}
	return k
}

// writer sends the nth write, and goes on to the end.
func (x *death) writer(m *replicasim.Member, n int) {
	x.w.After(writeEvery, func() {
		sent, k := x.w.Now(), n%2
		if sent > x.at+after {
			return
		}
		x.open++
		key := x.key(k == 1)
		seen := x.begin(key)
		if cells := m.Cells(); k == 0 && cells != nil && x.site != Leader {
			// Keys that are held although they are not read belong to the others.
			if _, some := cells.HoldersOfRange(x.keys[key], nil); some.Has(cells.Place(replicaAt(x.site))) {
				k = 1
			}
		}
		m.Put(x.keys[key], value, func(rev int64, err error) {
			x.open--
			if err == nil {
				x.wrote([]int{key}, seen, rev)
			}
			x.answered(k, sent, x.w.Now(), err)
		})
		x.writer(m, n+1)
	})
}

// answered takes note that a write ended, if it counts.
func (x *death) answered(class int, sent, now time.Duration, err error) {
	if sent <= x.at-before {
		return
	}
	x.writes[class] = append(x.writes[class], write{sent - Local/2 - x.at, now + Local/2 - x.at})
	if err != nil {
		x.failed++
	}
}

// stall is how much longer than any before the death the slowest write of a class took
// that ended after it.
func (x *death) stall(class int) time.Duration {
	usual, slowest := time.Duration(0), time.Duration(0)
	for _, w := range x.writes[class] {
		if took := w.ended - w.sent; w.ended <= 0 {
			usual = max(usual, took)
		} else {
			slowest = max(slowest, took)
		}
	}
	return max(0, slowest-usual)
}
