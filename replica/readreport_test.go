package replica

import (
	"slices"
	"testing"
	"time"

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

// A voter whose clock may have run ahead is bound again to a holder whose promise has run out since,
// and tells the leader at once: the holder may read. And it reads nothing itself until the doubt is over.
func TestADoubtBindsAgain(t *testing.T) {
	const ttl = 200 * time.Millisecond
	s := newStageOf(t, ReadLeases{Policy: quorumlease.All, Idle: -1, TTL: ttl})
	for _, command := range []string{"elect 1", "pass 500ms", "cut 3", "pass 500ms"} {
		s.do(command)
	}
	voter := s.members[1]
	rl := &voter.r.reads
	bound := func(at machine.Mono) bool {
		holders, _ := rl.bound.Holders(at)
		return slices.ContainsFunc(holders, func(l quorumlease.Lifetime) bool { return l.Member == 3 })
	}
	if bound(s.now) || rl.until(voter.r) <= s.now {
		t.Fatalf("bound to member 3: %v; its own lease lasts until %v at %v", bound(s.now), rl.until(voter.r), s.now)
	}
	s.wire = nil
	until := s.now.Add(time.Second)
	s.step(voter, Doubted{Since: s.now.Add(-450 * time.Millisecond), Until: until})
	if end := s.now.Add(quorumlease.Bound(ttl)); !bound(end-1) || bound(end) {
		t.Errorf("after a doubt the promise to member 3 binds for a while: %v, and for longer: %v", bound(end-1), bound(end))
	}
	told := false
	for _, env := range s.wire {
		report, ok := env.Body.(quorumlease.Report)
		told = told || ok && env.To == 1 && slices.ContainsFunc(report.Holders, func(l quorumlease.Lifetime) bool { return l.Member == 3 })
	}
	if !told {
		t.Errorf("the leader is not told that member 2 is bound to member 3 again: %+v", s.wire)
	}
	if got := rl.until(voter.r); got != 0 {
		t.Errorf("a member whose clock is in doubt has a lease until %v", got)
	}
	s.step(voter, Doubted{Since: s.now, Until: s.now}) // an earlier doubt is not over by a later one
	if s.step(voter, machine.Wake{}); rl.doubted != until || rl.wants(voter.r) {
		t.Errorf("the doubt lasts until %v, want %v; it asks for a lease: %v", rl.doubted, until, rl.wants(voter.r))
	}
	if voter.r.now = until; !rl.wants(voter.r) {
		t.Error("it asks for no lease when the doubt is over")
	}
}
