package asynclease

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
)

// acceptor is the permission array of Figure 2 as a set of intervals, and the verdicts that
// it has given on them.
type acceptor struct {
	floor  uint64
	marks  []Permitted // by Interval.First; they may overlap only if refusals mark
	askers map[machine.NodeID]*asker
}

// asker is what an acceptor remembers of a member that asks.
type asker struct {
	life     uint64
	open     uint64             // requests before this one are over
	verdicts map[uint64]verdict // by Seq
}

type verdict struct {
	ack   bool
	until uint64
}

// asker returns what is remembered of a request's member; ok is false if the request
// is over.
func (a *acceptor) asker(r Request) (k *asker, ok bool) {
	k = a.askers[r.Node]
	if k == nil {
		k = &asker{verdicts: map[uint64]verdict{}}
		a.askers[r.Node] = k
	}
	if r.Life > k.life {
		*k = asker{life: r.Life, verdicts: map[uint64]verdict{}}
	}
	return k, r.Life == k.life && r.Seq >= k.open
}

// judge answers a Lease; mark says that the interval was marked just now. A request
// that was answered before has the same answer again (F6).
func (a *acceptor) judge(m Lease, markRefused bool) (v verdict, mark, ok bool) {
	k, ok := a.asker(m.Request)
	if !ok {
		return v, false, false
	}
	if m.Open > k.open {
		k.open = m.Open
		for seq := range k.verdicts {
			if seq < k.open {
				delete(k.verdicts, seq)
			}
		}
	}
	if v, ok := k.verdicts[m.Request.Seq]; ok {
		return v, false, true
	}
	if m.Interval.First < a.floor {
		v.until = a.floor - 1
	} else {
		v.ack = true
		for _, p := range a.marks {
			if p.Interval.Overlaps(m.Interval) && p.Request != m.Request {
				v.ack = false
			}
		}
		if !v.ack {
			v.until = a.until(m.Interval.First)
		}
		if v.ack || markRefused {
			mark = a.mark(Permitted{m.Request, m.Interval})
		}
	}
	k.verdicts[m.Request.Seq] = v
	return v, mark, true
}

// until is the last integer that is marked without a gap from first on, or 0.
func (a *acceptor) until(first uint64) (last uint64) {
	for _, p := range a.marks {
		if p.Interval.First <= max(first, last+1) && p.Interval.Last >= first {
			last = max(last, p.Interval.Last)
		}
	}
	return last
}

// mark permits an interval, once.
func (a *acceptor) mark(p Permitted) bool {
	if slices.ContainsFunc(a.marks, func(o Permitted) bool { return o.Request == p.Request }) {
		return false
	}
	i, _ := slices.BinarySearchFunc(a.marks, p, func(x, y Permitted) int {
		if x.Interval.First < y.Interval.First {
			return -1
		}
		return 1
	})
	a.marks = slices.Insert(a.marks, i, p)
	return true
}

// cut takes back what a request was permitted of from and above. A Lease of that request
// that comes later is refused, behind a crash, too: the sender of the request awaits no
// answer, and would never give back an interval that was marked again.
func (a *acceptor) cut(r Request, from uint64) (changed bool) {
	if k, ok := a.asker(r); ok {
		k.verdicts[r.Seq] = verdict{}
	}
	a.marks = slices.DeleteFunc(a.marks, func(p Permitted) bool {
		changed = changed || p.Request == r && from <= p.Interval.Last
		return p.Request == r && from <= p.Interval.First
	})
	for i := range a.marks {
		if p := &a.marks[i]; p.Request == r && from <= p.Interval.Last {
			p.Interval.Last = from - 1
		}
	}
	return changed
}

// forget raises the floor.
func (a *acceptor) forget(below uint64) (changed bool) {
	if below <= a.floor {
		return false
	}
	a.floor = below
	a.marks = slices.DeleteFunc(a.marks, func(p Permitted) bool { return p.Interval.Last < below })
	return true
}
