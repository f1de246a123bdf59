package k8s

import (
	"context"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/tenure-lease/tenure"
)

type leaseKey struct{}

// LeaseFrom returns the lease under which the work with this context runs, if its callbacks are guarded.
func LeaseFrom(ctx context.Context) (lease tenure.Lease, ok bool) {
	lease, ok = ctx.Value(leaseKey{}).(tenure.Lease)
	return lease, ok
}

// Guard returns callbacks that bind the work to the lease, see the package's comment. Call it before the elector runs.
func (l *Lock) Guard(c leaderelection.LeaderCallbacks) leaderelection.LeaderCallbacks {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guarded = true
	guarded := c
	guarded.OnStartedLeading = func(ctx context.Context) { l.work(ctx, c.OnStartedLeading) }
	guarded.OnStoppedLeading = func() {
		l.stopped()
		c.OnStoppedLeading()
	}
	return guarded
}

// work calls the work of a leader in a context that ends with the lease, and lets the lease go afterwards.
func (l *Lock) work(ctx context.Context, work func(context.Context)) {
	t := l.present()
	if t == nil {
		panic("k8s: the elector of these callbacks has another Lock")
	}
	held, cancel := context.WithCancelCause(context.WithValue(ctx, leaseKey{}, t.lease))
	stop := context.AfterFunc(t.lease.Context(), func() { cancel(t.lease.Err()) })
	defer func() {
		stop()
		cancel(nil)
		l.mu.Lock()
		close(t.worked)
		leaving := t.leaving
		l.mu.Unlock()
		if leaving {
			l.leave(t)
		}
	}()
	work(held)
}

// stopped ends the tenure of an elector that has stopped, if it had one: its work was told, and has
// a while to return.
func (l *Lock) stopped() {
	t := l.present()
	if t == nil {
		return
	}
	l.leave(t)
	patience := time.NewTimer(l.config.Grace)
	defer patience.Stop()
	select {
	case <-t.worked:
		l.leave(t) // released, and not only about to be
	case <-t.lease.Done():
	case <-patience.C:
	}
}
