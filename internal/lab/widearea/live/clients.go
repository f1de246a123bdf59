package live

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/widearea"
)

// Clients are those of all sites: each does one operation after the other, on whatever
// does them, and what they measure is judged.
type Clients struct {
	Seed     uint64            // of what they ask for
	Workload widearea.Workload // of single keys
	Size     widearea.Size     // its requests do not matter
	For      time.Duration     // of which a part does not count: see widearea.Settling
	Pause    time.Duration     // between two operations of a client, on average

	// Operate does an operation at a site for a client there, counted from 0, and returns
	// the revision that the key has then, 0 if it has none.
	Operate func(ctx context.Context, site, client int, key string, read bool) (rev int64, err error)
}

// load are clients at work.
type load struct {
	Clients
	begun time.Time

	mu            sync.Mutex
	newest        []int64 // of each key: the latest revision that an operation which ended has seen
	stale, failed int
	reads, writes [len(widearea.Sites)][]time.Duration
}

// Play has them work for a while, or until ctx ends, on something of a name.
func (c Clients) Play(ctx context.Context, name string) widearea.Outcome {
	p := &load{Clients: c, begun: time.Now(), newest: make([]int64, c.Size.Keys)}
	ctx, cancel := context.WithTimeout(ctx, c.For)
	defer cancel()
	var all sync.WaitGroup
	for site, what := range c.Workload.Loads(c.Seed, c.Size.Keys) {
		for i := range c.Size.Clients {
			all.Go(func() {
				p.client(ctx, site, i, what, rand.New(rand.NewPCG(c.Seed, uint64(100+site*c.Size.Clients+i))))
			})
		}
	}
	all.Wait()
	o := widearea.NewOutcome(name, c.Workload, time.Since(p.begun), p.reads, p.writes)
	o.Stale, o.Failed = p.stale, p.failed
	return o
}

func (p *load) client(ctx context.Context, site, i int, what widearea.Load, random *rand.Rand) {
	for ctx.Err() == nil {
		keys, read := what.Next(random)
		key, sent := keys[0], time.Now()
		p.mu.Lock()
		seen := p.newest[key]
		p.mu.Unlock()
		rev, err := p.Operate(ctx, site, i, widearea.KeyName(key), read)
		took := time.Since(sent)
		if ctx.Err() != nil {
			return
		}
		p.mu.Lock()
		p.ended(key, read, seen, rev, err)
		if err == nil && sent.Sub(p.begun) >= widearea.Settling(p.For) {
			list := &p.writes[site]
			if read {
				list = &p.reads[site]
			}
			*list = append(*list, took)
		}
		p.mu.Unlock()
		if p.Pause > 0 {
			time.Sleep(time.Duration(random.ExpFloat64() * float64(p.Pause)))
		}
	}
}

// ended judges an operation as it ends: it may not miss what one on its key has seen
// that ended before it began.
func (p *load) ended(key int, read bool, seen, rev int64, err error) {
	switch {
	case err != nil:
		p.failed++
		return
	case read && rev < seen, !read && rev <= seen:
		p.stale++
	}
	p.newest[key] = max(p.newest[key], rev)
}
