package leasetest

import "github.com/tenure-lease/tenure"

func (b *bench) wantGrown(last *uint64, lease tenure.Lease, after string) {
	b.Helper()
	if lease.Token() <= *last {
		b.Errorf("token %d after token %d: it must grow over %s", lease.Token(), *last, after)
	}
	if again := lease.Token(); again != lease.Token() {
		b.Errorf("the token of one tenure changed from %d to %d", lease.Token(), again)
	}
	*last = lease.Token()
}

func tokensGrow(b *bench) {
	var last uint64
	l, m := b.leaser(), b.leaser()
	for range 3 {
		lease := b.acquire(l, b.claim())
		b.wantGrown(&last, lease, "a release")
		b.release(lease)
		lease = b.acquire(m, b.claim())
		b.wantGrown(&last, lease, "another's release")
		b.release(lease)
	}
	lease := b.acquire(l, b.claim())
	b.wantGrown(&last, lease, "a release")
	if err := l.Close(); err != nil {
		b.Errorf("close: %v", err)
	}
	reopened := b.leaser()
	lease = b.acquire(reopened, b.claim())
	b.wantGrown(&last, lease, "closing and opening")
	if b.Cut != nil {
		b.lose(reopened, lease) // as good as a crash
		b.wantGrown(&last, b.acquire(m, b.claim()), "a loss")
	}
}

func tokensGrowOverRestart(b *bench) {
	b.require("Restart", b.Restart != nil)
	var last uint64
	for range 2 {
		l := b.leaser()
		lease := b.acquire(l, b.claim())
		b.wantGrown(&last, lease, "a restart of the store")
		b.release(lease)
		l.Close()
		if err := b.Restart(); err != nil {
			b.Fatalf("restart the store: %v", err)
		}
	}
}

// tokensGrowOverCrash has the store crash while the lease is held: whether it knows of the tenure
// behind that or not, no later one may have its token.
func tokensGrowOverCrash(b *bench) {
	b.require("Crash", b.Crash != nil)
	var last uint64
	for range 3 {
		l := b.leaser()
		lease := b.acquire(l, b.claim())
		b.wantGrown(&last, lease, "a crash of the store while it was held")
		if err := b.Crash(); err != nil {
			b.Fatalf("crash the store: %v", err)
		}
		if b.Cut != nil {
			b.Cut(l) // nor may it be renewed into what comes next
		}
		m := b.leaser()
		next := b.acquire(m, b.claim())
		b.wantGrown(&last, next, "a crash of the store while another held it")
		b.release(next)
	}
}
