package replicasim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// readLeases are the settings for the member's next life. The record of its promises is on disk
// before.
func (m *Member) readLeases() replica.ReadLeases {
	o := replica.ReadLeases{
		Policy: quorumlease.Policy(m.c.ReadLease), TTL: m.c.LeaseLength, Idle: m.c.LeaseIdle,
		EarlierTTL: m.promised, PlanEvery: m.c.PlanEvery, Planner: m.c.Planner,
	}
	if o.TTL == 0 {
		o.TTL = 200 * time.Millisecond
	}
	if m.c.harsh.lengths {
		o.TTL = m.c.w.Between(quorumlease.MinTTL, 2*o.TTL)
	}
	m.promised = max(m.promised, o.TTL)
	if m.c.Paper != nil {
		m.promised = max(m.promised, m.c.Paper.Push.Wait())
		o.Idle = -1 // no reader asks, so none stops asking
	}
	return o
}

// promises are nil for the product's.
func (m *Member) promises() func(quorumlease.Config, machine.Mono) replica.Promises {
	if m.c.Paper == nil {
		return nil
	}
	return m.c.Paper.Promises(tick, electionTicks*tick)
}

// leaseWait is how long a reader waits for entries that its member's log holds already.
const leaseWait = time.Second

// leasedRead reads under the lease as a handler of a node does, on a goroutine of its own: it
// loads the publication, reads the clock, waits for the index. The process may be paused at any
// point of that.
func (m *Member) leasedRead(f func(view)) {
	lease := m.lease
	m.moment(func() {
		if m.Now().Mono >= lease.Until {
			m.confirmedRead(f)
			return
		}
		m.local++
		m.served()
		look := func() {
			v := m.view()
			m.moment(func() { f(v) })
		}
		if lease.Index <= m.view().index {
			look()
			return
		}
		read := &indexedRead{lease.Index, look}
		m.waiting = append(m.waiting, read)
		m.After(leaseWait, func() {
			if n := slices.Index(m.waiting, read); n >= 0 {
				m.waiting = slices.Delete(m.waiting, n, n+1)
				m.confirmedRead(f)
			}
		})
	})
}

// moment calls f a little later, when the process is not paused.
func (m *Member) moment(f func()) {
	if m.c.Measured {
		f()
		return
	}
	m.After(m.c.w.Between(0, 300*time.Microsecond), func() { m.WhenRunning(f) })
}

// served tells the replica now and then that its lease is of use.
func (m *Member) served() {
	if now := m.c.w.Now(); m.told == 0 || now-m.told > 100*time.Millisecond {
		m.told = now
		m.Step(replica.Served{Keys: m.counted})
		m.counted = nil
	}
}
