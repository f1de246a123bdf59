package replicasim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
)

// heldUpScripts: the leader's report on held-up entries is true.
var heldUpScripts = []script{
	{name: "who-waits-for-whom", members: 5, policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// A holder that is behind, too, holds other keys; and releases meanwhile, behind the
		// waiting entry, do not make it wait anew.
		lead, behind, h := s.members[0], s.members[1], s.members[2]
		s.divide("key:j = 1,2; key:k = 1,3; default = 1")
		s.reader(behind, "j")
		s.reader(h, "k")
		s.hold(lead, behind, growth...)
		s.hold(lead, h, growth...)
		s.success(time.Second, "a put", s.put(lead, "x", "1"))
		s.w.Run(10 * time.Millisecond)
		s.heldUp(lead, 0)
		held := s.put(lead, "k", "v")
		for range 5 {
			s.w.Run(100 * time.Millisecond)
			s.success(100*time.Millisecond, "another put", s.put(lead, "x", "2"))
		}
		s.heldUp(lead, 500*time.Millisecond, h)
		other := s.put(lead, "j", "v")
		s.w.Run(50 * time.Millisecond)
		s.heldUp(lead, 550*time.Millisecond, behind, h)
		s.mend()
		s.success(5*time.Second, "the put", held)
		s.success(5*time.Second, "the other put", other)
		s.w.Run(10 * time.Millisecond)
		s.heldUp(lead, 0)
	}},
	{name: "how-long-the-first-waits", policy: "all", length: 2 * time.Second, play: func(s *stage) {
		// In the order of the log the first is released while another waits, and that has
		// waited for less.
		lead, _, h := s.three()
		s.holding(h)
		s.w.Run(tick)
		kept := s.hold(lead, h, growth...)
		first := s.put(lead, "a", "v")
		s.w.Run(200 * time.Millisecond)
		second := s.put(lead, "b", "v")
		s.w.Run(100 * time.Millisecond)
		s.heldUp(lead, 300*time.Millisecond, h)
		kept.pass(0)
		s.success(50*time.Millisecond, "the first", first)
		s.heldUp(lead, 100*time.Millisecond, h)
		if second.done {
			s.fatalf("the second was not held up")
		}
		s.mend()
		s.success(5*time.Second, "the second", second)
	}},
}

// heldUp wants a leader to name the member that holds up an entry, and for how long, within 50
// ms.
func (s *stage) heldUp(lead *Member, waiting time.Duration, by ...*Member) {
	s.t.Helper()
	var ids []machine.NodeID
	for _, m := range by {
		ids = append(ids, m.ID)
	}
	got := lead.replica.Status().ReadLeases
	if (got.Held > 0) != (len(by) > 0) || !slices.Equal(got.WaitsFor, ids) || got.HeldFor < waiting-50*time.Millisecond || got.HeldFor > waiting+50*time.Millisecond {
		s.fatalf("%d are held up by %v for %v; want %v for about %v", got.Held, got.WaitsFor, got.HeldFor, ids, waiting)
	}
}
