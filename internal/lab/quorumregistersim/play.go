package quorumregistersim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register/registertest"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// Protocol is package quorumregister in worlds of its own.
func Protocol() sim.Protocol {
	return sim.Protocol{
		Name:  "quorumregister",
		About: "a register over one to five bases of which a minority fails; atomicity, Definition 1, tokens, notes, wait-freedom",
		Play:  playWorld,
	}
}

// patience is how long an operation may last while a majority answers. A base that
// hangs does so for longer.
const patience = 25 * time.Second

// play is the set of a world's parts.
type play struct {
	w        *sim.World
	bases    *bases
	clients  []*client
	atomic   bool
	restores bool // bases go back
	outages  bool // more than a minority may hang

	history []registertest.Operation
	notes   []note
	sights  []sight
	errs    []error
}

// note is a note that was set: the writer's number k.
type note struct {
	registertest.Operation
	writer machine.ID
	k      uint64
}

// sight is the notes that a read showed.
type sight struct {
	registertest.Operation
	notes []machine.Noted
}

func newPlay(w *sim.World, n int) *play { return &play{w: w, bases: newBases(w, n)} }

// add brings a client on.
func (p *play) add(think time.Duration) *client {
	c := &client{p: p, w: p.w, number: len(p.clients) + 1, think: think}
	c.host = sim.NewProcess[machine.Access, quorumregister.Outcome](p.w, nil, machine.NodeID(c.number), 1e-3)
	c.host.Lane = fmt.Sprintf("client %d", c.number)
	c.host.Outcome = c.outcome
	c.host.Access = c.access
	p.clients = append(p.clients, c)
	return c
}

func (p *play) violated(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	p.errs = append(p.errs, err)
	p.w.Mark(sim.Violation, "", "%v", err)
}

// playWorld lets clients use a register of bases that fail, twice, heals what can be
// healed, and judges.
func playWorld(w *sim.World) error {
	p := newPlay(w, [...]int{3, 1, 5, 3, 2, 4}[w.Seed%6])
	p.atomic = w.Chance(0.5)
	p.restores = w.Chance(0.2)
	p.outages = !p.restores && w.Chance(0.2)
	clients := 2 + w.Rand.IntN(4)
	if p.restores {
		clients = 1
	}
	for range clients {
		p.add(w.Between(50*time.Millisecond, 3*time.Second)).begin()
	}
	for range 2 {
		p.chaos(w.Between(20*time.Second, 60*time.Second))
		p.settle()
	}
	return errors.Join(append(p.errs, p.judge())...)
}

// chaos lets d pass, with faults of the kinds that this world draws.
func (p *play) chaos(d time.Duration) {
	w, b := p.w, p.bases
	b.before, b.after, b.stuck, b.stall = w.Swarm(0.2), w.Swarm(0.2), w.Swarm(0.2), w.Swarm(0.3)
	var kinds []func()
	for _, kind := range []func(){p.hang, p.hang, p.kill, p.restore, p.save, p.crash, p.pause} {
		if w.Chance(0.5) {
			kinds = append(kinds, kind)
		}
	}
	every := w.Between(time.Second, 8*time.Second)
	for end := w.Now() + d; w.Now() < end && len(p.errs) == 0; {
		if len(kinds) > 0 {
			kinds[w.Rand.IntN(len(kinds))]()
		}
		w.Run(w.Between(0, 2*every))
	}
}

func (p *play) some() *base { return p.bases.list[p.w.Rand.IntN(len(p.bases.list))] }

// mayFail reports whether one more base may fail to answer.
func (p *play) mayFail() bool {
	return p.outages || p.bases.amiss() < (len(p.bases.list)-1)/2
}

func (p *play) hang() {
	if b := p.some(); !b.hangs && p.mayFail() {
		p.w.Note("a base hangs")
		b.hangs = true
		p.w.After(p.w.Between(patience, 2*patience), b.heal)
	}
}

// kill ends a base for good, and with it the minority that may.
func (p *play) kill() {
	if b := p.some(); !p.outages && p.mayFail() {
		p.w.Note("a base dies")
		b.dead, b.hangs = true, false
	}
}

func (p *play) save() { p.some().save() }

func (p *play) restore() {
	if p.restores {
		p.w.Note("a base goes back")
		p.some().restore()
	}
}

func (p *play) crash() {
	if !p.restores {
		p.clients[p.w.Rand.IntN(len(p.clients))].crash()
	}
}

func (p *play) pause() { p.clients[p.w.Rand.IntN(len(p.clients))].pause() }

// settle ends all faults but death. Whatever lasts has to end then.
func (p *play) settle() {
	w, b := p.w, p.bases
	b.before, b.after, b.stuck, b.stall = 0, 0, 0, 0
	for _, base := range b.list {
		base.heal()
	}
	began := w.Now()
	w.Run(patience)
	for _, c := range p.clients {
		if c.op != nil && c.asked < began {
			p.violated("%s: %s does not end, though nothing fails any more", c.host.Lane, c.name())
		}
	}
}

// judge looks at all that happened.
func (p *play) judge() error {
	check := registertest.Regular
	if p.atomic || len(p.bases.list) == 1 {
		check = registertest.Atomic
	}
	return errors.Join(check(p.history), registertest.Versions(p.history), p.judgeNotes())
}

// judgeNotes wants every read to show, of each writer, the last note that was complete
// when the read began, or a later one that had begun before the read ended.
func (p *play) judgeNotes() error {
	for _, s := range p.sights {
		shown := map[machine.ID]uint64{}
		for _, n := range s.notes {
			shown[n.Writer] = binary.BigEndian.Uint64(n.Data)
		}
		for _, n := range p.notes {
			switch k := shown[n.writer]; {
			case n.End < s.Begin && k < n.k:
				return fmt.Errorf("%v shows note %d of client %d, which had set note %d before", s, k, n.Client, n.k)
			case n.Begin > s.End && k >= n.k:
				return fmt.Errorf("%v shows note %d of client %d, which sets it only later", s, k, n.Client)
			}
		}
	}
	return nil
}
