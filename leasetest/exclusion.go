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
	ctx, cancel := context.WithTimeout(b.ctx, 2*b.TTL)
	defer cancel()
	var contenders sync.WaitGroup
	for range 4 {
		l := b.leaser()
		for range 4 { // some share a Leaser
			contenders.Go(func() { j.contend(ctx, l, b.claim(), 5*time.Millisecond) })
		}
	}
	contenders.Wait()
	j.late.Wait()
	if j.count < 16 {
		b.Errorf("16 contenders got the lease %d times in %v; want each to have a turn", j.count, 2*b.TTL)
	}
}

// exclusiveUnderPartitions cuts off holders and waiters alike, for shorter and
// longer than their leases last.
func exclusiveUnderPartitions(b *bench) {
	b.needs("Cut", b.Cut != nil)
	j := b.judge()
	ctx, cancel := context.WithTimeout(b.ctx, 8*b.TTL)
	defer cancel()
	var contenders sync.WaitGroup
	for range 4 {
		l := b.leaser()
		for range 2 {
			// Stays are as long as TTLs, so that most are hit by a cut.
			contenders.Go(func() { j.contend(ctx, l, b.claim(), b.TTL) })
		}
		contenders.Go(func() {
			for ctx.Err() == nil {
				b.pass(rand.N(2 * b.TTL))
				b.Cut(l)
				b.pass(rand.N(2 * b.TTL))
				b.Heal(l)
			}
		})
	}
	contenders.Wait()
	j.late.Wait()
	if j.count < 3 {
		b.Errorf("the lease was acquired %d times in %v; want it to move on", j.count, 8*b.TTL)
	}
}

func shared(b *bench) {
	readers, writers := b.claim(), b.claim()
	readers.Slots = tenure.Shared
	l, m := b.leaser(), b.leaser()

	first, second := b.acquire(l, readers), b.acquire(m, readers)
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
		got = append(got, b.acquire(l, three))
	}
	b.refused(m, three, "a fourth of three")
	b.release(got[1])
	got[1] = b.acquire(m, three)
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
			contenders.Go(func() { j.contend(ctx, l, c, 10*time.Millisecond) })
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
	for waiting := 0; waiting == 0; {
		s, err := l.Observe(b.ctx, read.Name)
		if err != nil {
			b.Fatalf("observe: %v", err)
		}
		waiting = s.Waiting
	}
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
