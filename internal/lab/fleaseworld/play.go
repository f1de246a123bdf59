package fleaseworld

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/lab/world"
	"github.com/tenure-lease/tenure/internal/lab/world/network"
	"github.com/tenure-lease/tenure/internal/machine"
)

// stage is the set of a world's parts.
type stage struct {
	w       *world.World
	j       *judge
	net     *network.Network
	rand    *rand.Rand
	shape   shape
	members *authority
	records records
	hosts   []*host
	names   []string
	running sync.WaitGroup // goroutines of the world
	acting  sync.WaitGroup // those of holders

	tmax, eps, round time.Duration

	mu      sync.Mutex
	clients map[string]*world.Process
	locals  map[*life]*holder
	over    bool
}

// longest is how long a world may last; most end after four minutes.
const longest = time.Hour

// Play plays the world of a seed.
func Play(t *testing.T, seed uint64) world.Result {
	sh, plan := draw(world.Rand(seed, "plan"))
	return world.Play(t, world.Options{Seed: seed, Plan: plan, Drain: 2 * time.Minute, Limit: longest}, func(w *world.World) { play(w, sh) })
}

// playSkewed plays the world of a seed in which a clock is wrong by more than ε.
func playSkewed(t *testing.T, seed uint64) world.Result {
	sh, plan := drawSkewed(world.Rand(seed, "skewed"))
	return world.Play(t, world.Options{Seed: seed, Plan: plan, Drain: 2 * time.Minute, Limit: longest}, func(w *world.World) { play(w, sh) })
}

// playRestarts plays the world of a seed in which peers are cut off and killed in turns.
func playRestarts(t *testing.T, seed uint64) world.Result {
	sh, plan := drawRestarts(world.Rand(seed, "restarts"))
	return world.Play(t, world.Options{Seed: seed, Plan: plan, Drain: 2 * time.Minute, Limit: longest}, func(w *world.World) { play(w, sh) })
}

// playChanges plays the world of a seed in which the members change all the time.
func playChanges(t *testing.T, seed uint64) world.Result {
	sh, plan := drawChanges(world.Rand(seed, "changes"))
	return world.Play(t, world.Options{Seed: seed, Plan: plan, Drain: 2 * time.Minute}, func(w *world.World) { play(w, sh) })
}

// playSetBack plays the world of a seed in which all clocks are set back.
func playSetBack(t *testing.T, seed uint64) world.Result {
	sh, plan := drawSetBack(world.Rand(seed, "set back"))
	return world.Play(t, world.Options{Seed: seed, Plan: plan, Drain: 2 * time.Minute}, func(w *world.World) { play(w, sh) })
}

// playBackups plays the world of a seed in which states of earlier ends are put back.
func playBackups(t *testing.T, seed uint64) world.Result {
	sh, plan := drawBackups(world.Rand(seed, "backups"))
	return world.Play(t, world.Options{Seed: seed, Plan: plan, Drain: 2 * time.Minute}, func(w *world.World) { play(w, sh) })
}

func play(w *world.World, sh shape) {
	s := &stage{
		w: w, shape: sh, rand: w.Rand("stage"), tmax: sh.tmax, eps: sh.eps, round: sh.tmax / 40,
		j: &judge{w: w, names: map[string]*resource{}}, clients: map[string]*world.Process{}, locals: map[*life]*holder{},
		members: &authority{},
	}
	s.net = network.New(w, 100*time.Microsecond, sh.delay)
	w.Happen(s.happen)
	first := engine.Members{Epoch: 1, Addrs: map[machine.NodeID]string{}}
	for i := range sh.peers + sh.spares {
		h := s.newHost(i + 1)
		s.hosts = append(s.hosts, h)
		if i < sh.peers {
			first.Addrs[h.index] = h.addr()
		}
	}
	s.members.set(first)
	for i := range sh.names {
		s.names = append(s.names, fmt.Sprintf("r%d", i+1))
	}
	for _, h := range s.hosts {
		if _, member := first.Addrs[h.index]; member {
			s.running.Go(h.start)
		}
		for i := range sh.clients {
			s.acting.Go(func() { h.client(i + 1) })
		}
	}
	s.running.Go(func() {
		for i := 0; !s.ended(); i++ {
			s.j.look()
			if i%10 == 0 {
				s.reckon()
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	s.running.Go(func() {
		for !s.ended() {
			for _, h := range s.hosts {
				h.wander(s.tmax)
			}
			time.Sleep(s.tmax)
		}
	})
	if sh.backups {
		s.running.Go(func() { s.putStatesBack(sh.chaos) })
	}
	if sh.setBack != 0 {
		s.running.Go(func() {
			time.Sleep(sh.chaos / 2)
			s.setBack(sh.setBack)
		})
	}
	time.Sleep(sh.chaos)
	w.Forgo()
	if sh.skew != 0 {
		s.judgeSkew()
		s.hosts[0].setClock()
	}
	if d := w.Calm() - w.Elapsed(); d > 0 {
		time.Sleep(d)
	}
	s.judgeLiveness()
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.judgeMemory()
	for _, h := range s.hosts {
		if l := h.running(); l != nil {
			s.running.Go(func() { l.end(leaves) })
		}
	}
	s.running.Wait()
}

// judgeLiveness wants, once all is mended, that everything works.
func (s *stage) judgeLiveness() {
	// Messages under way arrive, processes that are down come up, and leases of the dead,
	// quarantines and changes of the members are over.
	time.Sleep(8*s.tmax + 10*time.Second)
	s.w.Trace.Add("steady")
	s.j.mu.Lock()
	s.j.steady = true
	s.j.mu.Unlock()
	before := s.w.Counter("tenures")
	time.Sleep(8 * s.tmax)
	if s.w.Counter("tenures") == before {
		s.w.Fail("liveness: nobody acquires anything")
	}
	m, _ := s.members.current()
	for id := range m.Addrs {
		p := s.hosts[id-1].now()
		if p == nil || !p.Status().Serving {
			s.w.Fail("liveness: %s does not serve though nothing fails", s.hosts[id-1].name)
			continue
		}
		for _, o := range p.Status().Peers {
			if o.Error != "" {
				s.w.Fail("liveness: %s says of peer %d, though nothing fails: %s", s.hosts[id-1].name, o.Index, o.Error)
			}
		}
	}
}

// judgeSkew wants that a clock that is wrong by more than ε is reported: by a peer that refuses a
// ballot from ahead of its own clock, and by the one that is refused. And that the others go on.
func (s *stage) judgeSkew() {
	wrong := s.hosts[0]
	for _, h := range s.hosts[1:] {
		if s.shape.skew > 0 && s.w.Counter(h.name+" alarms: skew") == 0 && s.shape.peers == 3 {
			s.w.Fail("skew: %s is %v ahead, and %s says nothing of it", wrong.name, s.shape.skew, h.name)
		}
	}
	if s.w.Counter(wrong.name+" alarms: skew") == 0 {
		s.w.Fail("skew: %s is %v ahead of all others, and says nothing of it", wrong.name, s.shape.skew)
	}
	if s.w.Counter("tenures of the sound") == 0 {
		s.w.Fail("skew: %s is %v ahead of all others, and those get nothing", wrong.name, s.shape.skew)
	}
	how := "behind"
	if s.shape.skew > 0 {
		how = "ahead"
	}
	s.w.Count("skewed: "+how, 1)
}

// judgeMemory wants that nothing is left of released leases.
func (s *stage) judgeMemory() {
	s.j.mu.Lock()
	s.j.steady = false
	s.j.mu.Unlock()
	s.acting.Wait()
	time.Sleep(4*s.tmax + 4*s.eps)
	for _, h := range s.hosts {
		p := h.now()
		if p == nil {
			continue
		}
		if n := p.Status().Claims; n != 0 {
			s.w.Fail("memory: %s has %d claims, and nobody wants anything", h.name, n)
		}
		l := p.Leaser()
		if names, err := l.List(s.t(), ""); err != nil || len(names) > 0 {
			s.w.Fail("memory: %s knows %v (%v), and nobody wants anything", h.name, names, err)
		}
		_ = l.Close()
	}
}

func (h *host) running() *life {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life
}

func (s *stage) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func (s *stage) isSteady() bool {
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	return s.j.steady
}

func (s *stage) between(a, b time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return a + time.Duration(s.rand.Int64N(int64(b-a)+1))
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }

// pause is how long a holder waits between two things.
func (s *stage) pause(r *rand.Rand) time.Duration { return upTo(r, s.tmax/2) }

// stay is how long a lease is wanted.
func (s *stage) stay(r *rand.Rand) time.Duration {
	if s.isSteady() || s.ended() {
		return upTo(r, s.tmax/8)
	}
	return upTo(r, 3*s.tmax/2)
}

// patience is how long a caller waits.
func (s *stage) patience(r *rand.Rand) time.Duration {
	if s.isSteady() {
		return 6 * s.tmax
	}
	return s.tmax/4 + upTo(r, 2*s.tmax)
}

// claim draws one.
func (s *stage) claim(r *rand.Rand, name, who string) tenure.Claim {
	least := 8 * s.round
	c := tenure.Claim{Name: name, Holder: who, Slots: 1, TTL: (least + upTo(r, s.tmax/2-least)).Truncate(time.Millisecond)}
	if r.IntN(3) == 0 {
		c.LockDelay = upTo(r, s.tmax/3).Round(time.Millisecond)
	}
	if s.shape.shared && r.IntN(2) == 0 {
		c.Slots = []int{2, tenure.Shared}[r.IntN(2)]
	}
	return c
}
