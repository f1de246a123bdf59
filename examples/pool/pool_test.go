package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure/leasetest"
)

func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leasetest.NewMemory()
		pool := Pool{Name: "pool", Size: 3, TTL: 10 * time.Second}
		l := store.Open()
		defer l.Close()

		// Everybody gets another one; the preferred if it is free.
		for _, c := range []struct{ prefer, want int }{{1, 1}, {1, 2}} {
			if n, _, err := pool.Take(t.Context(), l, c.prefer); err != nil || n != c.want {
				t.Errorf("preferring %d took %d, %v; want %d", c.prefer, n, err, c.want)
			}
		}
		crashing := store.Open()
		fix := store.Fixture(pool.TTL)
		n, _, err := pool.Take(t.Context(), crashing, 1)
		if err != nil || n != 0 {
			t.Errorf("took %d, %v; want 0", n, err)
		}

		// None is left.
		short, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond) // it tries each second
		defer cancel()
		if _, _, err := pool.Take(short, l, 0); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "all 3 of pool are taken") {
			t.Errorf("a fourth of three: got %v, want that all are taken", err)
		}

		// The name of a client that is gone comes back.
		fix.Cut(crashing)
		began := time.Now()
		n, lease, err := pool.Take(t.Context(), l, 2)
		if err != nil || n != 0 || time.Since(began) > pool.TTL+time.Second {
			t.Errorf("after a crash took %d after %v, %v; want 0 within a TTL", n, time.Since(began), err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		fix.Heal(crashing)
		crashing.Close()
	})
}

func TestPoolRefuses(t *testing.T) {
	l := leasetest.NewMemory().Open()
	defer l.Close()
	for _, prefer := range []int{-1, 3} {
		if _, _, err := (Pool{Name: "pool", Size: 3}).Take(t.Context(), l, prefer); err == nil || !strings.Contains(err.Error(), "want one from 0 to 2") {
			t.Errorf("preferring %d: got %v, want it refused", prefer, err)
		}
	}
}
