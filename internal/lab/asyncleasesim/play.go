package asyncleasesim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
)

// Protocol is package asynclease in worlds of its own.
func Protocol() sim.Protocol {
	return sim.Protocol{
		Name:  "asynclease",
		About: "one to seven members that grant intervals without a clock, crash-stop and crash-recovery; at-most-once, mandatory leasing, wait-freedom",
		Play:  playWorld,
	}
}

const (
	retry = 50 * time.Millisecond
	// patience is how long an answer may take once nothing fails any more.
	patience = 20 * time.Second
)

// play is the set of a world's parts.
type play struct {
	w        *sim.World
	net      *sim.Network
	judge    judge
	members  []*member
	ids      []machine.NodeID
	volatile bool // crash-stop
	marks    bool // Config.MarkRefused
	down     int
	near     uint64 // where the intervals are asked for
}

// member is a host with an owner that asks.
type member struct {
	p     *play
	host  *sim.Process[asynclease.Input, asynclease.Verdict]
	m     *asynclease.Machine
	lives uint64
	asks  uint64
	held  []uint64 // IDs of this life that were granted
	dead  bool
}

func playWorld(w *sim.World) error {
	p := &play{w: w, net: sim.NewNetwork(w, func(b any) any { return b }), near: 1}
	p.volatile, p.marks = w.Chance(0.3), w.Chance(0.3)
	for i := range [...]int{3, 5, 1, 4, 2, 7}[w.Seed%6] {
		p.ids = append(p.ids, machine.NodeID(i+1))
	}
	for _, id := range p.ids {
		k := &member{p: p, host: sim.NewProcess[asynclease.Input, asynclease.Verdict](w, p.net, id, 1e-3)}
		k.host.Lane = fmt.Sprintf("member %d", id)
		k.host.Outcome = k.outcome
		p.members = append(p.members, k)
		k.start()
	}
	for range 2 {
		p.chaos(w.Between(5*time.Second, 15*time.Second))
		p.settle()
	}
	return p.judge.Err()
}

// start gives a member its next life.
func (k *member) start() {
	k.lives++
	k.held = nil
	m, err := asynclease.New(asynclease.Config{
		ID: k.host.ID, Members: k.p.ids, Life: k.lives, Retry: retry, Volatile: k.p.volatile, MarkRefused: k.p.marks,
	}, k.host.Disk.Durable)
	if err != nil {
		k.p.judge.violated("member %d does not start again: %v", k.host.ID, err)
		return
	}
	k.m = m
	k.host.Start(m)
	k.later()
}

func (k *member) later() { k.host.After(k.p.w.Between(0, time.Second), k.act) }

// act is what an owner does.
func (k *member) act() {
	w := k.p.w
	defer k.later()
	switch x := w.Rand.Float64(); {
	case k.host.Paused():
	case x < 0.75:
		k.ask()
	case x < 0.95 && len(k.held) > 0:
		r := asynclease.Return{ID: k.held[w.Rand.IntN(len(k.held))], From: k.p.near + uint64(w.Rand.IntN(20))}
		w.Note("member %d returns %d from %d", k.host.ID, r.ID, r.From)
		k.p.judge.onReturn(k.host.ID, r)
		k.host.Step(r)
	case x >= 0.97:
		f := asynclease.Forget{Below: k.p.near}
		w.Note("member %d forgets below %d", k.host.ID, f.Below)
		k.p.judge.onForget(f.Below)
		k.host.Step(f)
	}
}

func (k *member) ask() {
	w := k.p.w
	if w.Chance(0.2) {
		k.p.near += uint64(w.Rand.IntN(12))
	}
	in, err := asynclease.Length(k.p.near+uint64(w.Rand.IntN(30)), 1+uint64(w.Rand.IntN(10)))
	if err != nil {
		panic(err)
	}
	k.asks++
	a := asynclease.Ask{ID: k.asks, Interval: in}
	w.Note("member %d asks for %v as %d", k.host.ID, in, a.ID)
	w.Count("invocations", 1)
	k.p.judge.onAsk(k.host.ID, a)
	k.host.Step(a)
}

func (k *member) outcome(v asynclease.Verdict) {
	k.p.w.Note("member %d: %+v", k.host.ID, v)
	k.p.judge.verdict(k.host.ID, v)
	if v.Granted {
		k.held = append(k.held, v.ID)
		k.p.w.Count("granted", 1)
		k.p.w.Mark(sim.Remark, k.host.Lane, "has %v", v.Interval)
	}
	if err := k.p.judge.Err(); err != nil {
		k.p.w.Mark(sim.Violation, k.host.Lane, "%v", err)
	}
}

// crash ends a member's life. In crash-stop worlds it was the last one.
func (k *member) crash() {
	if n := len(k.p.ids); !k.host.Up() || k.p.volatile && n-k.p.down-1 < n/2+1 {
		return // a majority has to live
	}
	k.host.Crash()
	k.p.judge.onCrash(k.host.ID)
	if k.p.volatile {
		k.p.down++
		k.dead = true
		return
	}
	// A host's lives go on where its disk has got to; whatever it awaited is gone.
	k.p.w.After(k.p.w.Between(0, 3*time.Second), func() {
		if !k.host.Up() {
			k.start()
		}
	})
}

func (p *play) some() *member { return p.members[p.w.Rand.IntN(len(p.members))] }

// chaos lets d pass, with faults of the kinds that this world draws.
func (p *play) chaos(d time.Duration) {
	w, n := p.w, p.net
	n.Loss, n.Duplicate, n.Slow = w.Swarm(0.4), w.Swarm(0.3), w.Swarm(0.1)
	var kinds []func()
	for _, kind := range []func(){
		func() { p.some().crash() },
		func() { n.Cut(p.some().host.ID, p.some().host.ID) },
		func() { n.Mend() },
		func() {
			if k := p.some(); k.host.Up() && !k.host.Paused() {
				k.host.Pause()
				k.host.After(w.Between(0, 2*time.Second), k.host.Resume)
			}
		},
		func() { p.some().host.Disk.Slow = w.Between(0, 200*time.Millisecond) },
	} {
		if w.Chance(0.5) {
			kinds = append(kinds, kind)
		}
	}
	for end := w.Now() + d; w.Now() < end && p.judge.Err() == nil; {
		if len(kinds) > 0 {
			kinds[w.Rand.IntN(len(kinds))]()
		}
		w.Run(w.Between(0, time.Second))
	}
}

// settle ends all faults but death. A member that waits then must be answered.
func (p *play) settle() {
	w, n := p.w, p.net
	n.Loss, n.Duplicate, n.Slow = 0, 0, 0
	n.Mend()
	for _, k := range p.members {
		k.host.Disk.Slow = 0
	}
	w.Run(4 * time.Second) // members that are down or paused come back
	asked := len(p.judge.invocations)
	w.Run(patience)
	if err := p.judge.waiting(asked); err != nil {
		p.judge.errs = append(p.judge.errs, err)
	}
	if slices.ContainsFunc(p.members, func(k *member) bool { return !k.dead && !k.host.Up() }) {
		p.judge.errs = append(p.judge.errs, errors.New("a member is down that should have come back"))
	}
}
