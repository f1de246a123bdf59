package fastct

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/machine"
)

// omega is ◇S by heartbeats, and Ω from it: task Transform, after Chu's Slander.
type omega struct {
	counts []uint64 // count_p, by the index of a member
	peers  []peer
	next   machine.Mono // when Transform takes its next step
	leader int          // the index that was reported last
}

// peer is what the failure detector knows of a member.
type peer struct {
	suspected bool
	heard     machine.Mono
	timeout   time.Duration
}

func newOmega(cfg Config) omega {
	o := omega{counts: make([]uint64, len(cfg.Members)), peers: make([]peer, len(cfg.Members)), leader: -1}
	for i := range o.peers {
		o.peers[i].timeout = cfg.Timeout
	}
	return o
}

// min is Min(count_p): the first index of the least count, at all members alike.
func (o *omega) min() int {
	least := 0
	for i, c := range o.counts {
		if c < o.counts[least] {
			least = i
		}
	}
	return least
}

func (m *Machine) index(id machine.NodeID) int { return slices.Index(m.cfg.Members, id) }

// Leader is whom this member trusts: the output of Ω. Who is suspected there leads until
// the next heartbeat has counted that.
func (m *Machine) Leader() (id machine.NodeID, suspected bool) {
	i := m.omega.min()
	return m.cfg.Members[i], m.omega.peers[i].suspected
}

// FastLeader is the coordinator of a FAST round, and 0 of any other.
func (m *Machine) FastLeader(round int64) machine.NodeID {
	if round < 0 || round >= m.cfg.normal() || m.cfg.Plain {
		return 0
	}
	return m.cfg.Members[round]
}

// Normal tells whether this member takes part in an undecided instance in NORMAL mode.
func (m *Machine) Normal() bool {
	return slices.ContainsFunc(m.open, func(in *instance) bool { return in.round >= m.cfg.normal() })
}

// Suspects returns whom this member suspects.
func (m *Machine) Suspects() (ids []machine.NodeID) {
	for _, id := range m.cfg.Members {
		if m.suspects(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (m *Machine) suspects(id machine.NodeID) bool { return m.omega.peers[m.index(id)].suspected }

// hears takes in that a member lives.
func (m *Machine) hears(id machine.NodeID) {
	p := &m.omega.peers[m.index(id)]
	p.heard = m.now
	if p.suspected && m.cfg.Heartbeat > 0 {
		p.suspected = false
		p.timeout = min(2*p.timeout, 64*m.cfg.Timeout)
		for _, in := range m.open { // it may answer now
			in.retry, in.pause = min(in.retry, m.now.Add(m.cfg.Retry)), min(in.pause, 2*m.cfg.Retry)
		}
	}
}

// detect suspects who was silent for too long, and takes a step of Transform each
// Heartbeat.
func (m *Machine) detect() {
	if m.cfg.Heartbeat == 0 {
		return
	}
	o := &m.omega
	if !m.started {
		for i := range o.peers {
			o.peers[i].heard = m.now
		}
		o.next = m.now
	}
	for i, id := range m.cfg.Members {
		p := &o.peers[i]
		if id != m.cfg.ID && !p.suspected && m.now.Sub(p.heard) > p.timeout {
			m.suspect(id, true)
		}
	}
	if m.now >= o.next {
		o.next = m.now.Add(m.cfg.Heartbeat)
		for i := range o.peers {
			if o.peers[i].suspected {
				o.counts[i]++ // by one in a period, however long a partition lasts (F18)
			}
		}
		m.tell()
	}
}

// tell sends FD to all.
func (m *Machine) tell() {
	counts := slices.Clone(m.omega.counts)
	for _, to := range m.cfg.Members {
		if to != m.cfg.ID {
			m.send(to, Counts{counts})
		}
	}
}

// counted is lines 59 and 60.
func (m *Machine) counted(c Counts) {
	if len(c.Counts) != len(m.omega.counts) {
		return
	}
	for i, n := range c.Counts {
		m.omega.counts[i] = max(m.omega.counts[i], n)
	}
}

// suspect changes what the failure detector says of a member. Whoever waits for it goes
// on.
func (m *Machine) suspect(id machine.NodeID, suspected bool) {
	i := m.index(id)
	if i < 0 || id == m.cfg.ID {
		return
	}
	m.omega.peers[i].suspected = suspected
	if !suspected {
		return
	}
	if m.cfg.Heartbeat == 0 {
		m.omega.counts[i]++
		m.tell()
	}
	for _, in := range slices.Clone(m.open) {
		m.doubt(in)
	}
}

// lead reports a change of whom this member trusts. Who is no longer trusted himself
// gives back the leases that he will not use.
func (m *Machine) lead() {
	o := &m.omega
	leader := o.min()
	if leader == o.leader {
		return
	}
	o.leader = leader
	m.out(Leader{m.cfg.Members[leader]})
	if m.cfg.Members[leader] == m.cfg.ID {
		m.lambda.reset(m.cfg)
	} else {
		m.giveLeases()
	}
}

// watch is when the failure detector has to be woken.
func (m *Machine) watch() machine.Mono {
	at := machine.Never
	if m.cfg.Heartbeat == 0 {
		return at
	}
	at = m.omega.next
	for i, id := range m.cfg.Members {
		if p := m.omega.peers[i]; id != m.cfg.ID && !p.suspected {
			at = min(at, p.heard.Add(p.timeout)+1)
		}
	}
	return at
}
