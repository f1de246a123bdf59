package world

import (
	"time"
)

// Happen carries out the faults that no Process carries out itself, and reports whether it did:
// a fault that cannot happen at this moment is not counted. It is called on a goroutine of its
// own for each fault, and returns when the fault is over or goes on by itself. The body of a
// world calls Happen first of all.
func (w *World) Happen(f func(Fault) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happen = f
}

// schedule takes the plan.
func (w *World) schedule(plan []Fault) {
	for _, f := range plan {
		w.Trace.Add("plan %v", f)
		if f.Nth > 0 {
			w.mu.Lock()
			w.plan = append(w.plan, planned{Fault: f})
			w.mu.Unlock()
			continue
		}
		time.AfterFunc(f.At, func() {
			if !w.over() {
				w.strike(f)
			}
		})
	}
}

// Plan adds a fault to those that are to happen. Its operations are counted from now on, and its
// moment is from now on, too.
func (w *World) Plan(f Fault) {
	if !w.over() {
		w.schedule([]Fault{f})
	}
}

// due counts an operation and returns the faults that are bound to it.
func (w *World) due(who string, seam Seam, op string) (now []Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.plan[:0]
	for _, p := range w.plan {
		if p.Who == who && p.fits(seam, op) {
			if p.seen++; p.seen == p.Nth {
				now = append(now, p.Fault)
				continue
			}
		}
		left = append(left, p)
	}
	w.plan = left
	return now
}

// Forgo drops the faults that have not happened yet. Conditions that hold only when all is well
// are judged from then on, once lasting faults have ended: see Calm.
func (w *World) Forgo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan, w.calm = nil, true
}

func (w *World) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// Calm is when the last of the faults that have happened ends.
func (w *World) Calm() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.struck
}

// strike makes a fault happen. The channel that it returns is closed when the fault has been
// carried out, if that is not for a Process to do.
func (w *World) strike(f Fault) (carried chan struct{}) {
	w.Trace.Add("FAULT %v", f)
	w.mu.Lock()
	w.struck = max(w.struck, time.Since(w.began)+f.For+f.Lasting)
	happen, p := w.happen, w.procs[f.Who]
	w.mu.Unlock()
	switch {
	case f.inner() && p != nil:
		p.endure(f)
	case !f.inner() && happen != nil:
		carried = make(chan struct{})
		go func() {
			defer close(carried)
			if happen(f) {
				w.Count("fault: "+string(f.Kind), 1)
			}
		}()
	}
	return carried
}
