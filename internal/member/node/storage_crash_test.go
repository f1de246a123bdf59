package node

import (
	"math/rand/v2"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// TestStorageCrashesAtEveryPoint lets the machine die at each call of the file
// system in a life with everything in it, those of a start included.
func TestStorageCrashesAtEveryPoint(t *testing.T) {
	life := func(b *bench) {
		b.start()
		b.append(2, 8, true)
		b.now.term, b.now.vote, b.now.commit = 2, 3, 6
		b.append(8, 4, true) // over two that were not committed
		b.save(6)
		b.release(9, true)
		b.now.commit = 11
		b.append(12, 20, false)
		b.append(32, 20, true)
		b.save(11)
		b.append(52, 20, true)
		b.kill()
		b.start()
		b.now.commit = 71
		b.write(replica.Record{HardState: b.hard()}, true)
		b.save(60)
		b.now.term, b.now.vote = 3, 0
		b.file(90, 3)
		b.restore(90, 3, true)
		b.advance(90)
		b.append(91, 20, true)
		b.now.commit = 110
		b.append(111, 1, true)
		b.save(100)
		b.save(110)
		b.append(112, 20, true)
		b.file(150, 3)
		b.kill()
		b.start()
		b.append(151, 3, true)
		b.kill()
	}
	// dies reports whether f crashed.
	dies := func(f func()) (died bool) {
		defer func() {
			switch r := recover(); r {
			case nil:
			case waltest.ErrCrashed:
				died = true
			default:
				panic(r)
			}
		}()
		f()
		return false
	}
	points := 0
	for at, more := 1, true; more; at++ {
		more = false
		for seed := range uint64(3) {
			r := rand.New(rand.NewPCG(seed, uint64(at)))
			b := &bench{t: t, disk: waltest.NewDisk(), crashAt: at}
			b.begin()
			if !dies(func() { life(b) }) {
				break
			}
			more = true
			b.disk.Crash(r)
			b.ops, b.crashAt = 0, 1+r.IntN(40) // and once more, during the start
			if dies(b.start) {
				b.disk.Crash(r)
				b.crashAt = 0
				b.start()
			}
			b.crashAt = 0
			b.append(b.now.last+1, 2, true)
			b.kill()
			b.start()
			if t.Failed() {
				t.Fatalf("crash at call %d, seed %d", at, seed)
			}
		}
		points = at
	}
	t.Logf("%d points", points)
}
