package sim

import (
	"strings"
	"time"

	"github.com/tenure-lease/tenure/replica"
)

// logScripts: what is acknowledged is durable, and memory is bounded.
var logScripts = []script{
	{name: "acknowledged-is-durable", play: func(s *stage) {
		// One follower is cut off, the disk of the other is stuck: nothing can
		// be acknowledged, for when that one crashes it is lost.
		lead, f, g := s.three()
		s.cutOff(g)
		f.disk.slow = time.Second
		f.Step(wakeUp)
		s.w.Run(10 * time.Millisecond)
		p := s.put(lead, "k", "v")
		s.w.Run(300 * time.Millisecond)
		acknowledged := p.ok
		f.disk.queue = nil // lost, all of it
		f.crash()
		lead.crash()
		f.disk.slow = 0
		s.mend()
		f.boots()
		s.until(10*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		r := s.read(f, "k")
		s.success(3*time.Second, "a read", r)
		if acknowledged && r.value != "v" {
			s.fatalf("an acknowledged write was lost")
		}
	}},
	{name: "snapshot-over-a-longer-log", play: func(s *stage) {
		// A deposed leader has many entries that were never committed. The
		// snapshot that brings it up to date ends before they do.
		lead, f, g := s.three()
		s.cutOff(lead)
		for range 400 {
			s.put(lead, "void", "v")
			s.w.Run(2 * time.Millisecond)
		}
		s.until(5*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		s.fill(f, 160)
		s.w.Run(500 * time.Millisecond)
		if n := len(g.snapshots); n == 0 || g.snapshots[n-1].index >= lead.replica.Status().Last {
			s.fatalf("the snapshot at %d does not end within the void entries, up to %d", g.snapshots[len(g.snapshots)-1].index, lead.replica.Status().Last)
		}
		s.mend()
		s.together(5 * time.Second)
		s.success(3*time.Second, "a put through the one that came back", s.put(lead, "k", "v"))
		s.together(time.Second)
		lead.crash()
		lead.boots()
		s.together(3 * time.Second)
		s.once("k")
		s.lead(lead)
	}},
	{name: "snapshot-not-in-the-log", play: func(s *stage) {
		// A snapshot has arrived and is on disk; the log does not tell of it
		// when the member crashes, and holds void entries beyond it.
		lead, f, g := s.three()
		s.cutOff(lead)
		for range 400 {
			s.put(lead, "void", "v")
			s.w.Run(2 * time.Millisecond)
		}
		s.until(5*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		s.fill(f, 160)
		s.w.Run(500 * time.Millisecond)
		next := s.leaderBut(lead)
		lead.keep(next.snapshots[len(next.snapshots)-1])
		lead.crash()
		lead.boots()
		s.mend()
		s.together(5 * time.Second)
		s.success(3*time.Second, "a put", s.put(g, "k", "v"))
		s.together(time.Second)
		s.mend()
		lead.crash()
		lead.boots()
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
		if n := lead.replica.Status().TailBytes; n > 2*smallTail {
			s.fatalf("%d bytes are held in memory, want no more than twice %d", n, smallTail)
		}
		for _, m := range s.members {
			m.taking = false
			m.takeSnapshot()
		}
		s.success(5*time.Second, "a put", s.put(f, "m", "v"))
	}},
	{name: "slow-applier-bounds-what-is-handed-out", play: func(s *stage) {
		lead, f, _ := s.three()
		f.stall()
		for range 60 {
			s.success(5*time.Second, "a large put", s.put(lead, "k", strings.Repeat("x", 200<<10)))
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
