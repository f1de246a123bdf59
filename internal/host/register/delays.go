package register

import (
	"slices"
	"sync"
	"time"
)

// Delays turns the times of operations into a bound δ for later ones: twice the second longest time
// of the last 1,024. It doubles at once when an operation takes longer, and shrinks slowly. A δ
// that is wrong costs time or liveness, and no safety, see package disklease; so one that hung for
// a minute does not make a δ of a minute. Any goroutine may use it.
type Delays struct {
	mu    sync.Mutex
	least time.Duration
	bound time.Duration
	last  [window]time.Duration // a ring
	n     int                   // how many there were
}

const (
	window = 1024 // operations that count
	often  = 64   // operations from one look at all of them to the next
	slowly = 8    // the part by which the bound nears a smaller one at each look
)

// newDelays begins with a bound that is never undercut.
func newDelays(least time.Duration) *Delays { return &Delays{least: least, bound: least} }

// Add takes in the time that an operation took.
func (d *Delays) Add(took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[d.n%window] = took
	d.n++
	if took > d.bound {
		d.bound *= 2
	}
	if d.n%often > 0 {
		return
	}
	target := max(d.least, 2*d.most())
	if target >= d.bound {
		d.bound = min(target, 2*d.bound)
	} else {
		d.bound -= max((d.bound-target)/slowly, 1)
	}
}

// most is the second greatest of the window: its 99.9th percentile, when it is full.
func (d *Delays) most() time.Duration {
	sorted := slices.Sorted(slices.Values(d.last[:min(d.n, window)]))
	return sorted[len(sorted)-2]
}

// Bound returns the present δ.
func (d *Delays) Bound() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bound
}
