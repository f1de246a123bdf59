package fleasesim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// Protocol is what `tenure-lab sim flease` plays.
func Protocol() sim.Protocol {
	return sim.Protocol{
		Name:  "flease",
		About: "leases among peers, diskless or durable: exclusion, tokens, L1, L2, R1 to R5, views, progress",
		Play:  func(w *sim.World) error { return play(w).j.fault },
	}
}

// stage is the set of a world's parts.
type stage struct {
	w         *sim.World
	j         *judge
	net       *sim.Network
	peers     []*peer
	resources []string
	slots     []int

	tmax, eps time.Duration
	view      flease.View
	next      *flease.View // decided, and not active anywhere
	changed   time.Duration
}

// play lets clients use a cluster that fails, twice, and heals it each time.
func play(w *sim.World) *stage {
	tmax := w.Between(2*time.Second, 6*time.Second).Truncate(time.Millisecond)
	s := newStage(w, tmax, w.Between(20*time.Millisecond, tmax/12).Truncate(time.Millisecond))
	s.j.broken = w.Seed%8 == 7
	n := [...]int{3, 3, 1, 5, 3, 4, 7, 3, 5}[w.Rand.IntN(9)]
	s.view = flease.View{Epoch: 1, Replicas: []int{0, 5, 3}[w.Rand.IntN(3)]}
	for i := range n {
		s.view.Members = append(s.view.Members, machine.NodeID(i+1))
	}
	views := !s.j.broken && n > 1 && w.Chance(0.25)
	for i := range 1 + w.Rand.IntN(4) {
		s.resources = append(s.resources, fmt.Sprintf("r%d", i+1))
	}
	if w.Chance(0.3) {
		s.slots = []int{1, 1, flease.Shared, flease.Shared, 2}
	}
	durable := w.Chance(0.2)
	extra := 0
	if views {
		extra = w.Rand.IntN(3)
	}
	for i := range n + extra {
		s.add(machine.NodeID(i+1), func(cfg *flease.Config) { cfg.Durable = durable }, 1+w.Rand.IntN(3))
	}
	for _, p := range s.peers {
		p.start()
	}
	for range 1 + w.Rand.IntN(2) {
		s.chaos(w.Between(8*tmax, 30*tmax), views)
		if s.j.fault != nil {
			return s
		}
		s.heal()
	}
	return s
}

func newStage(w *sim.World, tmax, eps time.Duration) *stage {
	s := &stage{w: w, j: newJudge(w), tmax: tmax, eps: eps, slots: []int{1}}
	s.j.eps = flease.Time(eps / time.Millisecond)
	s.net = sim.NewNetwork(w, overTheWire)
	s.net.Take = func(env machine.Envelope) bool { return false }
	return s
}

// overTheWire is the arriving form of a message.
func overTheWire(body any) any {
	data, err := body.(*flease.Batch).MarshalBinary()
	if err != nil {
		panic(err)
	}
	b := &flease.Batch{}
	if err := b.UnmarshalBinary(data); err != nil {
		panic(err)
	}
	return b
}

// add brings a peer on, with clients of its own.
func (s *stage) add(id machine.NodeID, edit func(*flease.Config), clients int) *peer {
	p := &peer{s: s, host: sim.NewProcess[flease.Input, flease.Report](s.w, s.net, id, 2e-4)}
	p.host.Lane = fmt.Sprintf("peer %d", id)
	p.right = time.Duration(p.host.Now().Wall) - s.w.Now()
	p.config = flease.Config{Self: id, TMax: s.tmax, Epsilon: s.eps, View: s.view, Incarnation: 1}
	if edit != nil {
		edit(&p.config)
	}
	cfg, err := p.config.Complete()
	if err != nil {
		panic(err)
	}
	p.config = cfg
	for range clients {
		p.clients = append(p.clients, &client{p: p})
	}
	s.peers = append(s.peers, p)
	if s.j.broken {
		p.host.StepWall(s.w.Between(-time.Minute, time.Minute))
	} else {
		p.host.StepWall(s.w.Between(-s.eps/2, s.eps/2))
		p.wander()
	}
	return p
}

func (s *stage) stay() time.Duration {
	if s.j.steady {
		return s.w.Between(0, s.tmax/3)
	}
	return s.w.Between(0, 2*s.tmax)
}

func (s *stage) away() time.Duration { return s.w.Between(0, s.tmax) }

// some is a peer, and more often than not one that holds something or has just voted.
func (s *stage) some() *peer { return s.peers[s.w.Rand.IntN(len(s.peers))] }

// holder is one of the holders, or any peer.
func (s *stage) holder() *peer {
	var list []*peer
	for _, name := range s.resources {
		for _, h := range s.j.of(name).holds {
			list = append(list, h.p)
		}
	}
	if len(list) == 0 {
		return s.some()
	}
	return list[s.w.Rand.IntN(len(list))]
}

// chaos lets d pass, with faults of the kinds that this world draws.
func (s *stage) chaos(d time.Duration, views bool) {
	w := s.w
	s.j.steady = false
	s.net.Loss, s.net.Duplicate, s.net.Slow = w.Swarm(0.3), w.Swarm(0.2), w.Swarm(0.1)
	s.net.Max = w.Between(time.Millisecond, s.tmax/60)
	ghosts := w.Swarm(0.05)
	s.net.Take = func(env machine.Envelope) bool {
		if w.Chance(ghosts) { // it comes again, when it is thought to be gone for good
			w.After(w.Between(0, 4*s.tmax), func() { s.net.Deliver(env) })
		}
		return false
	}
	long := func() time.Duration { return w.Between(0, 5*s.tmax/2) }
	var kinds []func()
	for _, kind := range []func(){
		func() { s.some().crash(long()) },
		func() { s.holder().crash(w.Between(0, s.tmax/4)) },
		func() { s.some().restart() },
		func() { s.some().stop(long(), w.Chance(0.3)) },
		func() { s.holder().stop(long(), w.Chance(0.3)) },
		s.cut,
		s.net.Mend,
		func() {
			p := s.some()
			p.host.Drift((2*w.Rand.Float64() - 1) * 2e-4)
		},
	} {
		if w.Chance(0.6) {
			kinds = append(kinds, kind)
		}
	}
	if views {
		kinds = append(kinds, s.changeView)
	}
	if s.j.broken {
		kinds = append(kinds, func() {
			s.some().host.StepWall(w.Between(-time.Minute, time.Minute))
		})
	}
	every := w.Between(s.tmax/8, 3*s.tmax)
	for end := w.Now() + d; w.Now() < end && s.j.fault == nil; {
		if len(kinds) > 0 {
			kinds[w.Rand.IntN(len(kinds))]()
		}
		w.Run(w.Between(0, 2*every))
	}
}

// cut isolates a peer, or splits the cluster, one way or both.
func (s *stage) cut() {
	side := map[*peer]bool{}
	if s.w.Chance(0.5) {
		side[s.some()] = true
	} else {
		for _, p := range s.peers {
			side[p] = s.w.Chance(0.5)
		}
	}
	oneWay := s.w.Chance(0.4)
	for _, a := range s.peers {
		for _, b := range s.peers {
			if side[a] && !side[b] {
				s.net.Cut(a.host.ID, b.host.ID)
				if !oneWay {
					s.net.Cut(b.host.ID, a.host.ID)
				}
			}
		}
	}
}

// changeView is the authority on the membership: one view at a time.
func (s *stage) changeView() {
	if s.next != nil {
		return
	}
	v := flease.View{Epoch: s.view.Epoch + 1, Replicas: []int{s.view.Replicas, 0, 1, 5}[s.w.Rand.IntN(4)]}
	for _, p := range s.peers {
		if s.w.Chance(0.6) {
			v.Members = append(v.Members, p.host.ID)
		}
	}
	if len(v.Members) == 0 {
		return
	}
	s.next = &v
	s.w.Note("view %d: %v, %d", v.Epoch, v.Members, v.Replicas)
	s.w.Mark(sim.Remark, "", "view %d: %v", v.Epoch, v.Members)
	s.w.Count("views", 1)
	for _, p := range s.peers {
		p.host.Step(flease.ChangeView{View: v})
	}
}

// activated: some peer knows that the quarantine between two views is over.
func (s *stage) activated(v flease.View) {
	if v.Epoch > s.view.Epoch {
		s.view, s.next, s.changed = v, nil, s.w.Now()
	}
}

// changing: leases may be lost because their cells were.
func (s *stage) changing() bool { return s.next != nil || s.w.Now()-s.changed < 4*s.tmax }

// heal ends all faults, and wants progress.
func (s *stage) heal() {
	w := s.w
	s.net.Loss, s.net.Duplicate, s.net.Slow, s.net.Max = 0, 0, 0, 2*time.Millisecond
	s.net.Take = nil
	s.net.Mend()
	w.Note("healed")
	for _, p := range s.peers {
		if p.host.Paused() {
			p.host.Resume()
		}
	}
	// Messages under way arrive, peers that are down come up, quarantines end, views, leases
	// and lock delays of the dead run out.
	w.Run(4*s.tmax + 3*time.Second)
	for _, p := range s.peers {
		if !p.host.Up() {
			p.start()
		}
	}
	w.Run(3*s.tmax + 5*s.eps + 4*s.tmax)
	if s.j.broken {
		w.Run(4 * s.tmax)
		return
	}
	s.j.steady = true
	bound := 5 * s.tmax // leases of before, and the waiters behind them
	for _, p := range s.peers {
		bound += time.Duration(len(p.clients)) * s.tmax * 2 / 3
	}
	from := w.Now()
	for end := from + s.tmax + bound; w.Now() < end && s.j.fault == nil; {
		w.Run(s.tmax)
		for _, p := range s.peers {
			if !p.serving {
				s.j.fail("%v is silent though nothing fails", p)
			}
			for _, c := range p.clients {
				if c.id != 0 && c.hold == nil && w.Now()-max(from, c.since) > bound {
					s.j.fail("%v has asked for %s %v ago and hears nothing", p, c.name, w.Now()-c.since)
				}
			}
		}
	}
}
