package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// snapshotScripts: a holder whose Applier is slow, so that much happens to its log
// before it has loaded a snapshot.
var snapshotScripts = []script{
	{name: "two-snapshots-at-a-time", policy: "all/key", length: 2 * time.Second, play: twoSnapshots},
	{name: "two-snapshots-at-a-time-in-log-order", policy: "all", length: 2 * time.Second, play: twoSnapshots},
	{name: "told-of-more-than-its-log", members: 5, policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R13, R16. The leader has given a holder, and no other member, an entry that changes
		// the holders of keys. The next leader tells it of more released entries, before it
		// sends the replacement of that entry, and before the holder has loaded a snapshot.
		lead, f, g, x, h := s.members[0], s.members[1], s.members[2], s.members[3], s.members[4]
		s.divide("key:z = 1,5; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(2 * tick)
		s.overtake(lead, h, func() { s.success(5*time.Second, "the put", s.put(lead, "j", "1")) })
		h.stall()
		for _, o := range []*Member{f, g, x} {
			s.hold(lead, o)
			s.hold(o, lead)
			s.hold(o, h)
			s.hold(h, o)
		}
		last := h.replica.Status().Last
		lead.setCells(s.cells("key:y = 1,5; default = 1"), func() {})
		s.until(time.Second, "the entry is there", func() bool { return h.replica.Status().Last > last })
		s.cutOff(lead)
		s.until(10*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		next := s.leaderBut(lead)
		s.success(10*time.Second, "the put", s.put(next, "k", "new"))
		s.success(time.Second, "a put", s.put(next, "j", "2"))
		s.w.Run(time.Second)
		s.mend()
		s.cutOff(lead)
		entries := s.hold(next, h, growth...)
		s.until(5*time.Second, "the holder has another leader", func() bool { return h.follows(next) })
		s.w.Run(3 * tick)
		h.resume()
		s.until(time.Second, "the snapshot is loaded", func() bool { return h.state.Index() >= last })
		entries.release()
		s.until(5*time.Second, "the holder is up to date", func() bool { return h.state.Index() == next.state.Index() })
		s.until(5*time.Second, "it has promises", func() bool { s.ask(h); return h.replica.Status().ReadLeases.Left != 0 })
		s.success(time.Second, "a read", s.readKey(h, "k", "new"))
		s.hold(next, h, growth...)
		s.success(5*time.Second, "a put that it need not have", s.put(next, "k", "newest"))
		read := s.readKey(h, "k", "newest") // which it does not hold
		set := &call{}
		next.setCells(s.cells("key:y = 1,5; default = 1"), func() { set.done = true })
		s.mend()
		s.cutOff(lead)
		s.success(5*time.Second, "the read", read)
		s.until(5*time.Second, "another division", func() bool { return set.done })
	}},
}

// twoSnapshots: R16. A snapshot arrives while another waits to be loaded. When that one
// is, the entries between the two are still unknown.
func twoSnapshots(s *stage) {
	lead, _, h := s.three()
	s.success(time.Second, "a put", s.put(lead, "k", "old"))
	s.w.Run(2 * tick)
	s.overtake(lead, h, func() { s.success(5*time.Second, "the put", s.put(lead, "j", "1")) })
	restores := func() (n int) {
		for _, item := range h.applying {
			if _, ok := item.(replica.Restore); ok {
				n++
			}
		}
		return n
	}
	h.stall()
	s.cutOff(h)
	s.w.Run(2500 * time.Millisecond)
	s.success(5*time.Second, "the put", s.put(lead, "k", "new"))
	s.fill(lead, 256)
	s.w.Run(time.Second)
	lead.takeSnapshot()
	s.w.Run(time.Second)
	s.mend()
	s.until(10*time.Second, "a second snapshot", func() bool { return restores() == 2 })
	s.until(10*time.Second, "a lease", func() bool { s.ask(h); return h.replica.Status().ReadLeases.Left != 0 })
	s.w.Run(3 * tick)
	for restores() == 2 {
		s.applyOne(h)
	}
	s.ask(h)
	s.w.Run(2 * tick)
	read := s.readKey(h, "k", "new")
	s.w.Run(50 * time.Millisecond)
	h.resume()
	s.success(5*time.Second, "the read", read)
}
