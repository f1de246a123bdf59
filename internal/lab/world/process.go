package world

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// ErrDead is the error of a process's operations after its end.
var ErrDead = errors.New("world: the process has ended")

// Process is a process, or a host with one process on it. Seams ask it before each
// operation, so that it can be stopped, delayed and ended there. A Process that has ended
// stays so: its host starts another of the same name.
type Process struct {
	w    *World
	name string

	mu     sync.Mutex
	moved  sync.Cond
	frozen int // freezes that last
	dead   chan struct{}
	ended  bool
	active []activeFault
}

type activeFault struct {
	Fault
	until time.Time // zero: the next operation
}

// Name is the process's name.
func (p *Process) Name() string { return p.name }

// Do comes before an operation. It returns when the operation may happen, or the error
// that it fails with instead. A fault that is bound to the operation is carried out before it:
// one that ends the process leaves it undone. Detail is for the trace; an empty one is not traced.
func (p *Process) Do(seam Seam, op, detail string) error {
	p.Gate()
	if p.hasEnded() {
		return ErrDead
	}
	for _, f := range p.w.due(p.name, seam, op) {
		if carried := p.w.strike(f); carried != nil {
			p.await(carried)
		}
	}
	if detail != "" {
		p.w.Trace.Add("%s %s %s %s", p.name, seam, op, detail)
	}
	err := p.suffer(seam, op)
	p.Gate()
	if p.hasEnded() {
		return ErrDead
	}
	return err
}

func (p *Process) hasEnded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// patience is how long a process stands still at the most for a fault to be carried out: a
// fault that closes it in order waits for its work.
const patience = 50 * time.Millisecond

// await has the process stand still until a fault has been carried out, or has ended it.
func (p *Process) await(carried <-chan struct{}) {
	p.stand(1)
	defer p.stand(-1)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-carried:
	case <-p.dead:
	case <-timer.C:
	}
}

// stand adds to the reasons for which the process stands still.
func (p *Process) stand(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen += by
	p.moved.Broadcast()
}

// suffer carries out the faults that are in force for an operation.
func (p *Process) suffer(seam Seam, op string) error {
	p.mu.Lock()
	now := time.Now()
	var wait time.Duration
	var err error
	left := p.active[:0]
	for _, f := range p.active {
		once := f.until.IsZero()
		if f.fits(seam, op) && (f.Kind != NoSpace || grows(op)) && (once || now.Before(f.until)) {
			p.w.Count("fault: "+string(f.Kind), 1)
			switch f.Kind {
			case Delay:
				wait = max(wait, f.For)
			case Hang:
				wait = max(wait, f.until.Sub(now))
			case Fail:
				err = fmt.Errorf("world: %s %s: %w", seam, op, syscall.EIO)
			case NoSpace:
				err = fmt.Errorf("world: %s %s: %w", seam, op, syscall.ENOSPC)
			}
			if once {
				continue
			}
		}
		if once || now.Before(f.until) {
			left = append(left, f)
		}
	}
	p.active = left
	p.mu.Unlock()
	if wait > 0 {
		p.w.Trace.Add("%s %s %s waits %v", p.name, seam, op, wait)
		p.Sleep(wait)
	}
	return err
}

// grows reports whether an operation may need space.
func grows(op string) bool {
	switch op {
	case "open", "mkdir", "write", "preallocate", "rename":
		return true
	}
	return false
}

// Sleep waits, and returns early if the process ends.
func (p *Process) Sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.dead:
	}
}

// Gate returns when the process does not stand still.
func (p *Process) Gate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.frozen > 0 && !p.ended {
		p.moved.Wait()
	}
}

// Stop makes the process stand still at its next operation, for a while.
func (p *Process) Stop(d time.Duration) {
	p.stand(1)
	time.AfterFunc(d, func() { p.stand(-1) })
}

// End ends the process: its operations fail from now on, and none waits.
func (p *Process) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended = true
		close(p.dead)
		p.moved.Broadcast()
	}
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.dead }

// endure puts a fault in force.
func (p *Process) endure(f Fault) {
	if f.Kind == Freeze {
		p.w.Count("fault: "+string(Freeze), 1)
		p.Stop(f.For)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := activeFault{Fault: f}
	if d := f.ends(); d > 0 {
		a.until = time.Now().Add(d)
	}
	p.active = append(p.active, a)
}
