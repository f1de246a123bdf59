package fastct

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// leases is the variable Lease_status, shared by all instances of a member, and how it
// comes about. A status is false, too, once it was consumed (F11): an instance is led
// in FAST mode once. All is lost in a crash, and leases with it.
type leases struct {
	status map[uint64]bool // by instance; a missing one is ⊥
	asked  []leased        // WantLease that were not answered
	held   []leased        // granted, with something left
	lastID uint64
}

type leased struct{ id, first, last uint64 }

func (m *Machine) leaseKnown(cn uint64) bool {
	_, known := m.leases.status[cn]
	return known || slices.ContainsFunc(m.leases.asked, func(l leased) bool { return l.first <= cn && cn <= l.last })
}

// wantLease asks for λ instances from cn on (F9), up to what is known already.
func (m *Machine) wantLease(cn uint64) {
	l := leased{first: cn, last: cn}
	for n := m.lambda.now; n > 1 && l.last < math.MaxUint64 && !m.leaseKnown(l.last+1); n-- {
		l.last++
	}
	m.leases.lastID++
	l.id = m.leases.lastID
	m.leases.asked = append(m.leases.asked, l)
	m.out(WantLease{l.id, l.first, l.last})
}

// verdict takes the answer of line 16. It does not overwrite a known status (F10).
func (m *Machine) verdict(v Leased) {
	i := slices.IndexFunc(m.leases.asked, func(l leased) bool { return l.id == v.ID })
	if i < 0 {
		return
	}
	l := m.leases.asked[i]
	m.leases.asked = slices.Delete(m.leases.asked, i, i+1)
	m.lambda.learn(m.cfg, v.Granted)
	last := l.last
	if v.Granted {
		m.leases.held = append(m.leases.held, l)
	} else {
		// The paper gives up the whole interval. The hint tells which part of it, or how
		// much more, another try would not get.
		last = l.first + min(max(l.first, v.Until)-l.first, m.cfg.Lambda) // Until is no more than there are integers
	}
	for cn := l.first; ; cn++ {
		if _, known := m.leases.status[cn]; !known && cn >= m.floor {
			m.leases.status[cn] = v.Granted
		}
		if cn == last {
			break
		}
	}
	for _, in := range slices.Clone(m.open) {
		if in.phase == leasing && l.first <= in.cn && in.cn <= l.last {
			m.coordinate(in)
		}
	}
	if v.Granted && m.omega.leader >= 0 && m.cfg.Members[m.omega.leader] != m.cfg.ID {
		m.giveLeases()
	}
}

// prefetch asks for the next lease when little is left of the one that cn is of.
func (m *Machine) prefetch(cn uint64) {
	for _, l := range m.leases.held {
		if l.first <= cn && cn <= l.last && l.last < math.MaxUint64 && (l.last-cn)*4 <= l.last-l.first+1 && !m.leaseKnown(l.last+1) {
			m.wantLease(l.last + 1)
			return
		}
	}
}

// giveLeases gives back what was not used of each lease that is held: an extension.
func (m *Machine) giveLeases() {
	for _, l := range m.leases.held {
		from := l.last + 1
		for from > l.first && m.leases.status[from-1] {
			from--
			delete(m.leases.status, from)
		}
		if from <= l.last {
			m.out(GiveLease{l.id, from})
		}
	}
	m.leases.held = nil
}

// forgetLeases drops what is known of instances below the floor.
func (m *Machine) forgetLeases() {
	maps.DeleteFunc(m.leases.status, func(cn uint64, _ bool) bool { return cn < m.floor })
	m.leases.held = slices.DeleteFunc(m.leases.held, func(l leased) bool { return l.last < m.floor })
}

// lambda is for how many instances the next lease is asked for: section 5.
type lambda struct{ now uint64 }

// reset is for a member that begins to lead: half of the greatest, "to avoid a race".
func (l *lambda) reset(cfg Config) {
	l.now = cfg.Lambda
	if !cfg.Fixed && !cfg.Optimistic {
		l.now = cmp.Or(cfg.Lambda/2, 1)
	}
}

// learn halves it after a refusal, and lets it grow by a quarter with each lease.
func (l *lambda) learn(cfg Config, granted bool) {
	switch {
	case cfg.Fixed:
	case granted:
		l.now = min(cfg.Lambda, l.now+max(1, l.now/4))
	default:
		l.now = max(1, l.now/2)
	}
}
