package diskleasesim

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// theater is a stage on which a script says when each access takes effect and when
// it is answered.
type theater struct {
	*stage
	t   *testing.T
	reg *register
}

// actor is a process whose accesses wait for the script.
type actor struct {
	*process
	th       *theater
	pending  []machine.Access
	id       machine.ID
	outcomes []string
	refused  disklease.Refused
}

func newTheater(t *testing.T) *theater {
	w := sim.NewWorld(1)
	return &theater{t: t, stage: &stage{w: w, j: &judge{w: w, steady: 1 << 62}}, reg: &register{w: w, delta: delta}}
}

// enter brings a process on, that contends at once unless first says otherwise. Of two
// writes under one Seq that of the later actor is the greater.
func (th *theater) enter(cfg disklease.Config, first disklease.LeaseInput) *actor {
	h := sim.NewProcess[disklease.LeaseInput, disklease.Outcome](th.w, nil, machine.NodeID(len(th.processes)+1), 0)
	h.Lane = fmt.Sprintf("process %d", h.ID)
	h.Lag = 0
	return th.claim(h, cfg, first)
}

// again is another try on the same host, which has the sights of the one before.
func (a *actor) again() *actor {
	return a.th.claim(a.host, disklease.Config{Witness: a.refused.Witness}, disklease.TryAcquire{})
}

func (th *theater) claim(h *sim.Process[disklease.LeaseInput, disklease.Outcome], cfg disklease.Config, first disklease.LeaseInput) *actor {
	a := &actor{th: th, process: &process{w: th.w, j: th.j, host: h, tokens: true}}
	th.processes = append(th.processes, a.process)
	if cfg.Slots == 0 {
		cfg.Slots = 1
	}
	cfg.Term, cfg.Delay = max(cfg.Term, term), delta
	binary.BigEndian.PutUint64(cfg.ID[:], uint64(len(th.processes)))
	cfg.Holder = cmp.Or(cfg.Holder, a.host.Lane)
	a.id, a.config = cfg.ID, cfg
	lease, err := disklease.New(cfg)
	if err != nil {
		th.t.Fatal(err)
	}
	a.lease = lease
	a.host.Access = func(_ *sim.Host, x machine.Access) { a.pending = append(a.pending, x) }
	a.host.Outcome = func(out disklease.Outcome) {
		a.outcomes = append(a.outcomes, strings.TrimPrefix(fmt.Sprintf("%T", out), "disklease."))
		switch out := out.(type) {
		case disklease.Acquired:
			th.j.onStart(a.process, cfg.Slots, out.Token, out.Deadline)
		case disklease.Renewed:
			th.j.onRenewal(a.process, out.Deadline)
		case disklease.Lost:
			th.j.onEnd(a.process)
		case disklease.Refused:
			a.refused = out
		}
	}
	a.host.Start(lease)
	a.host.Step(first)
	th.pass(0)
	return a
}

func (th *theater) contend() *actor { return th.enter(disklease.Config{}, disklease.Acquire{}) }

// pass lets time pass, in which accesses do not move.
func (th *theater) pass(d time.Duration) { th.w.Run(d) }

// leave ends the process's tenure, or its wait.
func (a *actor) leave() {
	a.j.onEnd(a.process)
	a.host.Step(disklease.Leave{})
	a.th.pass(0)
}

// takes removes the access that is under way, which must be of this kind.
func (a *actor) takes(kind string) machine.Access {
	a.th.t.Helper()
	if len(a.pending) != 1 || !strings.HasSuffix(fmt.Sprintf("%T", a.pending[0].Op), kind) {
		a.th.t.Fatalf("%v at %v: accesses under way %+v, want a %s; outcomes %v", a.process, a.th.w.Now(), a.pending, kind, a.outcomes)
	}
	x := a.pending[0]
	a.pending = nil
	return x
}

// perform has the access that is under way take effect and be answered, at once.
func (a *actor) perform(kind string) {
	a.th.t.Helper()
	effect, answer := a.stuck(kind)
	effect()
	answer()
}

// stuck leaves it to the script when the access takes effect and when it is answered.
func (a *actor) stuck(kind string) (effect, answer func()) {
	a.th.t.Helper()
	x := a.takes(kind)
	var reply any
	effect = func() {
		switch op := x.Op.(type) {
		case machine.Read:
			reply = a.th.reg.show(a.th.reg.value)
		case machine.Write:
			v := machine.Value{Version: machine.Version{Seq: op.Seq, Writer: a.id}, Data: op.Data}
			if op.Seq == 0 {
				v.Version.Seq = a.th.reg.value.Version.Seq + 1
			}
			a.th.reg.put(v)
			reply = v.Version
		case machine.Note:
			a.th.reg.note(a.id, op.Data)
		}
	}
	answer = func() {
		a.host.Accessed(machine.Accessed{ID: x.ID, Reply: reply})
		a.th.pass(0)
	}
	return effect, answer
}

// fail has the access that is under way fail. It may take effect all the same, later.
func (a *actor) fail(kind string) (effect func()) {
	a.th.t.Helper()
	x := a.takes(kind)
	a.pending = []machine.Access{x}
	effect, _ = a.stuck(kind)
	a.host.Accessed(machine.Accessed{ID: x.ID, Err: errStore})
	a.th.pass(0)
	return effect
}

// slowly takes the free lease with all the time that its record allows.
func (a *actor) slowly(settle time.Duration) {
	a.th.t.Helper()
	a.perform("Read")
	a.perform("Write")
	a.th.pass(settle + time.Microsecond)
	a.perform("Read")
	if !a.holds() {
		a.th.t.Fatalf("%v does not hold: %v", a.process, a.outcomes)
	}
}

// win takes the free lease without trouble.
func (a *actor) win() {
	a.th.t.Helper()
	a.perform("Read")
	a.perform("Write")
	a.settle()
	a.perform("Read")
	if !a.holds() {
		a.th.t.Fatalf("%v does not hold: %v", a.process, a.outcomes)
	}
	if a.config.Slots > 1 {
		a.perform("Note")
		a.perform("Read")
	}
}

// renew renews the lease of a holder that idles.
func (a *actor) renew() {
	a.th.t.Helper()
	for range 100 {
		if len(a.pending) > 0 {
			break
		}
		a.th.pass(delta / 10)
	}
	a.perform("Read")
	a.perform("Write")
	a.settle()
	a.perform("Read")
}

func (a *actor) settle() { a.th.pass(2*delta + time.Microsecond) }

// idle lets the process look as often as it wants to for d, and say that it waits.
func (a *actor) idle(d time.Duration) {
	for end := a.th.w.Now() + d; a.th.w.Now() < end; a.th.pass(time.Millisecond) {
		for len(a.pending) == 1 {
			switch a.pending[0].Op.(type) {
			case machine.Read:
				a.perform("Read")
			case machine.Note:
				a.perform("Note")
			default:
				return
			}
		}
	}
}

func (a *actor) holds() bool {
	a.j.expire()
	return a.hold != nil
}

// writes reports whether it has a write under way.
func (a *actor) writes() bool {
	for _, x := range a.pending {
		if _, ok := x.Op.(machine.Write); ok {
			return true
		}
	}
	return false
}

// notes reports whether it has a note under way.
func (a *actor) notes() bool {
	for _, x := range a.pending {
		if _, ok := x.Op.(machine.Note); ok {
			return true
		}
	}
	return false
}

// want fails unless the holders are as given.
func (th *theater) want(what string, a *actor, holds bool) {
	th.t.Helper()
	if a.holds() != holds {
		th.t.Errorf("%s: %v holds: %v, want %v; outcomes %v", what, a.process, !holds, holds, a.outcomes)
	}
}
