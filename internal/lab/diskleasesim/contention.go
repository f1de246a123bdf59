package diskleasesim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// Contest is how contenders for one lease fared.
type Contest struct {
	Contenders int     `json:"contenders"`
	First      float64 `json:"first_s"`       // until a process had it, all having begun within δ
	TakeOver   float64 `json:"takeover_s"`    // from a holder's death until another had it
	HandOver   float64 `json:"handover_s"`    // from a release until another had it, median
	Accesses   float64 `json:"accesses"`      // to the register per tenure, all contenders together
	PlainFirst float64 `json:"plain_first_s"` // First as Figure 2 has it: no queue, no polls, a wait at first sight
}

// Contend lets n contend in a stable system, once as shipped and once as in Figure 2
// (section 2.1 asks how such algorithms behave against the level of contention).
func Contend(seed uint64, n int, term, delay time.Duration) Contest {
	c := Contest{Contenders: n}
	contest := newContest(seed, n, term, delay, false)
	contest.until(1)
	c.First = contest.starts[0].Seconds()

	contest.hold = delay
	contest.leave(contest.holder)
	const rounds = 20
	before := contest.accesses
	contest.until(1 + min(rounds, n-1))
	if n > 1 {
		c.HandOver = median(contest.gaps).Seconds()
		c.Accesses = float64(contest.accesses-before) / float64(min(rounds, n-1))
	}

	// Those that are left, and as many more: the holder dies.
	contest = newContest(seed, n+1, term, delay, false)
	contest.until(1)
	contest.w.Run(term) // it renews
	died := contest.w.Now()
	contest.hosts[contest.holder].Crash()
	contest.until(2)
	c.TakeOver = (contest.starts[1] - died).Seconds()

	contest = newContest(seed, n, term, delay, true)
	contest.until(1)
	c.PlainFirst = contest.starts[0].Seconds()
	return c
}

// contest is a crowd at a register.
type contest struct {
	w        *sim.World
	hosts    []*sim.Process[disklease.LeaseInput, disklease.Outcome]
	holder   int
	hold     time.Duration // how long each holds; 0: until it is made to leave
	starts   []time.Duration
	left     time.Duration
	gaps     []time.Duration // from a release to the next
	accesses int
}

func newContest(seed uint64, n int, term, delay time.Duration, plain bool) *contest {
	c := &contest{w: sim.NewWorld(seed)}
	reg := &register{w: c.w, delta: delay * 9 / 10, wrote: func() {}}
	for i := range n {
		h := sim.NewProcess[disklease.LeaseInput, disklease.Outcome](c.w, nil, machine.NodeID(i+1), 0)
		h.Lag = 0
		cfg := disklease.Config{Term: term, Delay: delay, Plain: plain}
		for b := range cfg.ID {
			cfg.ID[b] = byte(c.w.Rand.Uint32())
		}
		h.Access = func(h *sim.Host, a machine.Access) {
			c.accesses++
			reg.access(h, cfg.ID, a)
		}
		h.Outcome = func(out disklease.Outcome) {
			if _, ok := out.(disklease.Acquired); !ok {
				return
			}
			c.holder = i
			c.starts = append(c.starts, c.w.Now())
			if c.left > 0 {
				c.gaps = append(c.gaps, c.w.Now()-c.left)
			}
			if c.hold > 0 {
				c.w.After(c.hold, func() { c.leave(i) })
			}
		}
		lease, err := disklease.New(cfg)
		if err != nil {
			panic(err)
		}
		c.hosts = append(c.hosts, h)
		c.w.After(c.w.Between(0, delay), func() {
			h.Start(lease)
			h.Step(disklease.Acquire{})
		})
	}
	return c
}

func (c *contest) leave(i int) {
	c.left = c.w.Now()
	c.hosts[i].Step(disklease.Leave{})
}

// until lets time pass until there were n tenures.
func (c *contest) until(n int) {
	if !c.w.Until(time.Hour, func() bool { return len(c.starts) >= n }) {
		panic("nobody gets the lease in an hour")
	}
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)/2]
}
