package kv

import (
	"math/bits"
	"sync/atomic"
)

// Counts count what a Store did and what its Views were asked, as etcd counts it for its figures of these
// names. Several goroutines may read it, and add to it through Views, at a time. They are of one process: a
// snapshot does not have them.
type Counts struct {
	// Ranges are reads of a key or a range: also those of comparisons, and those of values that a put or a
	// deletion answers with or goes by. A put is of one key. A deletion is of one range, and each key of a
	// lease that ends is one. Txns are the requests that did more than one of these, where the comparisons of
	// a transaction that writes are a request of their own.
	Ranges, Puts, Deletes, Txns atomic.Uint64
	// PutBytes are those of keys and values.
	PutBytes atomic.Uint64
	// Granted and Revoked are leases. Those that expired are revoked, too.
	Granted, Revoked atomic.Uint64
	// TTLs are the seconds of granted leases.
	TTLs Durations
}

// Durations count seconds by powers of two.
type Durations struct {
	sum    atomic.Uint64
	counts [DurationBounds + 1]atomic.Uint64
}

// DurationBounds is the number of bounds of Durations: 1, 2, 4 and so on, up to three months.
const DurationBounds = 24

func (d *Durations) add(seconds int64) {
	d.sum.Add(uint64(seconds))
	d.counts[min(bits.Len64(uint64(seconds-1)), DurationBounds)].Add(1)
}

// Told returns how many durations there were, their sum, and for each bound, from 1 on, how many of them
// were no longer.
func (d *Durations) Told() (count, sum uint64, within [DurationBounds]uint64) {
	for i := range within {
		count += d.counts[i].Load()
		within[i] = count
	}
	return count + d.counts[DurationBounds].Load(), d.sum.Load(), within
}

// tally is what one request did.
type tally struct{ ranges, puts, deletes, putBytes uint64 }

// end adds the tally to the counts, if any are kept, and begins anew.
func (t *tally) end(c *Counts) {
	if c != nil {
		c.add(t)
	}
	*t = tally{}
}

func (c *Counts) add(t *tally) {
	if t.ranges > 0 {
		c.Ranges.Add(t.ranges)
	}
	if t.puts > 0 {
		c.Puts.Add(t.puts)
		c.PutBytes.Add(t.putBytes)
	}
	if t.deletes > 0 {
		c.Deletes.Add(t.deletes)
	}
	if t.ranges+t.puts+t.deletes > 1 {
		c.Txns.Add(1)
	}
}

// read counts one range.
func (c *Counts) read() {
	if c != nil {
		c.Ranges.Add(1)
	}
}
