package diskleasesim

import (
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/disklease"
)

// Writer preference: a claim that comes after a waiting writer does not overtake it.
func writerFirst(th *theater) {
	first := th.enters(disklease.Config{Slots: disklease.Shared}, disklease.Acquire{})
	first.wins()
	writer := th.contends()
	writer.does("Read")
	writer.does("Note")
	second := th.enters(disklease.Config{Slots: disklease.Shared}, disklease.Acquire{})
	second.does("Read")
	second.does("Note")
	try := th.enters(disklease.Config{Slots: disklease.Shared}, disklease.TryAcquire{})
	try.does("Read")
	if !slices.Equal(try.outcomes, []string{"Refused"}) {
		th.t.Errorf("a reader that does not wait: %v, want it refused", try.outcomes)
	}
	first.leaves()
	first.does("Note")
	second.idles(5 * delta)
	if second.writes() {
		th.t.Errorf("a reader overtakes: %+v", second.pending)
	}
	writer.idles(5 * delta)
	writer.does("Write")
}

// A place in the queue is kept by breathing.
func deadWaiter(th *theater) {
	p := th.contends()
	p.wins()
	dead := th.contends()
	dead.does("Read")
	dead.does("Note")
	dead.host.Crash()
	q := th.contends()
	q.does("Read")
	q.does("Note")
	p.leaves()
	p.does("Note")
	q.idles(4 * delta)
	if q.writes() {
		th.t.Errorf("Q overtakes one that may live: %+v", q.pending)
	}
	q.idles(term)
	q.does("Write")
}

// The notes of two dead waiters, that some bases have forgotten, show in some reads and
// not in others: now the one, now the other.
func flickeringWaiters(th *theater) {
	p := th.contends()
	p.wins()
	var dead [2]*actor
	for i := range dead {
		dead[i] = th.contends()
		dead[i].does("Read")
		dead[i].does("Note")
		dead[i].host.Crash()
	}
	p.leaves()
	p.does("Note")
	all := th.reg.notes
	q := th.contends()
	for i := range 200 {
		mine := slices.DeleteFunc(slices.Clone(th.reg.notes), func(n machine.Noted) bool { return n.Writer != q.id })
		th.reg.notes = append(slices.DeleteFunc(slices.Clone(all), func(n machine.Noted) bool { return n.Writer == dead[i%2].id }), mine...)
		q.idles(delta)
	}
	if !q.writes() {
		th.t.Errorf("Q waits for ever for those who are dead")
	}
}
