package quorumregistersim

import (
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/host/register/registertest"
	labstage "github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumregister"
)

// stage is bases and actors, which move only by the script.
type stage struct {
	t       *testing.T
	bases   []*base
	atomic  bool
	now     time.Duration
	actors  []*actor
	history []registertest.Operation
}

func newStage(t *testing.T, n int, atomic bool) *stage {
	s := &stage{t: t, atomic: atomic}
	for range n {
		s.bases = append(s.bases, &base{})
	}
	return s
}

// actor is a client. Its accesses wait for the script.
type actor struct {
	*stage
	name    string
	id      machine.ID
	m       machine.Storing[machine.Access, quorumregister.Outcome]
	alarm   machine.Mono
	asked   []machine.Access // no more than one for each base
	late    []machine.Access // took effect, and are not answered
	answers []any
	stuck   []machine.Access // answered with an error, and did not take effect yet
	op      *registertest.Operation
	last    machine.Accessed
	ended   int
	stale   []int
}

// enter brings a client on. Of two the later has the greater identity.
func (s *stage) enter(name string) *actor {
	a := &actor{stage: s, name: name, id: machine.ID{byte(len(s.actors) + 1)}}
	a.m = quorumregister.Client(quorumregister.Config{Writer: a.id, Bases: len(s.bases), Atomic: s.atomic, Quiet: quiet, Retry: retry})
	s.actors = append(s.actors, a)
	a.step(labstage.Wake{})
	return a
}

// step steps a client, a millisecond after whatever was before.
func (a *actor) step(input any) {
	a.now += time.Millisecond
	labstage.Feed(a.m, machine.Now{Mono: machine.Mono(a.now)}, input)
	rd := a.m.Ready()
	a.alarm = rd.Alarm
	for _, x := range rd.Accesses {
		for _, busy := range slices.Concat(a.asked, a.late) {
			if busy.At == x.At {
				a.t.Fatalf("%s asks base %d, which has not answered the last time", a.name, x.At)
			}
		}
		a.asked = append(a.asked, x)
	}
	for _, out := range rd.Outcomes {
		switch event := out.Event.(type) {
		case nil:
			a.end(out.Accessed)
		case quorumregister.Stale:
			a.stale = append(a.stale, event.Base)
		}
	}
}

func (a *actor) end(end machine.Accessed) {
	a.ended++
	a.last = end
	o := *a.op
	a.op = nil
	o.End = int64(a.now)
	if end.Err != nil {
		o.End = registertest.Unended
	}
	switch r := end.Reply.(type) {
	case machine.Version:
		o.Version = r
	case machine.Value:
		o.Data, o.Version = string(r.Data), r.Version
	}
	if o.Data != "" || !o.Write { // notes are no part of it
		a.history = append(a.history, o)
	}
}

func (a *actor) ask(op any, write bool, data string) {
	a.ended = 0
	a.op = &registertest.Operation{Client: int(a.id[0]), Write: write, Data: data, Begin: int64(a.now) + 1}
	a.step(machine.Access{ID: 1, Op: op})
}

func (a *actor) read()                { a.ask(machine.Read{}, false, "") }
func (a *actor) write(data string)    { a.ask(machine.Write{Data: []byte(data)}, true, data) }
func (a *actor) setNote(data string)  { a.ask(machine.Note{Data: []byte(data)}, true, "") }
func (a *actor) wait(d time.Duration) { a.now += d; a.wake() }
func (a *actor) wake() {
	for a.alarm <= machine.Mono(a.now) {
		a.step(labstage.Wake{})
	}
}
func (a *actor) saw() (v machine.Value) { v, _ = a.last.Reply.(machine.Value); return v }

// take removes the requests to a base.
func (a *actor) take(list *[]machine.Access, b int) machine.Access {
	a.t.Helper()
	i := slices.IndexFunc(*list, func(x machine.Access) bool { return x.At == b })
	if i < 0 {
		a.t.Fatalf("%s asks nothing of base %d that the script could use", a.name, b)
	}
	x := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return x
}

// served lets bases do their requests, and answer, in this order.
func (a *actor) served(bases ...int) {
	a.t.Helper()
	for _, b := range bases {
		x := a.take(&a.asked, b)
		a.step(machine.Accessed{ID: x.ID, Reply: a.bases[b].do(x.Op)})
	}
}

// rounds is served as often as the operation needs.
func (a *actor) rounds(bases ...int) {
	a.t.Helper()
	for range 3 {
		for _, b := range bases {
			if a.op != nil && slices.ContainsFunc(a.asked, func(x machine.Access) bool { return x.At == b }) {
				a.served(b)
			}
		}
	}
	a.done()
}

// unanswered lets a base do a request, and its answer be late: see answered.
func (a *actor) unanswered(b int) {
	a.t.Helper()
	x := a.take(&a.asked, b)
	a.late, a.answers = append(a.late, x), append(a.answers, a.bases[b].do(x.Op))
}

func (a *actor) answered(b int) {
	a.t.Helper()
	i := slices.IndexFunc(a.late, func(x machine.Access) bool { return x.At == b })
	reply := a.answers[i]
	a.answers = slices.Delete(a.answers, i, i+1)
	a.step(machine.Accessed{ID: a.take(&a.late, b).ID, Reply: reply})
}

// fail lets a request to a base fail without effect.
func (a *actor) fail(bases ...int) {
	a.t.Helper()
	for _, b := range bases {
		a.step(machine.Accessed{ID: a.take(&a.asked, b).ID, Err: errInjected})
	}
}

// stick is fails, but the request takes effect when it lands.
func (a *actor) stick(bases ...int) {
	a.t.Helper()
	for _, b := range bases {
		x := a.take(&a.asked, b)
		a.stuck = append(a.stuck, x)
		a.step(machine.Accessed{ID: x.ID, Err: errInjected})
	}
}

func (a *actor) land(b int) {
	a.t.Helper()
	a.bases[b].do(a.take(&a.stuck, b).Op)
}

// done wants the operation to have ended well.
func (a *actor) done() {
	a.t.Helper()
	if a.ended != 1 || a.last.Err != nil {
		a.t.Fatalf("%s: the operation has ended %d times, with %v; want once, well", a.name, a.ended, a.last.Err)
	}
}

// wantUnanswered wants the operation to last.
func (a *actor) wantUnanswered() {
	a.t.Helper()
	if a.ended > 0 {
		a.t.Fatalf("%s: the operation has ended with %v, %v; want it to wait", a.name, a.last.Reply, a.last.Err)
	}
}

// wantRead wants the last operation to have read data.
func (a *actor) wantRead(want string) {
	a.t.Helper()
	a.done()
	if got := string(a.saw().Data); got != want {
		a.t.Errorf("%s reads %q, want %q", a.name, got, want)
	}
}

// judge looks at the history as the worlds do.
func (s *stage) judge() {
	s.t.Helper()
	for _, a := range s.actors {
		if a.op != nil && a.op.Data != "" {
			a.op.End = registertest.Unended
			s.history = append(s.history, *a.op)
		}
	}
	check := registertest.Regular
	if s.atomic {
		check = registertest.Atomic
	}
	for _, err := range []error{check(s.history), registertest.Versions(s.history)} {
		if err != nil {
			s.t.Error(err)
		}
	}
}
