package fleasesim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// PaperProtocol plays the paper's three procedures in the paper's own model: Algorithm 1 among
// processes that may stop for good, with messages that are lost and late, neither altered nor
// repeated. Clocks agree for Algorithms 2 and 3 and differ by up to ε for Algorithm 4. Nothing
// recovers: section 3.5 on recovery does not hold (E2, E3).
func PaperProtocol() sim.Protocol {
	return sim.Protocol{
		Name:  "flease-paper",
		About: "Algorithms 1 to 4 of the paper to the letter, in its model without recovery: L1, L2, one owner at a time",
		Play:  func(w *sim.World) error { return playPaper(w).fault },
	}
}

// paperPlay is a world of the paper.
type paperPlay struct {
	w         *sim.World
	form      flease.Form
	tmax, eps flease.Time
	order     flease.Order
	loss      float64
	slowest   time.Duration
	processes []*paperProcess
	decided   []decision
	fault     error
}

type paperProcess struct {
	play   *paperPlay
	number int
	reg    flease.Register
	offset flease.Time
	stops  bool
	lease  flease.Lambda // that it owns
}

type decision struct {
	k flease.Rank
	v flease.Lambda
}

func playPaper(w *sim.World) *paperPlay {
	p := &paperPlay{w: w, tmax: flease.Time(500 + w.Rand.IntN(1000)), order: flease.Strict, loss: w.Swarm(0.3)}
	p.form = flease.Form(w.Rand.IntN(3))
	if p.form == flease.Loose {
		p.eps = 1 + flease.Time(w.Rand.IntN(int(p.tmax/4)))
	}
	p.slowest = w.Between(time.Millisecond, 2*p.tmaxOf())
	n := []int{1, 3, 3, 5, 4}[w.Rand.IntN(5)]
	for i := range n {
		q := &paperProcess{play: p, number: i + 1, reg: flease.Register{Order: p.order}}
		if p.eps > 0 {
			q.offset = flease.Time(w.Rand.IntN(int(p.eps) + 1))
		}
		p.processes = append(p.processes, q)
		w.After(w.Between(0, p.tmaxOf()), q.call)
	}
	for i := range (n - 1) / 2 {
		if q := p.processes[i]; w.Chance(0.3) {
			w.After(w.Between(0, 30*p.tmaxOf()), func() { q.stops = true })
		}
	}
	w.Run(40 * p.tmaxOf())
	return p
}

func (p *paperPlay) tmaxOf() time.Duration { return time.Duration(p.tmax) * time.Millisecond }

func (p *paperPlay) fail(format string, args ...any) {
	if p.fault == nil {
		p.fault = fmt.Errorf(format, args...)
		p.w.Note("VIOLATION %v", p.fault)
		p.w.Mark(sim.Violation, "", "%v", p.fault)
	}
}

// clock is the process's.
func (q *paperProcess) clock() flease.Time {
	return flease.Time(q.play.w.Now()/time.Millisecond) + q.offset
}

// call calls GetLease, and does so again after a while.
func (q *paperProcess) call() {
	p := q.play
	if q.stops {
		return
	}
	g := flease.NewGetLease(p.form, q.number, len(p.processes), flease.Rank{Time: q.clock(), Proc: q.number}, p.tmax, p.eps)
	for _, to := range p.processes {
		p.transmit(func() {
			if to.stops {
				return
			}
			ack, at, v := to.reg.Read(g.K)
			p.transmit(func() {
				if q.stops {
					return
				}
				_, before := g.Writes()
				if ack {
					g.AckRead(p.order, at, v, q.clock)
				} else {
					g.NackRead()
				}
				if v, ok := g.Writes(); ok && !before {
					q.write(g, v)
				}
			})
		})
	}
	p.w.After(time.Millisecond+p.w.Between(0, p.tmaxOf()), q.call)
}

func (q *paperProcess) write(g *flease.GetLease, v *flease.Lambda) {
	p := q.play
	for _, to := range p.processes {
		p.transmit(func() {
			if to.stops {
				return
			}
			ack := to.reg.Write(g.K, v)
			p.transmit(func() {
				before, _ := g.Result()
				if q.stops || before != flease.Pending {
					return
				}
				if ack {
					g.AckWrite()
				} else {
					g.NackWrite()
				}
				if out, l := g.Result(); out == flease.Committed {
					q.onDecision(decision{g.K, l})
				}
			})
		})
	}
}

// transmit carries a message, or loses it.
func (p *paperPlay) transmit(arrive func()) {
	if !p.w.Chance(p.loss) {
		p.w.After(p.w.Between(0, p.slowest), arrive)
	}
}

// onDecision checks L1 and L2, and that one owner at a time believes.
func (q *paperProcess) onDecision(d decision) {
	p := q.play
	p.w.Count(fmt.Sprintf("decided by %v", p.form), 1)
	p.w.Note("%d decides %+v under %+v", q.number, d.v, d.k)
	now := q.clock()
	for _, o := range p.decided {
		if p.order(o.k, d.k) < 0 && o.v.Until > now && (o.v.Proc != d.v.Proc || d.v.Until < o.v.Until) {
			p.fail("L2: %d decides %+v at %d, and %+v was decided before", q.number, d.v, now, o.v)
		}
	}
	p.decided = append(p.decided, d)
	if len(p.decided) > 200 {
		p.decided = p.decided[100:]
	}
	if d.v.Proc != q.number || d.v.Until <= now {
		return
	}
	if q.lease = d.v; p.fault == nil {
		m := p.w.Mark(sim.Holds, fmt.Sprintf("process %d", q.number), "until %d", d.v.Until).Of("lease")
		m.Until(p.w.Now() + time.Duration(d.v.Until-now)*time.Millisecond)
	}
	for _, o := range p.processes {
		if o != q && o.clock() < o.lease.Until {
			p.fail("%d and %d own a lease at once", q.number, o.number)
		}
	}
}
