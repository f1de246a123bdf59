package fastct

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// peer is the state that the failure detector, ◇S by heartbeats, keeps of a member.
//
// A timeout that was too short doubles, up to timeoutMax times Config.Timeout. It is halved
// again when, for as long as quiet says, no silence of the member was longer than the half.
// Otherwise a few bad minutes would have a later hang go unnoticed for ever. Quiet doubles
// with each mistake, too.
//
// Why Ω is still right eventually, if messages take less than timeoutMax times
// Config.Timeout: a timeout is too short at most six times, from its present length, until
// it is long enough. After that it is too short once for each time that it was halved.
// Silences of that length that come more than once in a quiet prevent halving. Rarer ones
// cause one mistake in a quiet, which soon is quietMax times Config.Timeout. The paper has
// mistakes end. An instance needs no more than that there are none for as long as it takes:
// some rounds, of a few messages each.
type peer struct {
	suspected bool
	silent    bool // that is why, and nobody has said that its process ended
	heard     machine.Mono
	timeout   time.Duration
	quiet     time.Duration
	since     machine.Mono  // when the present quiet began
	longest   time.Duration // the longest silence since
}

// Bounds of the failure detector, in units of Config.Timeout.
const (
	timeoutMax = 64
	quietMin   = 32
	quietMax   = 1 << 16
)

func newPeer(timeout time.Duration) peer {
	return peer{timeout: timeout, quiet: quietMin * timeout}
}

// endSuspicion ends a suspicion. It was right, and the timeout was not too short, if somebody
// had seen the process end, or if no message can have taken that long; so the timeout gets no
// longer than that.
func (p *peer) endSuspicion(now machine.Mono, silence, timeout time.Duration) {
	if p.silent && silence <= timeoutMax*timeout {
		p.timeout *= 2
		p.quiet = min(2*p.quiet, quietMax*timeout)
	}
	p.suspected, p.silent, p.since, p.longest = false, false, now, 0
}

// onHeard takes in that a member was heard of that is not suspected.
func (p *peer) onHeard(now machine.Mono, silence, timeout time.Duration) {
	p.longest = max(p.longest, silence)
	if now.Sub(p.since) < p.quiet {
		return
	}
	if p.longest <= p.timeout/2 {
		p.timeout = max(p.timeout/2, timeout)
	}
	p.since, p.longest = now, 0
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

// noteLife takes in that a member lives.
func (m *Machine) noteLife(id machine.NodeID) {
	if m.cfg.Heartbeat == 0 {
		return
	}
	p := &m.omega.peers[m.index(id)]
	silence := m.now.Sub(p.heard)
	p.heard = m.now
	if !p.suspected {
		p.onHeard(m.now, silence, m.cfg.Timeout)
		return
	}
	p.endSuspicion(m.now, silence, m.cfg.Timeout)
	for _, in := range m.open { // it may answer now
		in.retry, in.pause = min(in.retry, m.now.Add(m.cfg.Retry)), min(in.pause, 2*m.cfg.Retry)
	}
}

// detect suspects members that were silent for too long, and takes a step of Transform each
// Heartbeat.
func (m *Machine) detect() {
	if m.cfg.Heartbeat == 0 {
		return
	}
	o := &m.omega
	if !m.started {
		for i := range o.peers {
			o.peers[i].heard, o.peers[i].since = m.now, m.now
		}
		o.next = m.now
	}
	for i, id := range m.cfg.Members {
		p := &o.peers[i]
		if id != m.cfg.ID && !p.suspected && m.now.Sub(p.heard) > p.timeout {
			p.silent = true
			m.suspect(id)
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

// told takes the owner's word on a member. It counts for more than the member's silence.
func (m *Machine) told(s Suspect) {
	i := m.index(s.Node)
	if i < 0 || s.Node == m.cfg.ID {
		return
	}
	m.omega.peers[i].silent = false
	if s.Suspected {
		m.suspect(s.Node)
	} else {
		m.omega.peers[i].suspected = false
	}
}

// suspect suspects a member. Instances that wait for it go on.
func (m *Machine) suspect(id machine.NodeID) {
	i := m.index(id)
	m.omega.peers[i].suspected = true
	if m.cfg.Heartbeat == 0 {
		m.omega.counts[i]++
		m.tell()
	}
	for _, in := range slices.Clone(m.open) {
		m.doubt(in)
	}
}

// watch returns when the failure detector has to be woken.
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
