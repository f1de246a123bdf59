package sim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Disk keeps a host's own records in order. A crash keeps what was forced and, of
// what was not, a prefix.
type Disk struct {
	Durable []any             // written; a restart begins with it
	Forced  int               // how many of Durable no crash can take; the others were not forced
	Queue   []machine.Persist // not written yet
	Slow    time.Duration     // extra, while the disk is bad

	w *World
}

func (d *Disk) delay() time.Duration {
	return d.w.Between(50*time.Microsecond, 2*time.Millisecond) + d.Slow
}

// sync writes the first n that wait, and forces all if one of them wants it.
func (d *Disk) sync(n int) []machine.Persist {
	done, force := d.Queue[:n:n], false
	d.Queue = d.Queue[n:]
	for _, p := range done {
		switch r := p.Record.(type) {
		case nil:
		case Rewrite:
			d.Durable, force = slices.Clone(r.Records), true
		default:
			d.Durable = append(d.Durable, r)
			force = force || len(p.Then) > 0 // a message that merely waits forces nothing: machine.Persist
		}
	}
	if force {
		d.Forced = len(d.Durable)
	}
	return done
}

func (d *Disk) crash() {
	// A rewriting that was under way may have come to its end.
	for i, p := range d.Queue {
		if _, ok := p.Record.(Rewrite); ok {
			if d.w.Chance(0.5) {
				d.sync(i + 1)
			} else {
				d.Queue = d.Queue[:i]
			}
			break
		}
	}
	forced := min(d.Forced, len(d.Durable)) // a script may have cut it
	d.sync(len(d.Queue))
	if n := len(d.Durable) - forced; n > 0 {
		d.Durable = d.Durable[:forced+d.w.Rand.IntN(n+1)]
	}
	d.Forced = len(d.Durable)
}
