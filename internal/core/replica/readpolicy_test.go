package replica

import (
	"testing"

	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A policy that somebody has set outlives the one that a new cluster begins with, though
// it is not applied when the leader proposes that.
func TestFirstPolicy(t *testing.T) {
	for _, from := range []string{"1", "2"} {
		s := newStageOf(t, ReadLeases{Policy: quorumlease.Leader})
		s.do("stall 1")
		s.do("elect 1")
		s.propose(s.member(from), wrapperspb.String("off"))
		s.do("deliver")
		s.do("resume 1")
		s.do("deliver")
		s.do("pass 300ms")
		for _, m := range s.members {
			if got := m.a.ReadPolicy(); got != quorumlease.Off {
				t.Errorf("set by %s: at %d it is %q", from, m.id, got)
			}
		}
	}
}
