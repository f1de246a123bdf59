package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"runtime"
	"sync"
	"sync/atomic"
)

// Options says which worlds Run plays.
type Options struct {
	Protocol Protocol
	First    uint64 // seed of the first; the others follow
	Worlds   int
	Workers  int // how many are played at once; 0: one for each processor
	// Failures is after how many Run stops. 0: it plays all worlds.
	Failures int
	// Progress, if set, is called after each world, by one goroutine at a time.
	Progress func(worlds, failures int)
}

// Report is what became of the worlds.
type Report struct {
	Worlds   int // played
	Failures []Failure
	Counters map[string]int // the counts of the worlds
	Hash     uint64         // of all worlds in the order of their seeds; the same each time
}

// Failure is a world in which something was violated.
type Failure struct {
	Seed uint64
	Err  error
}

// played is the outcome of one world.
type played struct {
	index int
	Failure
	hash     uint64
	counters map[string]int
}

// Run plays worlds. The report covers them in the order of their seeds, up to
// where Run was stopped, and depends neither on the number of workers nor on
// their speed. The error is ctx's if that ended first.
func Run(ctx context.Context, o Options) (Report, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan played)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range o.workers() {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= o.Worlds || ctx.Err() != nil {
					return
				}
				w := NewWorld(o.First + uint64(i))
				err := o.Protocol.play(w)
				select {
				case done <- played{i, Failure{w.Seed, err}, w.Hash(), w.counters}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	go func() { workers.Wait(); close(done) }()

	r := Report{Counters: map[string]int{}}
	hash := fnv.New64a()
	early := map[int]played{} // that wait for worlds before them
	for p := range done {
		early[p.index] = p
		for {
			p, ok := early[r.Worlds]
			if !ok || o.enough(r) {
				break
			}
			delete(early, r.Worlds)
			r.Worlds++
			hash.Write(binary.BigEndian.AppendUint64(nil, p.hash))
			for name, n := range p.counters {
				r.Counters[name] += n
			}
			if p.Err != nil {
				r.Failures = append(r.Failures, p.Failure)
			}
			if o.Progress != nil {
				o.Progress(r.Worlds, len(r.Failures))
			}
		}
		if o.enough(r) {
			stop()
		}
	}
	r.Hash = hash.Sum64()
	if r.Worlds < o.Worlds && !o.enough(r) {
		return r, fmt.Errorf("%d of %d worlds were played: %w", r.Worlds, o.Worlds, ctx.Err())
	}
	return r, nil
}

func (o Options) workers() int {
	if o.Protocol.Alone {
		return 1
	}
	if o.Workers > 0 {
		return o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

func (o Options) enough(r Report) bool { return o.Failures > 0 && len(r.Failures) >= o.Failures }
