package diskleasesim

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// process is a host with a claim, and its owner's habits.
type process struct {
	w      *sim.World
	j      *judge
	stage  *stage
	host   *sim.Process[disklease.LeaseInput, disklease.Outcome]
	config disklease.Config
	wrap   func(disklease.Claim, machine.ID) disklease.Claim // over disks, or nil
	serve  func(*sim.Host, machine.ID, machine.Access)
	forget func(machine.ID) // of a claim that is over, or nil
	lease  *disklease.Lease
	id     machine.ID // of the claim
	hold   *hold      // while it believes
	tokens bool       // are to be checked

	// renewing says that it may renew after its deadline, as in the paper, where a
	// process in the state Renew excludes others as well (Property 2.1).
	renewing bool

	measured time.Duration // the δ it would like, if any

	stay    func() time.Duration // how long it holds
	between bool                 // leaves between two renewals only, and not in the middle of one
	until   time.Duration
	away    func() time.Duration // how long it does something else
	fickle  float64              // how often it gives up waiting
	tries   float64              // how often it does not wait
	quit    bool                 // contends no more
	since   time.Duration        // contending since then
	wants   bool
	seen    []byte
	left    bool // of its own accord
}

func (p *process) String() string { return fmt.Sprintf("%s/%d", p.host.Lane, p.config.Slots) }

// contend begins a claim, with an identity of its own.
func (p *process) contend() {
	if p.quit || !p.host.Up() && p.lease != nil {
		return
	}
	if p.lease != nil && p.forget != nil {
		p.forget(p.id)
	}
	cfg := p.config
	binary.BigEndian.PutUint64(cfg.ID[:], p.w.Rand.Uint64())
	binary.BigEndian.PutUint64(cfg.ID[8:], uint64(p.host.ID))
	cfg.Holder, p.id = p.host.Lane, cfg.ID
	var in disklease.LeaseInput = disklease.Acquire{}
	if p.w.Chance(p.tries) {
		in, cfg.Witness = disklease.TryAcquire{}, p.seen
	}
	lease, err := disklease.New(cfg)
	if err != nil {
		panic(err)
	}
	p.lease, p.wants, p.left, p.since = lease, true, false, p.w.Now()
	var m disklease.Claim = lease
	if p.wrap != nil {
		m = p.wrap(lease, cfg.ID)
	}
	p.host.Outcome = p.outcome
	p.host.Access = func(h *sim.Host, a machine.Access) {
		p.count(lease, a.Op)
		p.serve(h, cfg.ID, a)
	}
	p.host.Start(m)
	if p.measured > 0 {
		p.host.Step(disklease.Measured{Delay: p.measured})
	}
	for _, e := range p.stage.ends {
		p.host.Step(e)
	}
	p.host.Step(in)
	if p.w.Chance(p.fickle) {
		p.host.After(p.w.Between(0, 2*p.config.Term), func() {
			if p.wants {
				p.leave()
			}
		})
	}
}

// count counts the writes of a claim that has its own entry before it and does not wait for its
// end.
func (p *process) count(lease *disklease.Lease, op any) {
	if _, write := op.(machine.Write); !write || lease.Held() != 0 {
		return
	}
	for _, m := range lease.State().Members {
		if m.ID == p.id && !m.Dead {
			p.w.Count("written over an own entry", 1)
		}
	}
}

func (p *process) outcome(out disklease.Outcome) {
	switch out := out.(type) {
	case disklease.Acquired:
		if p.left { // before it knew
			return
		}
		p.wants = false
		p.j.onStart(p, p.config.Slots, out.Token, out.Deadline)
		if p.between {
			p.until = p.w.Now() + p.stay()
		} else {
			p.host.After(p.stay(), p.leave)
		}
	case disklease.Renewed:
		if !p.left {
			p.j.onRenewal(p, out.Deadline)
			if p.between && p.w.Now() >= p.until {
				p.leave()
			}
		}
	case disklease.Lost:
		p.j.onLoss(p, out.Why)
		p.host.Step(disklease.Leave{})
	case disklease.Refused:
		p.wants, p.seen = false, out.Witness
		p.rest()
	case disklease.Left:
		if p.forget != nil && p.w.Chance(0.5) { // at once, or when it is back
			p.forget(p.id)
		}
		p.rest()
	case disklease.Trouble:
		p.w.Note("%v: %v", p, out.Err)
	}
}

// leave stops believing and says so.
func (p *process) leave() {
	if p.host.Paused() {
		p.host.After(delta, p.leave)
		return
	}
	p.j.onEnd(p)
	p.wants, p.left, p.since = false, true, p.w.Now()
	p.host.Step(disklease.Leave{})
}

func (p *process) rest() {
	p.wants, p.left = false, false
	p.host.After(p.away(), p.contend)
}

// crash loses all that the process knew; it comes back as another one.
func (p *process) crash(down time.Duration) {
	if !p.host.Up() {
		return
	}
	p.j.onEnd(p)
	p.wants = false
	p.stage.tell(p)
	p.host.Crash()
	p.w.After(down, func() {
		if !p.host.Up() {
			p.lease = nil
			p.contend()
		}
	})
}

// pause stops it for a while. It goes on believing as its clock allows.
func (p *process) pause(d time.Duration) {
	if !p.host.Up() || p.host.Paused() {
		return
	}
	p.host.Pause()
	life := p.host.Life()
	p.w.After(d, func() {
		if p.host.Life() == life && p.host.Paused() {
			p.host.Resume()
		}
	})
}
