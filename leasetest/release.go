package leasetest

import (
	"errors"
	"time"

	"github.com/tenure-lease/tenure"
)

func releaseFrees(b *bench) {
	l, m := b.leaser(), b.leaser()
	lease := b.acquire(l, b.claim())
	next := make(chan struct{})
	go func() {
		defer close(next)
		got, err := m.Acquire(b.ctx, b.claim())
		if err != nil {
			b.Errorf("acquire behind a holder: %v", err)
			return
		}
		b.release(got)
	}()
	b.queued(l, b.names)
	b.release(lease)
	released := time.Now()
	b.ended(lease, tenure.ErrReleased, "after Release")
	b.await(next, b.TTL, "the next holder, after Release")
	if d := time.Since(released); d > b.TTL/2 {
		b.Errorf("the next holder came %v after the release: it waited for the deadline", d)
	}
	if err := lease.Release(b.ctx); err != nil {
		b.Errorf("a second Release: %v", err)
	}
}

func releaseNotNewer(b *bench) {
	b.require("Cut", b.Cut != nil)
	l, m := b.leaser(), b.leaser()
	lost := b.acquire(l, b.claim())
	b.lose(l, lost)
	newer := b.acquire(m, b.claim())
	b.Heal(l)
	if err := lost.Release(b.ctx); !errors.Is(err, tenure.ErrLost) {
		b.Errorf("Release of a lost lease returns %v, want %q: the work may have overlapped", err, tenure.ErrLost)
	}
	b.held(newer, "after the release of the lost lease")
	// A Leaser that was cut off may say that it cannot tell, until it has found its feet.
	other := b.claim()
	other.Name += "/other"
	b.release(b.acquire(l, other))
	b.refused(l, b.claim(), "after the release of the lost lease")
	b.pass(b.TTL)
	b.held(newer, "a TTL after the release of the lost lease")
	b.release(newer)
}

func closeReleases(b *bench) {
	l, m := b.leaser(), b.leaser()
	lease := b.acquire(l, b.claim())
	other := b.claim()
	other.Name += "/taken"
	taken := b.acquire(m, other)
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Acquire(b.ctx, other)
		waiting <- err
	}()
	b.queued(m, other.Name)
	closing := time.Now()
	if err := l.Close(); err != nil {
		b.Errorf("close: %v", err)
	}
	if err := l.Close(); err != nil {
		b.Errorf("close again: %v", err)
	}
	b.ended(lease, tenure.ErrReleased, "after Close")
	if err := <-waiting; !errors.Is(err, tenure.ErrClosed) {
		b.Errorf("an Acquire that waited when its Leaser closed returns %v, want %q", err, tenure.ErrClosed)
	}
	if _, err := l.Acquire(b.ctx, b.claim()); !errors.Is(err, tenure.ErrClosed) {
		b.Errorf("Acquire after Close returns %v, want %q", err, tenure.ErrClosed)
	}
	if _, err := l.TryAcquire(b.ctx, b.claim()); !errors.Is(err, tenure.ErrClosed) {
		b.Errorf("TryAcquire after Close returns %v, want %q", err, tenure.ErrClosed)
	}
	if _, err := l.Observe(b.ctx, other.Name); !errors.Is(err, tenure.ErrClosed) {
		b.Errorf("Observe after Close returns %v, want %q", err, tenure.ErrClosed)
	}
	next := b.acquire(m, b.claim())
	if d := time.Since(closing); d > b.TTL {
		b.Errorf("the next holder came %v after Close: it waited for the deadline", d)
	}
	b.release(next)
	b.release(taken)
}
