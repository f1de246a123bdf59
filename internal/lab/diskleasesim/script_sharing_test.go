package diskleasesim

import (
	"slices"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// A reader's stuck write comes in over a writer that holds. No other may join the reader, nor
// the reader itself, before it has confirmed that it holds, which it never will.
func hiddenWriter(th *theater) {
	writer := th.contend()
	reader := th.enter(disklease.Config{Slots: disklease.Shared}, disklease.Acquire{})
	reader.perform("Read")
	effect, answer := reader.stuck("Write")
	writer.win()
	effect()
	answer()
	other := th.enter(disklease.Config{Slots: disklease.Shared}, disklease.Acquire{})
	for _, a := range []*actor{reader, other} {
		a.idle(2 * delta)
		if a.writes() {
			a.perform("Write")
			a.settle()
			a.perform("Read")
		}
		th.want("a writer is hidden", a, false)
	}
}

// T-8: A wants to share and loses to a writer, whose record is then covered by that of
// another reader. That the register shows readers does not make A one of them.
func listedJoin(th *theater) {
	a := th.enter(disklease.Config{Slots: disklease.Shared}, disklease.Acquire{})
	w := th.contend()
	c := th.enter(disklease.Config{Slots: disklease.Shared}, disklease.Acquire{})
	c.perform("Read")
	effect, _ := c.stuck("Write")
	a.perform("Read")
	w.perform("Read")
	a.perform("Write")
	w.perform("Write")
	w.settle()
	w.perform("Read")
	th.want("it wrote last", w, true)
	effect()
	a.perform("Read")
	th.want("it is not listed", a, false)
}

// So does the beat of a reader.
func beatingEntry(th *theater) {
	p := th.enter(disklease.Config{Slots: 3}, disklease.Acquire{})
	q := th.contend()
	p.win()
	for range 8 {
		q.idle(term / 3)
		p.perform("Note")
		p.perform("Read")
		th.want("it renews", p, true)
	}
	if q.writes() {
		th.t.Error("Q writes while P's note beats")
	}
}

// A sharer died when its last beat had reached a minority: some reads show that beat,
// some the one before.
func olderBeat(th *theater) {
	p := th.enter(disklease.Config{Slots: 2}, disklease.Acquire{})
	p.win()
	before := th.reg.notes
	th.pass(term/3 + time.Millisecond)
	p.perform("Note")
	after := th.reg.notes
	p.perform("Read")
	p.host.Crash()
	q := th.contend()
	for i := range 100 {
		mine := slices.DeleteFunc(slices.Clone(th.reg.notes), func(n machine.Noted) bool { return n.Writer != q.id })
		th.reg.notes = append(slices.Clone([2][]machine.Noted{before, after}[i%2]), mine...)
		q.idle(delta)
	}
	if !q.writes() {
		th.t.Error("Q waits for ever for a dead sharer")
	}
}

// A claim that does not wait hears that there is no room for another entry.
func fullRecord(th *theater) {
	long := disklease.Config{Slots: disklease.Shared, Holder: strings.Repeat("x", disklease.MaxHolder)}
	for range 5 {
		a := th.enter(long, disklease.Acquire{})
		a.win()
	}
	a := th.enter(long, disklease.TryAcquire{})
	a.perform("Read")
	if !slices.Equal(a.outcomes, []string{"Refused"}) {
		th.t.Errorf("outcomes %v, want it refused", a.outcomes)
	}
}

// P leaves when Q's record lists them both. If the store forgot P's note, which says so,
// P would seem to hold, unconfirmed, and R could not join.
func releasedMember(th *theater) {
	reader := disklease.Config{Slots: disklease.Shared}
	p := th.enter(reader, disklease.Acquire{})
	p.win()
	q := th.enter(reader, disklease.Acquire{})
	q.win()
	p.leave()
	p.perform("Note")
	th.reg.forget(p.id)
	th.enter(reader, disklease.Acquire{}).win()
}
