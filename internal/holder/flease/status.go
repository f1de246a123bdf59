package flease

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// Status is the state of a peer, as `tenure peer status` shows it.
type Status struct {
	Cluster string         `json:"cluster,omitempty"`
	Self    machine.NodeID `json:"index"`
	Addr    string         `json:"address"`
	Epoch   uint64         `json:"epoch"`  // of the list of members
	Active  uint64         `json:"active"` // of the view in which the peer votes
	// Serving is false while the peer is silent after its start, or because of a clock. SilentMS is
	// the time that is left of the silence.
	Serving  bool  `json:"serving"`
	SilentMS int64 `json:"silent_ms,omitempty"`
	// Claims is the number of claims of this process and its clients, held ones included.
	Claims int `json:"claims"`
	// Records is the number of names whose records the peer keeps. Incomplete: it has started without some
	// of them, and has not heard from enough of the others since. Unconfirmed: they are those of a state, and no
	// other peer has confirmed yet that it is the last one.
	Records     int  `json:"records"`
	Incomplete  bool `json:"records_incomplete,omitempty"`
	Unconfirmed bool `json:"records_unconfirmed,omitempty"`
	// Renewals is the number of renewals since the start. RenewedAt is the part of the TTL within
	// which 50, 99 and 100 % of the last million or so were confirmed. A half is on time.
	Renewals  uint64     `json:"renewals"`
	RenewedAt [3]float64 `json:"renewed_at"`

	TMaxMS    int64          `json:"t_max_ms"`
	EpsilonMS int64          `json:"epsilon_ms"`
	Peers     []MemberStatus `json:"peers"`
	// Clock is why the kernel's clock cannot be trusted. Only Config.CheckClock fills it in.
	Clock string `json:"clock,omitempty"`
}

// MemberStatus is a member as a peer sees it.
type MemberStatus struct {
	Index     machine.NodeID `json:"index"`
	Addr      string         `json:"address"`
	Connected bool           `json:"connected"` // true for the peer itself
	RTTMS     float64        `json:"rtt_ms,omitempty"`
	Error     string         `json:"error,omitempty"`
}

// Status returns the state of the peer.
func (p *Peer) Status() Status {
	now := p.cfg.clocks()
	renewed := p.renewals.recent()
	records, whole := p.shelf.size()
	former, _ := p.shelf.restored()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{
		Cluster: p.cfg.Cluster, Self: p.self, Addr: p.cfg.Self, Epoch: p.members.Epoch, Active: p.activeEpoch.Load(),
		Serving: p.serving, Claims: len(p.claims), Records: records, Incomplete: !whole, Unconfirmed: former != 0,
		Renewals: p.renewals.count.Load(), RenewedAt: [3]float64{renewed.Quantile(0.5), renewed.Quantile(0.99), renewed.Quantile(1)},
		TMaxMS: p.cfg.TMax.Milliseconds(), EpsilonMS: p.cfg.Epsilon.Milliseconds(),
	}
	if !p.serving {
		s.SilentMS = max(p.silent.Deadline.Sub(now.Mono), time.Duration(p.silent.Until-now.Wall), 0).Milliseconds()
	}
	if p.clock != nil {
		s.Clock = p.clock.Error()
	}
	for _, id := range p.members.indices() {
		m := MemberStatus{Index: id, Addr: p.members.Addrs[id], Connected: id == p.self}
		if id != p.self {
			t := p.transport.Stats(id)
			m.Connected, m.RTTMS = t.Connected, float64(t.RTT)/float64(time.Millisecond)
			err := p.trouble(id)
			if err == nil && !t.Connected {
				err = offline(t.LastError)
			}
			if err != nil {
				m.Error = err.Error()
			}
		}
		s.Peers = append(s.Peers, m)
	}
	return s
}
