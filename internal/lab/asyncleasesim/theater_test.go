package asyncleasesim

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/lab/stage"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
)

// theater is a stage of members that the judge watches.
type theater struct {
	*stage.Stage[asynclease.Input, asynclease.Verdict]
	t        *testing.T
	judge    judge
	ids      []machine.NodeID
	lives    map[machine.NodeID]uint64
	verdicts map[[2]uint64]asynclease.Verdict // by member and the owner's ID
}

func newTheater(t *testing.T, n int) *theater {
	th := &theater{Stage: stage.New[asynclease.Input, asynclease.Verdict](t), t: t, lives: map[machine.NodeID]uint64{}, verdicts: map[[2]uint64]asynclease.Verdict{}}
	th.Outcome = func(id machine.NodeID, v asynclease.Verdict) {
		th.judge.verdict(id, v)
		th.verdicts[[2]uint64{uint64(id), v.ID}] = v
	}
	for i := range n {
		th.ids = append(th.ids, machine.NodeID(i+1))
	}
	for _, id := range th.ids {
		th.start(id, nil)
	}
	return th
}

func (th *theater) start(id machine.NodeID, records []any) {
	th.t.Helper()
	th.lives[id]++
	m, err := asynclease.New(asynclease.Config{ID: id, Members: th.ids, Life: th.lives[id], Retry: retry}, records)
	if err != nil {
		th.t.Fatal(err)
	}
	th.Start(id, m)
}

// crash takes a member down, and restarts it from its disk.
func (th *theater) crash(id machine.NodeID) {
	th.t.Helper()
	th.judge.onCrash(id)
	th.Crash(id)
	th.start(id, th.Durable(id))
}

func (th *theater) ask(by machine.NodeID, id, first, last uint64) {
	a := asynclease.Ask{ID: id, Interval: asynclease.Interval{First: first, Last: last}}
	th.judge.onAsk(by, a)
	th.Step(by, a)
}

func (th *theater) giveBack(by machine.NodeID, id, from uint64) {
	r := asynclease.Return{ID: id, From: from}
	th.judge.onReturn(by, r)
	th.Step(by, r)
}

func (th *theater) forget(by machine.NodeID, below uint64) {
	th.judge.onForget(below)
	th.Step(by, asynclease.Forget{Below: below})
}

// granted and refused want a verdict to have come.
func (th *theater) granted(by machine.NodeID, id uint64) {
	th.t.Helper()
	if v, ok := th.verdicts[[2]uint64{uint64(by), id}]; !ok || !v.Granted {
		th.t.Errorf("member %d, request %d: the verdict is %+v (%v), want it granted", by, id, v, ok)
	}
}

func (th *theater) refused(by machine.NodeID, id uint64) {
	th.t.Helper()
	if v, ok := th.verdicts[[2]uint64{uint64(by), id}]; !ok || v.Granted {
		th.t.Errorf("member %d, request %d: the verdict is %+v (%v), want it refused", by, id, v, ok)
	}
}

func (th *theater) wait(by machine.NodeID, id uint64) {
	th.t.Helper()
	if v, ok := th.verdicts[[2]uint64{uint64(by), id}]; ok {
		th.t.Errorf("member %d, request %d: there is a verdict, %+v; want none yet", by, id, v)
	}
}
