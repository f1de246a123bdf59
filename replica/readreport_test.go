package replica

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/quorumlease"
)

// A voter tells the leader at once that a holder has given its lease up, for the leader waits
// for that holder as long as somebody is bound to it.
func TestALeaseGivenBackIsReported(t *testing.T) {
	s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1})
	for _, command := range []string{"elect 1", "pass 500ms", "lose"} {
		s.do(command)
	}
	voter := s.members[1]
	bound := func() []machine.NodeID {
		var ids []machine.NodeID
		holders, _ := voter.r.reads.bound.Holders(s.now)
		for _, h := range holders {
			ids = append(ids, h.Member)
		}
		return ids
	}
	if got := bound(); !slices.Equal(got, []machine.NodeID{1, 3}) {
		t.Fatalf("member 2 is bound to %d", got)
	}
	s.step(voter, machine.Envelope{From: 3, To: 2, Body: quorumlease.Return{Boot: 1, Seq: 1 << 40}})
	if got := bound(); !slices.Equal(got, []machine.NodeID{1}) {
		t.Fatalf("member 2 is bound to %d, and member 3 has given its lease up", got)
	}
	told := false
	for _, env := range s.wire {
		if report, ok := env.Body.(quorumlease.Report); ok && env.To == 1 {
			told = len(report.Holders) == 1 && report.Holders[0].Member == 1
		}
	}
	if !told {
		t.Errorf("the leader is not told that member 3 has given its lease up: %+v", s.wire)
	}
}
