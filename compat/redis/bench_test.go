package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register"
)

// Benchmark has the registers of a set of three, and Redlock, on the same servers in the
// same run. "many" is what one operation costs if a hundred are under way: those of
// the registers share round trips. A register's write is two round trips, its read
// is one, and all that Redlock does is one; but it has no token, and a server that
// restarts empty lets two hold one lock.
func Benchmark(b *testing.B) {
	for _, mode := range []struct {
		name string
		how  []string
	}{{"memory", inMemory}, {"fsync", always}} {
		b.Run(mode.name, func(b *testing.B) {
			servers, opened := bases(b, 3, mode.how...)
			var addrs []string
			for _, s := range servers {
				addrs = append(addrs, s.addr)
			}
			set, lock := opened(), newRedlock(addrs)
			b.Cleanup(lock.close)
			b.Run("register", func(b *testing.B) { registers(b, set) })
			b.Run("redlock", func(b *testing.B) { redlocks(b, lock) })
		})
	}
}

const many = 100

func registers(b *testing.B, set *register.Set) {
	var cells []*register.Cell
	for i := range many {
		cells = append(cells, set.Register(fmt.Sprint("name ", i)))
	}
	ctx := context.Background()
	write := func(i int) error { _, err := cells[i].Write(ctx, []byte("held")); return err }
	read := func(i int) error { _, err := cells[i].Read(ctx); return err }
	b.Run("write", func(b *testing.B) { alone(b, write) })
	b.Run("read", func(b *testing.B) { alone(b, read) })
	b.Run("write/many", func(b *testing.B) { together(b, write) })
	b.Run("read/many", func(b *testing.B) { together(b, read) })
}

func redlocks(b *testing.B, lock *redlock) {
	ctx := context.Background()
	name := func(i int) string { return fmt.Sprint("lock ", i) }
	pair := func(i int) error {
		value := lock.acquire(ctx, name(i))
		if value == "" || !lock.release(ctx, name(i), value) {
			return fmt.Errorf("%s was not acquired and released", name(i))
		}
		return nil
	}
	b.Run("acquire+release", func(b *testing.B) { alone(b, pair) })
	b.Run("acquire+release/many", func(b *testing.B) { together(b, pair) })
	var values []string
	for i := range many {
		values = append(values, lock.acquire(ctx, name(i)))
	}
	extend := func(i int) error {
		if !lock.extend(ctx, name(i), values[i]) {
			return fmt.Errorf("%s was not extended", name(i))
		}
		return nil
	}
	b.Run("extend", func(b *testing.B) { alone(b, extend) })
	b.Run("extend/many", func(b *testing.B) { together(b, extend) })
}

// alone does one operation after the other.
func alone(b *testing.B, op func(int) error) {
	for b.Loop() {
		if err := op(0); err != nil {
			b.Fatal(err)
		}
	}
}

// together keeps one operation under way for each name.
func together(b *testing.B, op func(int) error) {
	left := make(chan struct{}, b.N)
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	b.ResetTimer()
	var wait sync.WaitGroup
	for i := range many {
		wait.Go(func() {
			for range left {
				if err := op(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
}
