package disklease

import (
	"errors"
	"slices"

	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
)

// model is a small world of processes that use one ranked register, served by n
// bases or by notes. It can be copied, so that all its courses can be played.
type model struct {
	actors  []actor
	bases   []Ranked // of RankedOverBases
	dead    int      // so many bases hang, the last ones
	now     machine.Mono
	ranks   uint64  // attempts with a greater counter are not begun
	reg     regular // of RankedOverNotes
	flying  []flight
	history history // of callers
}

// actor is a process: a machine that uses the ranked register, and the machine that serves
// it.
type actor struct {
	m       Proposer // rankedBases or rankedNotes
	alarm   machine.Mono
	decided []string
	done    int // replies of a caller that are in the history
}

// flight is an access under way.
type flight struct {
	actor  int
	access machine.Access
	done   bool // performed, with
	reply  any  // which is not delivered yet
	began  []int
	note   int  // which of its writer's notes this is
	final  bool // the register's data was written before a read began
}

// regular is a register that shows as little as it may: a read returns for each
// writer a note whose writing was complete when the read began or any later one.
type regular struct {
	writers  []machine.ID
	notes    [][]string // of each writer, all that were begun
	complete []int      // which of them is the latest that is complete, counted from 1
	data     []string   // all that were begun to be written
	final    bool       // one of those is complete
}

// caller is a machine that invokes one operation after the other.
type caller struct {
	script  []any
	asked   int
	replies []any
	out     []machine.Access
}

// invoke has a caller begin its next operation.
type invoke struct{}

func (invoke) input()          {}
func (invoke) consensusInput() {}

var (
	errCrossed = errors.New("a reply for another operation")
	errFailed  = errors.New("the access failed")
)

func (c *caller) Step(machine.Now, ConsensusInput) {
	c.out = []machine.Access{{ID: uint64(c.asked + 1), Op: c.script[c.asked]}}
	c.asked++
}

func (c *caller) Wake(machine.Now) {}

func (c *caller) Accessed(_ machine.Now, in machine.Accessed) {
	switch {
	case in.ID != uint64(c.asked) || len(c.replies) == c.asked:
		panic(errCrossed)
	case in.Err != nil: // again
		c.out = []machine.Access{{ID: in.ID, Op: c.script[c.asked-1]}}
	default:
		c.replies = append(slices.Clip(c.replies), in.Reply)
	}
}

func (c *caller) Ready() machine.Ready[Outcome] {
	rd := machine.Ready[Outcome]{Accesses: c.out, Alarm: machine.Never}
	c.out = nil
	return rd
}

func copyOf(m Proposer) Proposer {
	switch m := m.(type) {
	case *rankedBases:
		c := *m
		c.bases, c.inner = slices.Clone(m.bases), copyOf(m.inner)
		return &c
	case *rankedNotes:
		c := *m
		c.inner = copyOf(m.inner)
		return &c
	case *Consensus:
		c := *m
		return &c
	case *caller:
		c := *m
		return &c
	}
	panic("a machine that cannot be copied")
}

func (m *model) clone() *model {
	c := *m
	c.actors = slices.Clone(m.actors)
	for i := range c.actors {
		c.actors[i].m = copyOf(c.actors[i].m)
	}
	c.bases = slices.Clone(m.bases)
	c.flying = slices.Clone(m.flying)
	c.history = slices.Clone(m.history)
	c.reg.notes = slices.Clone(m.reg.notes)
	c.reg.complete = slices.Clone(m.reg.complete)
	return &c
}

func inner(m Proposer) Proposer {
	switch m := m.(type) {
	case *rankedBases:
		return m.inner
	case *rankedNotes:
		return m.inner
	}
	return m
}

// newModel has an actor for each machine, over n bases, or over notes if n is 0.
func newModel(n int, machines ...Proposer) *model {
	m := &model{bases: make([]Ranked, n), ranks: 1 << 60}
	for i, inner := range machines {
		id := machine.ID{15: byte(i + 1)}
		served := RankedOverNotes(inner, id, 0)
		if n > 0 {
			served = RankedOverBases(inner, n, 1)
		}
		m.actors = append(m.actors, actor{m: served, alarm: machine.Never})
		m.reg.writers = append(m.reg.writers, id)
		m.reg.notes = append(m.reg.notes, nil)
		m.reg.complete = append(m.reg.complete, 0)
	}
	return m
}

// step gives an actor an input and takes what comes out.
func (m *model) step(i int, input any) {
	a := &m.actors[i]
	if c, ok := inner(a.m).(*caller); ok && input == (invoke{}) {
		m.history.invoke(c.script[c.asked])
	}
	stage.Feed(a.m, machine.Now{Mono: m.now}, input)
	rd := a.m.Ready()
	a.alarm = rd.Alarm
	for _, access := range rd.Accesses {
		m.begin(i, access)
	}
	for _, o := range rd.Outcomes {
		if d, ok := o.(Decided); ok {
			a.decided = append(slices.Clip(a.decided), string(d.Value))
		}
	}
	if c, ok := inner(a.m).(*caller); ok && len(c.replies) > a.done {
		a.done++
		own := 0
		for at := range m.history {
			if rankOf(m.history[at].op).ID == m.reg.writers[i] {
				own++
				if own == a.done {
					m.history.reply(at, c.replies[a.done-1])
				}
			}
		}
	}
}

func (m *model) begin(i int, access machine.Access) {
	f := flight{actor: i, access: access}
	switch op := access.Op.(type) {
	case machine.Note:
		m.reg.notes[i] = append(slices.Clip(m.reg.notes[i]), string(op.Data))
		f.note = len(m.reg.notes[i])
	case machine.Write:
		m.reg.data = append(slices.Clip(m.reg.data), string(op.Data))
	case machine.Read:
		f.began, f.final = slices.Clone(m.reg.complete), m.reg.final
	}
	m.flying = append(m.flying, f)
}

// move is something that can happen.
type move struct {
	kind   kind
	i      int // actor or flight
	choice []int
}

type kind string

const (
	start   kind = "invokes"
	wake    kind = "wakes"
	perform kind = "performs"
	deliver kind = "delivers"
	fail    kind = "fails"
)

// moves lists what can happen. Access to a base takes two moves: it is performed, and its
// reply arrives. Access to a register takes one, its end; its begin was when the actor
// asked. Each result that a read may have is a move.
func (m *model) moves() (list []move) {
	for i, a := range m.actors {
		if c, ok := inner(a.m).(*caller); ok && len(c.replies) == c.asked && c.asked < len(c.script) {
			list = append(list, move{kind: start, i: i})
		}
		if a.alarm != machine.Never && !m.spent(i) {
			list = append(list, move{kind: wake, i: i})
		}
	}
	for i, f := range m.flying {
		switch {
		case f.done:
			list = append(list, move{kind: deliver, i: i})
		case len(m.bases) > 0 && f.access.At >= len(m.bases)-m.dead || m.spent(f.actor):
		case f.began == nil:
			list = append(list, move{kind: perform, i: i})
		default:
			list = append(list, m.reads(i)...)
		}
	}
	return list
}

// spent reports whether what an actor would do next is an attempt beyond m.ranks.
func (m *model) spent(i int) bool {
	c, ok := inner(m.actors[i].m).(*Consensus)
	return ok && c.until > 0 && (c.doing == pausing || c.doing == learning) && max(c.rank.Counter, c.seen.Counter) >= m.ranks
}

// reads lists all that a read may show: choice has, for each writer, how many of its
// notes are taken in, and last whether data is.
func (m *model) reads(i int) (list []move) {
	f := m.flying[i]
	choices := [][]int{nil}
	for w := range m.reg.writers {
		var more [][]int
		for _, c := range choices {
			for n := f.began[w]; n <= len(m.reg.notes[w]); n++ {
				more = append(more, append(slices.Clip(c), n))
			}
		}
		choices = more
	}
	for _, c := range choices {
		if !f.final {
			list = append(list, move{perform, i, append(slices.Clip(c), 0)})
		}
		if len(m.reg.data) > 0 {
			list = append(list, move{perform, i, append(slices.Clip(c), 1)})
		}
	}
	return list
}

func (m *model) apply(mv move) {
	if mv.kind == start {
		m.step(mv.i, invoke{})
		return
	}
	if mv.kind == wake {
		m.now = max(m.now, m.actors[mv.i].alarm)
		m.step(mv.i, stage.Wake{})
		return
	}
	f := &m.flying[mv.i]
	if mv.kind == fail {
		m.fail(mv.i)
		return
	}
	var reply any
	switch op := f.access.Op.(type) {
	case RRRead, RRWrite:
		if mv.kind == perform {
			f.done, f.reply = true, m.bases[f.access.At].Do(op)
			return
		}
		reply = f.reply
	case machine.Note:
		m.reg.complete[f.actor] = f.note
	case machine.Write:
		m.reg.final = true
		reply = machine.Version{Seq: 1}
	case machine.Read:
		reply = m.reg.show(mv.choice)
	}
	actor, id := f.actor, f.access.ID
	m.flying = slices.Delete(m.flying, mv.i, mv.i+1)
	m.step(actor, machine.Accessed{ID: id, Reply: reply})
}

// fail ends an access with an error. Whether it was performed is left open: if its
// reply was on its way, or it was a write to a register, it was or may be.
func (m *model) fail(i int) {
	f := m.flying[i]
	m.flying = slices.Delete(m.flying, i, i+1)
	m.step(f.actor, machine.Accessed{ID: f.access.ID, Err: errFailed})
}

func (r *regular) show(choice []int) machine.Value {
	var v machine.Value
	for w, id := range r.writers {
		if n := choice[w]; n > 0 {
			v.Notes = append(v.Notes, machine.Noted{Writer: id, Data: []byte(r.notes[w][n-1])})
		}
	}
	if choice[len(r.writers)] > 0 {
		v.Version, v.Data = machine.Version{Seq: 1}, []byte(r.data[0])
	}
	return v
}
