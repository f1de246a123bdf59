package storageworld

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/clock"
	"github.com/tenure-lease/tenure/engine/storage"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/register"
	"github.com/tenure-lease/tenure/register/file"
	"github.com/tenure-lease/tenure/sim/world"
)

// process is a process, from its start to its end.
type process struct {
	*scene
	name  string
	p     *world.Process
	clock *clock.Simulated

	mu     sync.Mutex
	seed   uint64
	random map[string]*rand.Rand // a source for each directory and each worker

	leaser *storage.Leaser
}

// float draws from 0 to 1; any goroutine may call it. Each part of a process has a source of
// its own, so that it does not matter in which order those run that are ready at one moment.
func (x *process) float(part string) float64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.random == nil {
		x.random = map[string]*rand.Rand{}
	}
	if x.random[part] == nil {
		x.random[part] = world.Rand(x.seed, part)
	}
	return x.random[part].Float64()
}

// upTo draws a time.
func (x *process) upTo(part string, d time.Duration) time.Duration {
	return time.Duration(x.float(part) * float64(d))
}

func (x *process) ended() bool {
	select {
	case <-x.p.Ended():
		return true
	default:
		return false
	}
}

// hook is what befalls a call.
func (x *process) hook(op, name string) error {
	x.count(op, name)
	part := dirOf(name)
	if x.calm() {
		return nil
	}
	if x.down(name) {
		return syscall.EIO
	}
	x.p.Sleep(20*time.Microsecond + x.upTo(part, 200*time.Microsecond))
	if op != x.plan.calls {
		return nil
	}
	what := x.float(part)
	if what -= x.plan.stalls; what < 0 {
		x.w.Count("stalls", 1)
		x.p.Stop(x.upTo(part, x.plan.longest))
		x.p.Gate()
		return nil
	}
	if what -= x.plan.slows; what < 0 {
		x.w.Count("slow calls", 1)
		x.p.Sleep(x.upTo(part, x.plan.longest))
		return nil
	}
	if what -= x.plan.errs; what < 0 {
		x.w.Count("failed calls", 1)
		if op == "create" || op == "write" {
			return syscall.ENOSPC
		}
		return syscall.EIO
	}
	return nil
}

// count takes note of what happens to handles' files.
func (x *process) count(op, name string) {
	aside := strings.Contains(path.Base(name), ".") && !strings.HasSuffix(name, ".new")
	switch {
	case op == "rename" && aside:
		x.w.Count("condemned", 1)
	case op == "rename":
		x.w.Count("pardoned", 1)
		x.w.Trace.Add("%s pardons %s", x.name, path.Base(name))
	case op == "remove" && aside:
		x.w.Count("discarded", 1)
	}
}

// open opens the stores, if it can.
func (x *process) open() error {
	var stores []register.Store
	var errs []error
	sys := x.tree.FS(x.p, x.hook)
	for i := range x.plan.dirs {
		s, err := file.Open(dir(i), file.Options{
			Clock: x.clock.Now, FS: sys, Holder: x.name,
			Obsolete: func(_ string, v machine.Value, writer machine.ID) bool { return storage.Obsolete(v, writer) },
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		stores = append(stores, s)
	}
	if len(stores) <= x.plan.dirs/2 {
		return errors.Join(errs...)
	}
	set, err := register.NewSetBy(x.clock.Now, stores)
	if err != nil {
		return err
	}
	x.leaser = storage.New(set, storage.Options{Clock: x.clock})
	return nil
}

// live is a process's life: it opens, and its workers work until it ends or wants to.
func (x *process) live() {
	for {
		if err := x.open(); err == nil {
			break
		} else if x.ended() || x.stopping() {
			return
		}
		x.p.Sleep(100 * time.Millisecond)
	}
	var workers sync.WaitGroup
	over := make(chan struct{})
	var once sync.Once
	for i := range x.plan.workers {
		me := fmt.Sprint("worker ", i)
		workers.Go(func() { x.work(me, over, func() { once.Do(func() { close(over) }) }) })
	}
	workers.Wait()
	x.leaser.Close()
}

// work is a worker's life.
func (x *process) work(me string, over chan struct{}, end func()) {
	for {
		pause := x.upTo(me, x.plan.header.Term)
		if x.float(me) < x.plan.idle {
			pause = x.upTo(me, 4*x.plan.header.Quiet())
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-over:
			return
		case <-x.stop:
			return
		case <-x.p.Ended():
			return
		}
		x.p.Gate()
		name := fmt.Sprint("lease-", int(x.float(me)*float64(x.plan.names)))
		what := x.float(me)
		if what -= x.plan.onlook; what < 0 {
			ctx, cancel := context.WithTimeout(context.Background(), x.plan.header.Term)
			if s, err := x.leaser.Observe(ctx, name); err == nil {
				x.w.Count("looks", 1)
				x.w.Count("holders seen", len(s.Holders))
			}
			cancel()
			continue
		}
		if what -= x.plan.reopen; what < 0 {
			end()
			return
		}
		if x.calm() {
			continue
		}
		if what -= x.plan.kill; what < 0 {
			x.w.Count("killed", 1)
			x.p.End()
			return
		}
		x.claim(me, name)
	}
}

// claim acquires and holds for a while.
func (x *process) claim(me, name string) {
	c := tenure.Claim{Name: name, Holder: x.name}
	if x.float(me) < x.plan.shared {
		c.Slots = 2 + int(x.float(me)*2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), x.upTo(me, 3*x.leaser.Takeover()))
	defer cancel()
	acquire := x.leaser.Acquire
	if x.float(me) < 0.4 {
		acquire = x.leaser.TryAcquire
	}
	l, err := acquire(ctx, c)
	if err != nil {
		x.w.Count("refused", 1)
		return
	}
	h := &hold{l, x, name, max(c.Slots, 1)}
	x.judge.acquired(h)
	timer := time.NewTimer(x.upTo(me, 2*x.plan.header.Term))
	how := "releases"
	select {
	case <-timer.C:
	case <-x.stop:
	case <-l.Done():
		how = "loses"
	case <-x.p.Ended():
		how = "dies with"
	}
	if how == "releases" {
		x.p.Gate() // it is held as long as it has not been given back
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		x.judge.over(h, how)
		_ = l.Release(ctx)
		cancel()
		return
	}
	x.judge.over(h, how)
}
