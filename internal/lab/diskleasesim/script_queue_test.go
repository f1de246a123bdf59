package diskleasesim

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// Writer preference: a claim that comes after a waiting writer does not overtake it.
func writerFirst(th *theater) {
	first := th.enter(disklease.Config{Slots: disklease.Shared}, disklease.Acquire{})
	first.win()
	writer := th.contend()
	writer.perform("Read")
	writer.perform("Note")
	second := th.enter(disklease.Config{Slots: disklease.Shared}, disklease.Acquire{})
	second.perform("Read")
	second.perform("Note")
	try := th.enter(disklease.Config{Slots: disklease.Shared}, disklease.TryAcquire{})
	try.perform("Read")
	if !slices.Equal(try.outcomes, []string{"Refused"}) {
		th.t.Errorf("a reader that does not wait: %v, want it refused", try.outcomes)
	}
	first.leave()
	first.perform("Note")
	second.idle(5 * delta)
	if second.writes() {
		th.t.Errorf("a reader overtakes: %+v", second.pending)
	}
	writer.idle(5 * delta)
	writer.perform("Write")
}

// A place in the queue is kept by breathing.
func deadWaiter(th *theater) {
	p := th.contend()
	p.win()
	dead := th.contend()
	dead.perform("Read")
	dead.perform("Note")
	dead.host.Crash()
	q := th.contend()
	q.perform("Read")
	q.perform("Note")
	p.leave()
	p.perform("Note")
	q.idle(4 * delta)
	if q.writes() {
		th.t.Errorf("Q overtakes one that may live: %+v", q.pending)
	}
	q.idle(term)
	q.perform("Write")
}

// The notes of two dead waiters, that some bases have forgotten, show in some reads and
// not in others: now the one, now the other.
func flickeringWaiters(th *theater) {
	p := th.contend()
	p.win()
	var dead [2]*actor
	for i := range dead {
		dead[i] = th.contend()
		dead[i].perform("Read")
		dead[i].perform("Note")
		dead[i].host.Crash()
	}
	p.leave()
	p.perform("Note")
	all := th.reg.notes
	q := th.contend()
	for i := range 200 {
		mine := slices.DeleteFunc(slices.Clone(th.reg.notes), func(n machine.Noted) bool { return n.Writer != q.id })
		th.reg.notes = append(slices.DeleteFunc(slices.Clone(all), func(n machine.Noted) bool { return n.Writer == dead[i%2].id }), mine...)
		q.idle(delta)
	}
	if !q.writes() {
		th.t.Errorf("Q waits for ever for dead claims")
	}
}
