package leasetest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
)

func exclusive(b *bench) {
	j := b.judge()
	ctx, cancel := context.WithTimeout(b.ctx, 10*b.TTL)
	defer cancel()
	var contenders sync.WaitGroup
	contenders.Go(func() { // for two TTLs, or longer where all is slow
		for b.pass(2 * b.TTL); !j.had(16) && ctx.Err() == nil; b.pass(b.TTL / 4) {
		}
		cancel()
	})
	for range 4 {
		l := b.leaser()
		for range 4 { // some share a Leaser
			contenders.Go(func() { j.contend(ctx, l, b.claim(), b.stay(5*time.Millisecond)) })
		}
	}
	contenders.Wait()
	j.late.Wait()
	if !j.had(16) {
		b.Errorf("16 contenders got the lease %d times in %v; want each to have a turn", j.count, 10*b.TTL)
	}
}

// exclusiveUnderPartitions cuts off holders for longer than their leases last. Others wait
// meanwhile, and are cut off now and then as well.
func exclusiveUnderPartitions(b *bench) {
	b.require("Cut", b.Cut != nil)
	j := b.judge()
	ctx, cancel := context.WithTimeout(b.ctx, 10*b.TTL)
	defer cancel()
	var all sync.WaitGroup
	for range 3 {
		l := b.leaser()
		all.Go(func() {
			j.contend(ctx, l, b.claim(), func() {
				b.pass(rand.N(b.TTL / 2))
				b.Cut(l)
				b.pass(2*b.TTL + rand.N(b.TTL))
				b.Heal(l)
			})
		})
	}
	l := b.leaser()
	all.Go(func() { j.contend(ctx, l, b.claim(), b.stay(b.TTL)) })
	all.Go(func() {
		for ctx.Err() == nil {
			b.pass(rand.N(b.TTL))
			b.Cut(l)
			b.pass(rand.N(2 * b.TTL))
			b.Heal(l)
		}
	})
	all.Wait()
	j.late.Wait()
	if j.count < 3 {
		b.Errorf("the lease was acquired %d times in %v; want it to move on", j.count, 10*b.TTL)
	}
}

func shared(b *bench) {
	readers, writers := b.claim(), b.claim()
	readers.Slots = tenure.Shared
	l, m := b.leaser(), b.leaser()

	first := b.now(l, readers, "a reader")
	second := b.now(m, readers, "a reader beside a reader")
	b.held(first, "a reader beside a reader")
	b.refused(m, writers, "a writer beside readers")
	b.release(first)
	b.refused(m, writers, "a writer beside the second reader")
	b.release(second)
	writer := b.acquire(l, writers)
	b.refused(m, readers, "a reader beside a writer")
	b.release(writer)
	b.crowd(readers, readers, writers)
}

func slots(b *bench) {
	three := b.claim()
	three.Slots = 3
	l, m := b.leaser(), b.leaser()
	var got []tenure.Lease
	for range 3 {
		got = append(got, b.now(l, three, "one of three"))
	}
	b.refused(m, three, "a fourth of three")
	b.release(got[1])
	got[1] = b.now(m, three, "the third of three, after a release")
	for _, lease := range got {
		b.held(lease, "one of three")
		b.release(lease)
	}
	two := three
	two.Slots = 2
	b.crowd(three, two, b.claim())
}

// crowd lets claims of different kinds contend for one name.
func (b *bench) crowd(claims ...tenure.Claim) {
	j := b.judge()
	ctx, cancel := context.WithTimeout(b.ctx, 2*b.TTL)
	defer cancel()
	var contenders sync.WaitGroup
	for range 3 {
		l := b.leaser()
		for _, c := range claims {
			contenders.Go(func() { j.contend(ctx, l, c, b.stay(10*time.Millisecond)) })
		}
	}
	contenders.Wait()
	j.late.Wait()
}

// notOvertaken lets a writer wait for a reader: readers that come later wait
// behind it, or it would starve.
func notOvertaken(b *bench) {
	l, m := b.leaser(), b.leaser()
	read := b.claim()
	read.Slots = tenure.Shared
	reader := b.acquire(l, read)
	admitted := make(chan struct{})
	go func() {
		defer close(admitted)
		if lease, err := m.Acquire(b.ctx, b.claim()); err != nil {
			b.Errorf("acquire behind a reader: %v", err)
		} else {
			b.release(lease)
		}
	}()
	b.queued(l, read.Name)
	b.refused(l, read, "a reader behind a waiting writer")
	b.release(reader)
	b.await(admitted, b.TTL, "the writer, after the reader released")
}

func namesAreIndependent(b *bench) {
	l, m := b.leaser(), b.leaser()
	for _, suffix := range []string{"", "/sub", "/sub/sub", "2", " ", "é", "%2f"} {
		c := b.claim()
		c.Name += suffix
		lease, err := l.TryAcquire(b.ctx, c)
		if err != nil {
			b.Errorf("%q, while other names are held: %v", c.Name, err)
			continue
		}
		b.refused(m, c, "a name that is held")
		defer b.release(lease)
	}
}
