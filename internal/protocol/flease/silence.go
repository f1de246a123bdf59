package flease

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// silence is a quarantine: it ends when both clocks have come far enough. The
// monotonic one alone is not enough (F-2): if all synchronized clocks are slewed to go
// slower, leases last longer than W by it.
type silence struct {
	mono machine.Mono
	wall Time
	on   bool
}

// next is when to look again.
func (s *silence) next(now machine.Now) machine.Mono {
	return max(s.mono, now.Mono.Add((s.wall - TimeOf(now.Wall)).duration()), now.Mono.Add(time.Millisecond))
}

// silent reports whether the peer is in quarantine: it neither votes nor proposes, nor
// sends anything.
func (p *Peer) silent() bool { return p.silence.on }

// beginQuarantine begins a quarantine. Every ballot that may have been forgotten is at most ε ahead
// of our clock, so none up to there is accepted ever again.
func (p *Peer) beginQuarantine() {
	p.floor = max(p.floor, p.c+p.eps)
	p.silentFor(p.quarantine)
}

// silentFor begins a silence of d on both clocks. If the synchronized clock was ahead of
// others' for long and has been set right, it lasts until that clock is back where it was.
// Till then the peer could accept and draw no ballots, or tokens would go back.
func (p *Peer) silentFor(d time.Duration) {
	until := max(p.c+millis(d), p.floor, p.hlc.last.Time()-p.eps)
	p.silence = silence{mono: p.now.Mono.Add(d), wall: until, on: true}
	p.report(Quarantined{Deadline: p.now.Mono.Add(max(d, (until - p.c).duration())), Until: until.Wall()})
}

// start is the first step.
func (p *Peer) start() {
	p.started = true
	p.wheel.cur = int64(p.now.Mono) >> tickBits
	forgot := p.cfg.Restore == nil
	for _, r := range p.cfg.Restore {
		p.restore(r)
		forgot = forgot || r.Silent
	}
	p.cfg.Restore = nil
	if forgot {
		p.beginQuarantine()
		return
	}
	// Ballots of this life must be others than those of the last, of which some may not
	// have been recorded: by then our clock is ahead of them all, by a millisecond at least.
	p.silentFor(p.cfg.Epsilon + time.Millisecond)
}

// unwatched is how long clocks may move apart between two steps: see duty 6 of the driver.
const unwatched = 10 * time.Second

// tick reads the clocks: once for each step, so that no comparison sees two times (E6).
func (p *Peer) tick(now machine.Now) {
	before := p.now
	p.now, p.c = now, TimeOf(now.Wall)
	if !p.started {
		p.start()
		return
	}
	passed := now.Mono.Sub(before.Mono)
	apart := time.Duration(now.Wall-before.Wall) - passed
	// A clock that is only slewed moves apart slowly. A step, or a stop of one of them, is
	// as good as a crash. At most ten seconds of slewing count: a peer that was not woken
	// for an hour would otherwise take a step of seven seconds for slewing.
	if limit := p.cfg.Epsilon/4 + min(passed, unwatched)/500; apart > limit || -apart > limit {
		p.fault(apart, fmt.Sprintf("the synchronized clock went %v while the monotonic one went %v", passed+apart, passed))
	}
	// Monotone, so that forgotten ballots stay refused if the clock is set back.
	p.floor = max(p.floor, p.c-p.tmax-2*p.eps)
	if p.silence.on && now.Mono >= p.silence.mono && p.c >= p.silence.wall {
		p.silence.on = false
		p.report(Serving{})
	}
}

// fault is the end of all trust in our clocks: like a crash, but that nothing is forgotten
// that others may rely on.
func (p *Peer) fault(by time.Duration, why string) {
	p.alert(Alarm{Kind: Jump, By: by, Why: why})
	for i := range p.claims {
		c := &p.claims[i]
		if c.phase == held || c.phase == releasing {
			p.end(int32(i), why)
		}
	}
	for i := range p.claims {
		switch c := &p.claims[i]; {
		case c.phase == free:
		case c.try || c.watches:
			p.endWith(int32(i), ErrQuarantine)
		case c.att >= 0:
			p.abandon(c.att)
			p.requeue(int32(i))
		}
	}
	for _, l := range p.lanes {
		if l != nil {
			l.drop()
		}
	}
	p.beginQuarantine()
}

type alarmKey struct {
	kind AlarmKind
	peer machine.NodeID
}

// alert reports an alarm, not more often than once in t_max.
func (p *Peer) alert(a Alarm) {
	key := alarmKey{a.Kind, a.Peer}
	if last, ok := p.alarmed[key]; ok && p.now.Mono.Sub(last) < p.cfg.TMax && a.Kind != Jump {
		return
	}
	p.alarmed[key] = p.now.Mono
	p.report(a)
}
