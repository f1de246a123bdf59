package replicasim

import (
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

// logScripts: an acknowledged entry is durable, and memory is bounded.
var logScripts = []script{
	{name: "acknowledged-is-durable", play: func(s *stage) {
		// One follower is cut off, the disk of the other is stuck: nothing can
		// be acknowledged, for when that one crashes it is lost.
		lead, f, g := s.three()
		s.cutOff(g)
		f.Disk.Slow = time.Second
		f.Wake()
		s.w.Run(10 * time.Millisecond)
		p := s.put(lead, "k", "v")
		s.w.Run(300 * time.Millisecond)
		acknowledged := p.ok
		f.Disk.Queue = nil // lost, all of it
		f.crash()
		lead.crash()
		f.Disk.Slow = 0
		s.mend()
		f.startUp()
		s.until(10*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		r := s.read(f, "k")
		s.success(3*time.Second, "a read", r)
		if acknowledged && r.value != "v" {
			s.fatalf("an acknowledged write was lost")
		}
	}},
	{name: "campaign-with-a-part-released", members: 5, policy: "all", length: 2 * time.Second, play: func(s *stage) {
		// It hears of many entries at once, of which all but the last are
		// released, and drops them from memory behind a snapshot. Raft looks at
		// all that it does not know to be applied before it campaigns.
		lead, f, h := s.members[0], s.members[1], s.members[4]
		s.w.Run(tick)
		blind := s.hold(lead, f, "MsgApp")
		s.fill(lead, 48)
		s.granted(h, s.members[2], s.members[3])
		s.w.Run(tick)
		s.hold(lead, h, "MsgApp")
		p := s.put(lead, "k", "v")
		s.w.Run(20 * time.Millisecond)
		blind.away()
		s.until(time.Second, "a snapshot of what is released", func() bool {
			n := len(f.snapshots)
			return n > 0 && f.snapshots[n-1].index < lead.replica.Status().Last
		})
		s.w.Run(20 * time.Millisecond)
		if p.done || f.replica.Status().Commit == f.state.Index() {
			s.fatalf("all is released")
		}
		s.kill(lead)
		s.until(time.Second, "another leader", func() bool { return f.leads() })
		lead.startUp()
		s.mend()
		s.once("k")
	}},
	{name: "vote-is-durable", play: func(s *stage) {
		// The leader is dead and the disk of one of the others is stuck: that one's vote is
		// missing, whichever member campaigns.
		lead, f, _ := s.three()
		f.Disk.Slow = 10 * time.Second
		f.Wake()
		s.kill(lead)
		s.w.Run(5 * time.Second)
		if next := s.leaderBut(lead); next != nil {
			s.fatalf("member %d leads by a vote that is not durable", next.ID)
		}
		f.Disk.Slow = 0
		s.until(20*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
	}},
	{name: "acknowledgment-lost", play: func(s *stage) {
		lead, f, g := s.three()
		s.cutOff(g)
		lost := s.hold(f, lead, "MsgAppResp")
		p := s.put(lead, "k", "v")
		lost.catch(1)
		lost.away()
		s.success(3*tick, "a put whose acknowledgment was lost", p)
	}},
	{name: "snapshot-over-a-longer-log", play: func(s *stage) {
		// A deposed leader has many entries that were never committed. The
		// snapshot that brings it up to date ends before they do.
		lead, f, g := s.three()
		s.void(lead, f, g)
		s.mend()
		s.together(5 * time.Second)
		s.success(3*time.Second, "a put through the one that came back", s.put(lead, "k", "v"))
		s.together(time.Second)
		lead.crash()
		lead.startUp()
		s.together(3 * time.Second)
		s.once("k")
		s.lead(lead)
	}},
	{name: "snapshot-not-in-the-log", play: func(s *stage) {
		// A snapshot has arrived and is on disk; the log does not mention it when the member
		// crashes, and holds void entries beyond it.
		lead, f, g := s.three()
		s.void(lead, f, g)
		next := s.leaderBut(lead)
		lead.keep(next.snapshots[len(next.snapshots)-1])
		lead.crash()
		lead.startUp()
		s.mend()
		s.together(5 * time.Second)
		s.success(3*time.Second, "a put", s.put(g, "k", "v"))
		s.together(time.Second)
		s.mend()
		lead.crash()
		lead.startUp()
		if at, want := lead.replica.Status().Last, next.replica.Status().Last; at < want {
			s.fatalf("durable entries were forgotten: the log ends at %d, want %d", at, want)
		}
		s.together(3 * time.Second)
	}},
	{name: "tail-is-bounded", play: func(s *stage) {
		// No snapshot is ever finished.
		lead, f, _ := s.three()
		for _, m := range s.members {
			m.taking = true
		}
		for range 200 {
			s.put(f, "k", strings.Repeat("x", 2048))
			s.put(lead, "l", strings.Repeat("x", 2048))
			s.w.Run(5 * time.Millisecond)
		}
		if n := lead.replica.Status().TailBytes; n > smallTail+smallTail/8 {
			s.fatalf("%d bytes are held in memory, want %d at most, and what was under way then", n, smallTail)
		}
		for _, m := range s.members {
			m.taking = false
			m.takeSnapshot()
		}
		s.success(5*time.Second, "a put", s.put(f, "m", "v"))
	}},
	{name: "slow-applier-bounds-what-is-handed-out", tail: 64 << 20, play: func(s *stage) {
		lead, f, _ := s.three()
		f.stall()
		for range 40 {
			s.success(5*time.Second, "a large put", s.put(lead, "k", strings.Repeat("x", 256<<10)))
		}
		bytes := 0
		for _, item := range f.applying {
			for _, e := range item.(replica.Committed).Entries {
				bytes += len(e.GetData())
			}
		}
		if bytes == 0 || bytes > 9<<20 {
			s.fatalf("%d bytes were handed out, want some but no more than 9 MiB", bytes)
		}
		f.resume()
		s.together(3 * time.Second)
	}},
}

// void cuts a leader off with entries in its log that are never committed. The
// others meanwhile take a snapshot that ends at a lower index.
func (s *stage) void(lead, f, g *Member) {
	s.t.Helper()
	for id := range int64(10) {
		s.grant(lead, id+1, 10).revoked = true // checkpoints will be the entries
		s.w.Run(100 * time.Millisecond)
	}
	s.w.Run(2850 * time.Millisecond)
	s.cutOff(lead)
	f.Step(replica.Down{Node: lead.ID})
	g.Step(replica.Down{Node: lead.ID})
	s.until(time.Second, "another leader", func() bool { return f.leads() })
	s.success(time.Second, "a large put", s.put(f, "large", strings.Repeat("x", smallTail)))
	s.until(3*time.Second, "the old leader gives up", func() bool { return !lead.leads() })
	s.w.Run(500 * time.Millisecond)
	end, last := uint64(0), lead.replica.Status().Last
	if n := len(f.snapshots); n > 0 {
		end = f.snapshots[n-1].index
	}
	if end == 0 || end >= last {
		s.fatalf("the snapshot at %d does not end within the void entries, up to %d", end, last)
	}
}
