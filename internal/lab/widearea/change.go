package widearea

import (
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/pushlease"
	"github.com/tenure-lease/tenure/internal/lab/replicasim"
	"github.com/tenure-lease/tenure/internal/lab/sim"
)

// changes are runs in which half of the keys get other holders, while all are read and written
// (section 3.5): JP gives its place to VA. Reads are at sites that hold their keys before and
// after, so that the change need not concern them.
type changes struct {
	Seed     uint64        // of the first; the others follow
	Length   time.Duration // of read leases; 0: the product's
	Control  control
	Times    int
	Progress func(changes int)
}

// Shift is what changes of holders cost.
type Shift struct {
	Control string  `json:"control,omitempty"`
	Length  float64 `json:"lease_s"`
	Guard   float64 `json:"guard_s,omitempty"`
	Grace   float64 `json:"grace_s,omitempty"`
	Changes int     `json:"changes"`
	// Before and After are operations of the three seconds before the changes were asked
	// for, and of the five behind that.
	Before ShiftOperations `json:"before"`
	After  ShiftOperations `json:"after"`
	// Local is the share of reads below 10 ms in each half second around the first
	// change: when, in seconds, and the share.
	Local  [][2]float64 `json:"local_reads"`
	Stale  int          `json:"stale"` // this and the next as in Outcome
	Failed int          `json:"failed"`
}

// ShiftOperations are reads and writes.
type ShiftOperations struct {
	Local       float64 `json:"local_reads"` // the share of reads below 10 ms
	SlowestRead float64 `json:"slowest_read_ms"`
	// Writes are to the keys whose holders change.
	MeanWrite    float64 `json:"mean_write_ms"`
	SlowestWrite float64 `json:"slowest_write_ms"`
}

const (
	afterChange = 5 * time.Second
	changeKeys  = deathKeys
)

// play plays them all.
func (d changes) play() (Shift, error) {
	t := Shift{Control: d.Control.Name, Length: d.Length.Seconds(), Changes: d.Times}
	if w := d.Control.Ways; w != nil {
		l := w.Push
		t.Length, t.Guard, t.Grace = l.Lease.Seconds(), l.Guard.Seconds(), l.Grace.Seconds()
	}
	var reads, writes [2][]time.Duration // before, after
	for i := range d.Times {
		x, err := d.one(d.Seed + uint64(i))
		if err != nil {
			return Shift{}, err
		}
		t.Stale, t.Failed = t.Stale+x.stale, t.Failed+x.failed
		for k := range reads {
			reads[k], writes[k] = append(reads[k], x.reads[k]...), append(writes[k], x.writes[k]...)
		}
		if i == 0 {
			t.Local = x.local()
		}
		if d.Progress != nil {
			d.Progress(i + 1)
		}
	}
	t.Before, t.After = shiftOperations(reads[0], writes[0]), shiftOperations(reads[1], writes[1])
	return t, nil
}

func shiftOperations(reads, writes []time.Duration) ShiftOperations {
	r, w := summarize(reads), summarize(writes)
	return ShiftOperations{Local: r.Under10, SlowestRead: ms(slices.Max(reads)), MeanWrite: w.Mean, SlowestWrite: ms(slices.Max(writes))}
}

// change is one of them, under way.
type change struct {
	witness
	w             *sim.World
	c             *replicasim.Cluster
	keys          [][]byte
	at            time.Duration // when it is asked for
	reads, writes [2][]time.Duration
	steps         [(before + afterChange) / inStep]struct{ reads, fast int }
	open, failed  int
}

func (d changes) one(seed uint64) (*change, error) {
	defer func(before io.Reader) { rand.Reader = before }(rand.Reader)
	x := &change{w: sim.NewWorld(seed), keys: keyNames(changeKeys), witness: witness{newest: make([]int64, changeKeys)}}
	var err error
	if x.c, err = start(x.w, "static/key", d.Length, d.Control, changeKeys); err != nil {
		return nil, err
	}
	x.at = x.w.Now() + adapting + before + x.w.Between(0, time.Second)
	half := changeKeys / 2
	x.reader(x.c.Member(replicaAt(Leader)), 0, changeKeys, true)
	x.reader(x.c.Member(replicaAt(2)), 0, half, true)
	x.reader(x.c.Member(replicaAt(3)), half, changeKeys, true)
	x.reader(x.c.Member(replicaAt(4)), half, changeKeys, true)
	x.reader(x.c.Member(replicaAt(0)), 0, half, false) // so that it holds its keys
	x.writer(x.c.Member(replicaAt(Leader)))
	x.w.Run(x.at - x.w.Now())
	if !x.c.Divide(fmt.Sprintf("range:key..%s = %d,%d,%d; default = %d,%d,%d",
		KeyName(half), replicaAt(1), replicaAt(2), replicaAt(3), replicaAt(1), replicaAt(3), replicaAt(4))) {
		return nil, fmt.Errorf("%s, seed %d: the keys are not divided anew", d.Control.Name, seed)
	}
	x.w.Run(x.at + afterChange - x.w.Now())
	if !x.w.Until(time.Minute, func() bool { return x.open == 0 }) {
		return nil, fmt.Errorf("%s, seed %d: a minute after the change %d operations have not ended", d.Control.Name, seed, x.open)
	}
	return x, nil
}

// when reports whether an operation that was sent then counts, before the change or after.
func (x *change) when(sent time.Duration) (k int, counts bool) {
	if sent >= x.at {
		k = 1
	}
	return k, x.at-before <= sent && sent < x.at+afterChange
}

// reader has a replica read some keys, until the end.
func (x *change) reader(m *replicasim.Member, from, to int, counted bool) {
	x.w.After(readEvery, func() {
		sent := x.w.Now()
		k, counts := x.when(sent)
		if sent >= x.at+afterChange {
			return
		}
		key := from + x.w.Rand.IntN(to-from)
		seen := x.begin(key)
		x.open++
		m.Get(x.keys[key], func(written int64) {
			x.open--
			x.witness.read([]int{key}, seen, []int64{written})
			if took := x.w.Now() + Local - sent; counts && counted {
				x.reads[k] = append(x.reads[k], took)
				step := &x.steps[(sent-x.at+before)/inStep]
				if step.reads++; took < local {
					step.fast++
				}
			}
		})
		x.reader(m, from, to, counted)
	})
}

// writer writes the keys whose holders change, until the end.
func (x *change) writer(m *replicasim.Member) {
	x.w.After(writeEvery, func() {
		sent := x.w.Now()
		k, counts := x.when(sent)
		if sent >= x.at+afterChange {
			return
		}
		key := x.w.Rand.IntN(changeKeys / 2)
		seen := x.begin(key)
		x.open++
		m.Put(x.keys[key], value, func(rev int64, err error) {
			x.open--
			if err != nil {
				x.failed++
			} else {
				x.wrote([]int{key}, seen, rev)
			}
			if counts {
				x.writes[k] = append(x.writes[k], x.w.Now()+Local-sent)
			}
		})
		x.writer(m)
	})
}

// local are the shares of local reads around the change.
func (x *change) local() (list [][2]float64) {
	for i, s := range x.steps {
		if s.reads > 0 {
			list = append(list, [2]float64{(time.Duration(i)*inStep - before).Seconds(), float64(s.fast) / float64(s.reads)})
		}
	}
	return list
}

// lapsing and abiding are the paper's two ways of changing the holders (section 3.5), with its
// own promises.
func lapsing(l pushlease.Lengths) control {
	c := pushed(l)
	c.Name, c.Ways.Lapse = "lapse", true
	return c
}

func abiding(l pushlease.Lengths) control {
	c := pushed(l)
	c.Name, c.Ways.Abide = "abide", true
	return c
}
