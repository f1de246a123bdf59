package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

const (
	// briefTTL is that of the leases whose renewals are counted: flease renews by itself, at
	// half of each lease, so that the rate is made by their number.
	briefTTL = 4 * time.Second
	// firstLeases is how many there are at first, and lateAt by which part of the TTL one
	// renewal in a hundred may be late.
	firstLeases = 8_000
	lateAt      = 0.1
)

// measureRenewals finds how many renewals a second the peers keep up with: leases are added
// until renewals are late, or one is lost. Its latencies are by how much renewals were
// later than half of the lease.
func (p *peers) measureRenewals(ctx context.Context, d time.Duration) (best result, err error) {
	p.release() // the leases that the cases before hold
	defer p.release()
	var held []tenure.Lease
	for want := firstLeases; ; want += want / 3 {
		more, err := p.hold(ctx, len(held), want)
		if held = append(held, more...); err != nil {
			return best, err
		}
		time.Sleep(briefTTL / 2) // until what taking them has cost is over
		r, late := p.count(d)
		lost := slices.ContainsFunc(held, func(l tenure.Lease) bool { return l.Check() != nil })
		switch {
		case !lost && !late:
			best = r
		case best.Rate == 0:
			return best, fmt.Errorf("%d leases of %v are too many to renew", want, briefTTL)
		default:
			return best, nil
		}
	}
}

// hold takes leases from a number to another.
func (p *peers) hold(ctx context.Context, from, to int) (held []tenure.Lease, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	const takers = 128
	for i := range takers {
		wg.Go(func() {
			l := p.leasers[i%len(p.leasers)]
			for n := from + i; n < to; n += takers {
				lease, e := l.Acquire(ctx, tenure.Claim{Name: fmt.Sprintf("renewed-%d", n), TTL: briefTTL})
				mu.Lock()
				if held = append(held, lease); e != nil {
					held, err = held[:len(held)-1], e
				}
				mu.Unlock()
				if e != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return held, err
}

// count watches renewals for a while, and reports whether they are late.
func (p *peers) count(d time.Duration) (r result, late bool) {
	var before []engine.Punctuality
	for _, one := range p.all {
		before = append(before, one.Punctuality())
	}
	cpu, begin := ownCPU(), time.Now()
	time.Sleep(d)
	elapsed, used := time.Since(begin), ownCPU()-cpu
	ms := func(part float64) float64 { return max(part-0.5, 0) * float64(briefTTL.Milliseconds()) }
	n := 0.0
	for i, one := range p.all {
		h := one.Punctuality().Since(before[i])
		n += float64(h.Total())
		r.P50, r.P99 = max(r.P50, ms(h.Quantile(0.5))), max(r.P99, ms(h.Quantile(0.99)))
		late = late || h.Quantile(0.99)-0.5 > lateAt
	}
	r.Rate, r.CPU = n/elapsed.Seconds(), float64(used.Microseconds())/max(n, 1)
	return r, late
}

// release gives back all that is held.
func (p *peers) release() {
	for i, l := range p.leasers {
		_ = l.Close()
		p.leasers[i] = p.all[i].Leaser()
	}
}
