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

const (
	quiet = 4 * time.Second
	retry = 300 * time.Millisecond
)

var errGone = errors.New("the client is gone")

// client uses the register, one operation after the other, in one life after the other.
type client struct {
	p      *play
	w      *sim.World
	host   *sim.Process[machine.Access, quorumregister.Outcome]
	number int
	lives  int
	writes int           // of all lives
	think  time.Duration // at most, from one operation to the next

	// Of this life.
	me    machine.ID
	asks  []uint64 // the access that each base has not answered yet, 0 if none
	notes uint64

	// Of the operation that lasts.
	op     any // nil if there is none
	id     uint64
	data   string
	goesOn bool          // it goes on from the read before
	since  time.Duration // when it began, or the read from which it goes on
	asked  time.Duration
	exempt bool // it need not end in time
	mark   *sim.Mark
}

// begin gives the client a new life, with a new identity and no memory.
func (c *client) begin() {
	c.lives++
	binary.BigEndian.PutUint64(c.me[:], c.w.Rand.Uint64())
	c.me[14], c.me[15] = byte(c.number), byte(c.lives)
	c.asks, c.notes, c.goesOn = make([]uint64, len(c.p.bases.list)), 0, false
	m := quorumregister.Client(quorumregister.Config{
		Writer: c.me, Bases: len(c.p.bases.list), Atomic: c.p.atomic, Quiet: quiet, Retry: retry,
	})
	c.host.Start(listening{m, c})
	c.later()
}

// listening is a client's machine that watches which bases answer.
type listening struct {
	machine.Storing[machine.Access, quorumregister.Outcome]
	c *client
}

func (l listening) Accessed(now machine.Now, a machine.Accessed) {
	for i, id := range l.c.asks {
		if id == a.ID {
			l.c.asks[i] = 0
		}
	}
	l.Storing.Accessed(now, a)
}

func (c *client) access(h *sim.Host, a machine.Access) {
	if c.asks[a.At] != 0 {
		c.p.violated("%s asks base %d, which has not answered the last time", h.Lane, a.At)
	}
	c.asks[a.At] = a.ID
	c.p.bases.access(h, a)
}

func (c *client) later() { c.host.After(c.w.Between(0, c.think), c.act) }

// act asks for an operation.
func (c *client) act() {
	x := c.w.Rand.Float64()
	switch {
	case c.host.Paused():
		c.later()
	case x < 0.5:
		c.ask(machine.Read{})
	case x < 0.85:
		c.write(0)
	default:
		c.notes++
		c.ask(machine.Note{Data: binary.BigEndian.AppendUint64(nil, c.notes)})
	}
}

func (c *client) write(seq uint64) {
	c.writes++
	c.data = fmt.Sprintf("%d.%d", c.number, c.writes)
	c.ask(machine.Write{Data: []byte(c.data), Seq: seq})
}

func (c *client) ask(op any) {
	c.op, c.asked, c.exempt = op, c.w.Now(), false
	if !c.goesOn {
		c.since = c.asked
	}
	kind := sim.Writes
	if _, read := op.(machine.Read); read {
		kind = sim.Reads
	}
	c.mark = c.w.Begin(kind, c.host.Lane, "%s", c.name())
	c.id++
	c.host.Step(machine.Access{ID: c.id, Op: op})
}

func (c *client) name() string {
	switch c.op.(type) {
	case machine.Read:
		return "read"
	case machine.Note:
		return fmt.Sprintf("note %d", c.notes)
	}
	return "write " + c.data
}

// outcome takes the machine's reports.
func (c *client) outcome(out quorumregister.Outcome) {
	switch event := out.Event.(type) {
	case nil:
		if c.op == nil || out.ID != c.id {
			c.p.violated("%s: operation %d ends, and is none that lasts", c.host.Lane, out.ID)
			return
		}
		c.end(out.Accessed)
		if v, ok := out.Reply.(machine.Value); ok && c.w.Chance(0.3) {
			c.goesOn = true
			c.write(v.Next)
			return
		}
		c.goesOn = false
		c.later()
	case quorumregister.Stale:
		c.w.Note("%s: base %d is stale", c.host.Lane, event.Base)
		c.w.Count("stale bases noticed", 1)
		if !c.p.restores {
			c.p.violated("%s says that base %d went back, and it did not", c.host.Lane, event.Base)
		}
	}
}

// end records the end of the operation.
func (c *client) end(a machine.Accessed) {
	c.w.Note("%s: %s ends with %v, %v", c.host.Lane, c.name(), a.Reply, a.Err)
	c.mark.End()
	c.late()
	o := registertest.Operation{Client: c.number, Begin: int64(c.since), End: int64(c.w.Now())}
	c.w.Count("operations", 1)
	if a.Err != nil {
		c.w.Count("failures", 1)
		c.mark.Note(": %v", a.Err)
		o.End = registertest.Unended
	}
	switch c.op.(type) {
	case machine.Read:
		v, _ := a.Reply.(machine.Value)
		o.Data, o.Version = string(v.Data), v.Version
		c.mark.Note(" %q", v.Data)
		c.p.history = append(c.p.history, o)
		if a.Err == nil {
			c.p.sights = append(c.p.sights, sight{o, v.Notes})
		}
	case machine.Write:
		o.Write, o.Data = true, c.data
		o.Version, _ = a.Reply.(machine.Version)
		c.p.history = append(c.p.history, o)
	case machine.Note:
		c.p.notes = append(c.p.notes, note{o, c.me, c.notes})
	}
	c.op = nil
}

// late complains if the operation lasts for too long. A base that went back answers
// nothing for a while, as it were.
func (c *client) late() {
	exempt := c.exempt || c.p.outages || c.p.restores
	if lasts := c.w.Now() - c.asked; !exempt && lasts > patience {
		c.p.violated("%s: %s lasts %v, though a majority of the bases answers", c.host.Lane, c.name(), lasts)
	}
}

// crash ends the client's life, for a while. Its operations may yet take effect.
func (c *client) crash() {
	if !c.host.Up() {
		return
	}
	c.host.Crash()
	if c.op != nil {
		c.exempt = true
		c.end(machine.Accessed{Err: errGone})
	}
	c.host.After(c.w.Between(0, 5*time.Second), c.begin)
}

// pause stops the client for a while.
func (c *client) pause() {
	if !c.host.Up() || c.host.Paused() {
		return
	}
	c.exempt = true
	c.host.Pause()
	c.host.After(c.w.Between(0, 5*time.Second), c.host.Resume)
}
