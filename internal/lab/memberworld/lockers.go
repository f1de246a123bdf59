package memberworld

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/host/clock"
	"github.com/tenure-lease/tenure/internal/lab/world/holders"
	"github.com/tenure-lease/tenure/internal/machine"
)

// lockTTL is the TTL of lockers' leases: short beside a storm.
const lockTTL = 3 * time.Second

// habits are those of lockers.
var habits = holders.Habits{
	Workers: 2, Names: 2, Term: lockTTL, Quiet: 2 * lockTTL, Pause: time.Second, Hold: 2 * lockTTL,
	Shared: 0.2, Idle: 0.1, Onlook: 0.1, Reopen: 0.05, Kill: 0.05, Every: 2 * lockTTL,
}

// locks is an engine with claims of the lockers' TTL.
type locks struct {
	*etcd.Leaser
	client *clientv3.Client
}

func (l locks) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	c.TTL = lockTTL
	return l.Leaser.Acquire(ctx, c)
}

func (l locks) TryAcquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	c.TTL = lockTTL
	return l.Leaser.TryAcquire(ctx, c)
}

// Close closes the client, too, which an engine closes only if it has opened it.
func (l locks) Close() error {
	defer l.client.Close()
	return l.Leaser.Close()
}

// Takeover is how long a lease of the dead keeps others waiting, but for changes of leader.
func (l locks) Takeover() time.Duration { return 2 * lockTTL }

// lockers are hosts with processes that take leases by internal/holder/etcd, with clocks that run at rates
// which the engine allows for. Last tries all leases when nothing is wrong any more.
type lockers struct {
	c      *cluster
	judge  *holders.Judge
	stop   chan struct{}
	once   sync.Once // closes stop
	run    sync.WaitGroup
	number int
}

func (c *cluster) newLockers(number int) *lockers {
	l := &lockers{c: c, judge: holders.NewJudge(c.w), stop: make(chan struct{}), number: number}
	for i := range number {
		l.run.Go(func() { l.host(fmt.Sprintf("h%d", i)) })
	}
	if number > 0 {
		c.work.Go(func() { l.judge.Watch(c.gone) })
	}
	return l
}

// holder is a new process on a host.
func (l *lockers) holder(name string, seed uint64) *holders.Holder {
	return &holders.Holder{
		World: l.c.w, Judge: l.judge, Habits: habits, Name: name, Process: l.c.w.Start(name), Seed: seed,
		Stop: l.stop, Calm: l.c.calm.Load,
	}
}

// open gives a process its engine.
func (l *lockers) open(h *holders.Holder, by clock.Clock) error {
	client := l.c.client(h.Name)
	h.Leaser = locks{etcd.New(client, by), client}
	return nil
}

// host runs one process after the other.
func (l *lockers) host(name string) {
	r := l.c.w.Rand("locker " + name)
	mono := newClock(r)
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		h := l.holder(name, r.Uint64())
		over := make(chan struct{})
		l.c.work.Go(func() { // a process that has ended may take its time in memory
			defer close(over)
			h.Live(func() error { return l.open(h, mono) })
		})
		stalls := rand.New(rand.NewPCG(r.Uint64(), 0))
		l.c.work.Go(func() { l.stall(h, stalls) })
		select {
		case <-over:
		case <-h.Process.Ended():
		}
		h.Process.End()
		l.c.net.Exit(h.Process)
		l.c.pause(100 * time.Millisecond)
	}
}

// stall has a process stand still again and again, for longer than a lease.
func (l *lockers) stall(h *holders.Holder, r *rand.Rand) {
	for !h.Ended() && !l.c.over() && !l.c.calm.Load() {
		l.c.pause(2*time.Second + time.Duration(r.Int64N(int64(4*lockTTL))))
		h.Process.Stop(lockTTL + time.Duration(r.Int64N(int64(lockTTL))))
	}
}

// newClock is a clock at a rate that leases allow for.
func newClock(r *rand.Rand) *clock.Simulated {
	mono := clock.NewSimulated(machine.Mono(r.Int64N(int64(time.Hour))))
	mono.SetRate(1 + (2*r.Float64()-1)/250)
	return mono
}

// end ends the processes.
func (l *lockers) end() {
	l.once.Do(func() { close(l.stop) })
	l.run.Wait()
}

// last ends the processes, and judges that each lease can be had then.
func (l *lockers) last() {
	l.end()
	if l.number == 0 {
		return
	}
	h := l.holder("h-last", 1)
	if err := l.open(h, newClock(l.c.w.Rand("locker h-last"))); err != nil {
		l.c.w.Fail("nothing is wrong any more, and leases cannot be opened: %v", err)
		return
	}
	h.Last(15*time.Second, true)
	h.Leaser.Close()
	h.Process.End()
	l.c.net.Exit(h.Process)
}
