package readtorture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/compat/server"
)

const (
	root          = "t/"
	closedLoops   = 3 // at each member
	objects       = 4 // at a time
	operationTime = 2 * time.Second
	openEvery     = 5 * time.Millisecond
	openAtMost    = 100 // gets of one open loop under way
)

// load is all the clients' work.
type load struct {
	start   time.Time
	life    time.Duration // of an object
	mu      sync.Mutex
	history []operation
}

func (l *load) now() time.Duration { return time.Since(l.start) }

func (l *load) add(ops []operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, ops...)
}

func (l *load) done() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.history)
}

// run has the clients work until ctx ends.
func (l *load) run(ctx context.Context, c *server.Cluster, seed uint64) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for m := range c.Members {
		for n := range closedLoops + 1 {
			cli, err := c.Client(m)
			if err != nil {
				return err
			}
			w := worker{load: l, cli: cli, member: m, name: fmt.Sprintf("%d.%d", m, n), seen: map[string]string{},
				random: rand.New(rand.NewPCG(seed, uint64(100+10*m+n)))}
			wg.Go(func() {
				defer cli.Close()
				if n == closedLoops {
					w.openLoop(ctx)
				} else {
					w.closedLoop(ctx)
				}
			})
		}
	}
	return nil
}

// worker is a client of one member.
type worker struct {
	*load
	cli    *clientv3.Client
	member int
	name   string
	random *rand.Rand
	seen   map[string]string // last value known of a key, for a CAS to succeed at times
}

// object is one of those of this time. Each member's clients prefer one, for the longest
// part of its life, so that there is something to say for holding it there.
func (w *worker) object() string {
	now := w.now()
	n := w.random.IntN(objects)
	if w.random.IntN(2) == 0 {
		n = (w.member + int(4*now/(3*w.life))) % objects
	}
	return fmt.Sprintf("%s%d/%d", root, n, now/w.life)
}

func (w *worker) closedLoop(ctx context.Context) {
	var mine []operation
	for n := 0; ctx.Err() == nil; n++ {
		o := w.draw(n)
		w.do(ctx, &o)
		for i := range together {
			switch {
			case o.changes() && o.Writes[i]:
				w.seen[key(o.Object, i)] = o.Value
			case o.told(i):
				w.seen[key(o.Object, i)] = o.Saw[i]
			}
		}
		if mine = append(mine, o); len(mine) == 100 {
			w.add(mine)
			mine = nil
		}
		if !o.Known {
			pause(ctx, 5*time.Millisecond) // a dead member refuses at once
		}
		if w.random.IntN(4) == 0 {
			pause(ctx, time.Duration(w.random.IntN(8))*time.Millisecond)
		}
	}
	w.add(mine)
}

// draw makes up an operation.
func (w *worker) draw(n int) operation {
	o := operation{Member: w.member, Object: w.object(), Value: fmt.Sprintf("%s-%d", w.name, n)}
	i := w.random.IntN(together)
	all := [together]bool{true, true, true}
	switch r := w.random.IntN(100); {
	case r < 30:
		o.Kind, o.Looks[i], o.Value = kindGet, true, ""
	case r < 35:
		o.Kind, o.Looks[i], o.Value = kindSerial, true, ""
	case r < 50:
		o.Kind, o.Looks, o.Value = kindRange, all, ""
	case r < 57:
		o.Kind, o.Looks, o.Value = kindReadTxn, all, ""
		o.Looks[i] = false
	case r < 75:
		o.Kind, o.Writes[i] = kindPut, true
		o.Looks[i] = w.random.IntN(2) == 0
	case r < 78:
		o.Kind, o.Writes[i], o.Looks[i], o.Value = kindDelete, true, true, ""
	case r < 80:
		o.Kind, o.Writes, o.Looks, o.Value = kindClear, all, all, ""
	case r < 90:
		o.Kind, o.Writes[i], o.Looks[i] = kindCAS, true, true
		o.Old = w.seen[key(o.Object, i)]
	default:
		o.Kind, o.Writes, o.Looks = kindTxn, all, all
		o.Writes[i] = w.random.IntN(2) == 0
	}
	return o
}

// openLoop begins a get every few milliseconds, however many are under way.
func (w *worker) openLoop(ctx context.Context) {
	var (
		wg     sync.WaitGroup
		places = make(chan struct{}, openAtMost)
		ticker = time.NewTicker(openEvery)
	)
	defer ticker.Stop()
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		select {
		case places <- struct{}{}:
		default:
			continue
		}
		o := operation{Member: w.member, Object: w.object(), Kind: kindGet}
		if w.random.IntN(3) == 0 {
			o.Kind, o.Looks = kindRange, [together]bool{true, true, true}
		} else {
			o.Looks[w.random.IntN(together)] = true
		}
		wg.Go(func() {
			defer func() { <-places }()
			if w.do(ctx, &o); o.Known {
				w.add([]operation{o})
			}
		})
	}
}
