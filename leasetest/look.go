package leasetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
)

func tryTells(b *bench) {
	l, m := b.leaser(), b.leaser()
	c := b.claim()
	c.Holder = "the quick brown fox"
	lease := b.acquire(l, c)
	_, err := m.TryAcquire(b.ctx, b.claim())
	var held tenure.HeldError
	if !errors.As(err, &held) {
		b.Fatalf("TryAcquire of a held name returns %v, want a HeldError", err)
	}
	if held.Name != c.Name || held.Holder != c.Holder {
		b.Errorf("HeldError{%q, %q}, want {%q, %q}", held.Name, held.Holder, c.Name, c.Holder)
	}
	b.plausible(held.Until, "HeldError.Until")
	b.refused(l, b.claim(), "by the Leaser that holds it")
	b.release(lease)
	got, err := m.TryAcquire(b.ctx, b.claim())
	if err != nil {
		b.Fatalf("TryAcquire of a free name: %v", err)
	}
	b.release(got)
}

// plausible reports an end of tenure that nobody would believe.
func (b *bench) plausible(until time.Time, what string) {
	b.Helper()
	if d := time.Until(until); until.IsZero() || d < -time.Second || d > b.TTL+time.Second {
		b.Errorf("%s is %v away (%v), with a TTL of %v", what, d, until, b.TTL)
	}
}

func observe(b *bench) {
	l, m := b.leaser(), b.leaser()
	look := func() tenure.State {
		s, err := m.Observe(b.ctx, b.names)
		if err != nil {
			b.Fatalf("observe: %v", err)
		}
		if s.Name != b.names {
			b.Errorf("observed %q, want %q", s.Name, b.names)
		}
		return s
	}
	if s := look(); len(s.Holders) != 0 || s.Waiting != 0 {
		b.Errorf("a name that nobody wanted yet: %+v, want no holder", s)
	}
	lease := b.acquire(l, b.claim())
	s := look()
	if len(s.Holders) != 1 {
		b.Fatalf("a held name: %+v, want one holder", s)
	}
	h := s.Holders[0]
	if h.Holder != lease.Holder() || h.Token != lease.Token() || h.Slots != 1 {
		b.Errorf("observed %+v, want holder %q, token %d, slots 1", h, lease.Holder(), lease.Token())
	}
	b.plausible(h.Until, "Until")
	changed := make(chan tenure.State, 1)
	go func() {
		s, err := tenure.Await(b.ctx, m, s)
		if err != nil {
			b.Errorf("await a change: %v", err)
		}
		changed <- s
	}()
	b.release(lease)
	if s := look(); len(s.Holders) != 0 {
		b.Errorf("a released name: %+v, want no holder", s)
	}
	if s := <-changed; len(s.Holders) != 0 {
		b.Errorf("Await returned %+v after a release, want no holder", s)
	}
	if _, err := m.Observe(b.ctx, ""); !errors.Is(err, tenure.ErrClaim) {
		b.Errorf("Observe of no name returns %v, want %q", err, tenure.ErrClaim)
	}
}

func badClaims(b *bench) {
	l := b.leaser()
	for _, bad := range []struct {
		what string
		edit func(*tenure.Claim)
	}{
		{"an empty name", func(c *tenure.Claim) { c.Name = "" }},
		{"a long name", func(c *tenure.Claim) { c.Name = strings.Repeat("x", 512+1) }},
		{"a name with a newline", func(c *tenure.Claim) { c.Name += "\n" }},
		{"a name with a zero byte", func(c *tenure.Claim) { c.Name += "\x00" }},
		{"a name that is not UTF-8", func(c *tenure.Claim) { c.Name += "\xff" }},
		{"a name that ends with a slash", func(c *tenure.Claim) { c.Name += "/" }},
		{"a holder with a newline", func(c *tenure.Claim) { c.Holder = "a\nb" }},
		{"a negative TTL", func(c *tenure.Claim) { c.TTL = -time.Second }},
		{"negative slots", func(c *tenure.Claim) { c.Slots = -1 }},
		{"a negative lock delay", func(c *tenure.Claim) { c.LockDelay = -1 }},
	} {
		c := b.claim()
		bad.edit(&c)
		for verb, acquire := range map[string]func(context.Context, tenure.Claim) (tenure.Lease, error){
			"Acquire": l.Acquire, "TryAcquire": l.TryAcquire,
		} {
			lease, err := acquire(b.ctx, c)
			if !errors.Is(err, tenure.ErrClaim) {
				b.Errorf("%s with %s returns %v, want %q", verb, bad.what, err, tenure.ErrClaim)
			}
			if err == nil {
				lease.Release(b.ctx)
			}
		}
	}
}

func manyGoroutines(b *bench) {
	l := b.leaser()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			c := b.claim()
			c.Name += fmt.Sprintf("/%d", i)
			lease, err := l.Acquire(b.ctx, c)
			if err != nil {
				b.Errorf("acquire %q: %v", c.Name, err)
				return
			}
			if lease.Name() != c.Name || lease.Holder() != c.Holder {
				b.Errorf("lease of %q by %q, want %q by %q", lease.Name(), lease.Holder(), c.Name, c.Holder)
			}
			var users sync.WaitGroup
			for range 4 {
				users.Go(func() {
					for range 100 {
						if err := lease.Check(); err != nil {
							b.Errorf("%q: %v", c.Name, err)
						}
						_, _, _ = lease.Token(), lease.Deadline(), lease.Err()
					}
				})
			}
			users.Wait()
			for range 4 {
				users.Go(func() { b.release(lease) })
			}
			users.Wait()
			b.ended(lease, tenure.ErrReleased, "released by four goroutines")
		})
	}
	all.Wait()
}
