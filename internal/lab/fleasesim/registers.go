package fleasesim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// registers judges one resource's round-based register by its lemmas (section 3.2), and by
// Property L2, from what proposers say that they did.
type registers struct {
	j    *judge
	name string

	invoked   []operation // reads and writes, in the order of true time
	committed []operation
}

// operation is an invocation, or the commit of one.
type operation struct {
	write bool
	k     flease.Ballot
	value flease.Value
	at    time.Duration // true time
	c     flease.Time   // by the proposer's clock
	by    machine.NodeID
	inc   uint32
	from  flease.Ballot // of a read: the ballot of the value read
}

// kept is how many operations are compared with a new one. Older ones are older than any
// lease.
const kept = 400

func (r *registers) onTake(p *peer, e flease.Event) {
	o := operation{k: e.Ballot, value: e.Value, at: r.j.w.Now(), c: flease.TimeOf(p.host.Now().Wall), by: p.host.ID, inc: p.incarnation, from: e.From}
	o.write = e.Kind >= flease.WriteInvoke
	switch e.Kind {
	case flease.ReadInvoke, flease.WriteInvoke:
		r.r3(o)
		r.invoked = add(r.invoked, o)
	case flease.ReadAbort, flease.WriteAbort:
		r.onAbort(o)
	case flease.ReadCommit:
		r.onRead(o)
		r.committed = add(r.committed, o)
	case flease.WriteCommit:
		r.onDecision(o)
		r.committed = add(r.committed, o)
	}
}

func add(list []operation, o operation) []operation {
	if len(list) >= 2*kept {
		list = append(list[:0], list[kept:]...)
	}
	return append(list, o)
}

// onAbort checks R1 and R2: another was there with a greater ballot.
func (r *registers) onAbort(o operation) {
	for _, i := range r.invoked {
		if i.k > o.k {
			return
		}
	}
	r.j.fail("R1, R2: %d aborts %v of %s, and nobody had a greater ballot", o.by, o.k, r.name)
}

// r3 is Lemma R3, as far as an invocation can show it: it is remembered what had committed
// by then. The rest is in reads and decides.
func (r *registers) r3(o operation) {
	for _, c := range r.committed {
		if !o.write && c.k == o.k {
			r.j.fail("ballots: %d reads %s under %v, which was used before", o.by, r.name, o.k)
		}
	}
}

// since finds when an operation began. A write may be sent again, and with its lease released,
// under the same ballot: that is the same operation, which acceptors that had it before go on
// acknowledging.
func (r *registers) since(o operation) time.Duration {
	for _, x := range r.invoked {
		if x.k == o.k && x.write == o.write {
			return x.at
		}
	}
	return 0
}

// onRead checks R3 for a read that commits, R4 and R5.
func (r *registers) onRead(o operation) {
	began := r.since(o)
	for _, c := range r.committed {
		if c.at < began && c.k >= o.k && !r.j.broken {
			r.j.fail("R3: a read of %s commits under %v, after %v had committed", r.name, o.k, c.k)
		}
		// R5. A forgotten lease is not read; then it has to be over.
		if c.write && c.k < o.k && o.from < c.k {
			for _, h := range c.value {
				if h.Until > o.c && !h.Released && !r.j.broken {
					r.j.fail("R5: %d reads %s under %v and finds %v, but %v had committed with a lease until %d, now is %d", o.by, r.name, o.k, o.from, c.k, h.Until, o.c)
				}
			}
		}
	}
	if o.from == 0 {
		return
	}
	if o.from >= o.k {
		r.j.fail("R4: a read of %s under %v finds %v", r.name, o.k, o.from)
	}
	for _, i := range r.invoked {
		if i.write && i.k == o.from {
			return
		}
	}
	if len(r.invoked) < kept {
		r.j.fail("R4: a read of %s under %v finds %v, which nobody wrote", r.name, o.k, o.from)
	}
}

// onDecision checks R3 for writes, and L1 and L2 for every lease in the value.
func (r *registers) onDecision(o operation) {
	began := r.since(o)
	for _, c := range r.committed {
		if c.at < began && c.k > o.k && !r.j.broken {
			r.j.fail("R3: a write of %s commits under %v, after %v had committed", r.name, o.k, c.k)
		}
		if !c.write || c.k >= o.k || r.j.broken {
			continue
		}
		for _, h := range c.value {
			// Its own owner may drop a lease: no other could hold it.
			if h.Until <= o.c || h.Released || machine.NodeID(h.Owner) == o.by && h.Incarnation == o.inc || r.released(h) {
				continue
			}
			if !keeps(o.value, h) {
				r.j.fail("L2: %d decides %s under %v without the lease of %d until %d that was decided under %v; now is %d", o.by, r.name, o.k, h.Owner, h.Until, c.k, o.c)
			}
		}
	}
}

// keeps reports whether a value has the lease, or a later one of the same owner.
func keeps(v flease.Value, h flease.Holding) bool {
	for _, x := range v {
		if x.Owner == h.Owner && x.Incarnation == h.Incarnation && (x.Until >= h.Until || x.Released) {
			return true
		}
	}
	return false
}

// released reports whether the owner of a lease has given it up, or never had it: after the
// decision it wrote a value without it. Then anything may become of it.
func (r *registers) released(h flease.Holding) bool {
	for _, i := range r.invoked {
		if !i.write || i.by != machine.NodeID(h.Owner) || i.inc != h.Incarnation || i.k < h.Token {
			continue
		}
		has := false
		for _, x := range i.value {
			has = has || x.Token == h.Token && !x.Released
		}
		if !has {
			return true
		}
	}
	return false
}
