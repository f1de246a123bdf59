package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
)

// ownScripts are of a leader's own proposals: in key order only the leader releases them, and
// so the leader reads the older state until it does.
var ownScripts = []script{
	{name: "leader-reads-before-its-own", policy: "leader/key", play: func(s *stage) {
		lead, f, _ := s.three()
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(lead, "k")
		s.hold(nil, lead, "MsgAppResp", "quorumlease.Report")
		put := s.put(lead, "k", "new")
		s.w.Run(5 * time.Millisecond)
		s.success(20*time.Millisecond, "a read that need not wait", s.readKey(lead, "k", "old"))
		elsewhere := s.readKey(f, "k", "new") // it does not know of any lease, and waits
		s.w.Run(20 * time.Millisecond)
		if put.done || elsewhere.done {
			s.fatalf("the leader has heard of no member that has the put")
		}
		s.mend()
		s.success(time.Second, "the put", put)
		s.success(time.Second, "a read after it", s.readKey(lead, "k", "new"))
		s.success(time.Second, "the read elsewhere", elsewhere)
	}},
	{name: "kept-when-all-understand", members: 5, policy: "leader/key", play: func(s *stage) {
		// A member of an older version would end at an entry that it cannot read. So its leader
		// keeps nothing, and reads wait, until it comes back as a newer one.
		lead, old := s.members[0], s.members[4]
		older := true
		take := s.net.Take
		s.net.Take = func(env machine.Envelope) bool {
			if m, ok := acknowledged(env.Body); ok && env.From == old.ID && older {
				m.Context = nil
			}
			return take(env)
		}
		old.crash()
		s.success(time.Second, "a put", s.put(lead, "k", "0"))
		waits := func(value, before string) {
			s.t.Helper()
			s.reader(lead, "k")
			s.hold(nil, lead, "MsgAppResp", "quorumlease.Report")
			put := s.put(lead, "k", value)
			s.w.Run(5 * time.Millisecond)
			r := s.askKey(lead, "k", "")
			s.w.Run(20 * time.Millisecond)
			if r.done != (before != "") || r.value != before {
				s.fatalf("a read beside a put: done %v, %q; want %q at once", r.done, r.value, before)
			}
			s.mend()
			s.success(time.Second, "the put", put)
			s.success(time.Second, "the read", r)
		}
		s.transfer(lead, s.members[1]) // a new leadership, in which the old one is heard of only now
		lead = s.members[1]
		s.success(time.Second, "a put", s.put(lead, "k", "1"))
		waits("2", "") // not heard of at all
		old.startUp()
		s.until(time.Second, "it has the log", func() bool { return old.state.Index() == lead.state.Index() })
		waits("3", "")
		again := func(is bool, value string) {
			s.t.Helper()
			old.crash()
			older = is
			old.startUp()
			s.success(time.Second, "a put", s.put(lead, "k", value))
			s.until(time.Second, "it has the log", func() bool { return old.state.Index() == lead.state.Index() })
			s.w.Run(tick)
		}
		again(false, "4")
		waits("5", "4")
		again(true, "6") // the state before does not count
		waits("7", "")
	}},
	{name: "leader-has-released-nothing", policy: "leader/key", play: func(s *stage) {
		// The others have all that it takes to find out that the put is released.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.hold(nil, lead, "MsgAppResp", "quorumlease.Report")
		put := s.put(lead, "k", "new")
		for _, m := range []*Member{f, g} {
			r := s.readKey(m, "k", "new")
			s.w.Run(20 * time.Millisecond)
			if r.done {
				s.fatalf("member %d has seen what the leader has not released", m.ID)
			}
		}
		s.success(20*time.Millisecond, "a read at the leader", s.readKey(lead, "k", "old"))
		other := s.put(f, "j", "new") // which nothing holds up
		s.success(100*time.Millisecond, "a put of another", other)
		s.mend()
		s.success(time.Second, "the put", put)
	}},
	{name: "others-before-its-own", policy: "leader/key", play: func(s *stage) {
		// The leader's put is behind another's of the same key, which that other may
		// have released already.
		lead, f, _ := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.hold(nil, lead, "MsgAppResp", "quorumlease.Report")
		s.success(300*time.Millisecond, "a put", s.put(f, "k", "new"))
		put := s.put(lead, "k", "newest")
		s.w.Run(5 * time.Millisecond)
		r := s.askKey(lead, "k", "")
		s.w.Run(20 * time.Millisecond)
		s.mend()
		s.success(time.Second, "the read", r)
		if r.value == "old" {
			s.fatalf("the leader reads what was there before a put that is done")
		}
		s.success(time.Second, "the leader's put", put)
	}},
	{name: "shown-before-it-is-released", policy: "all/key", play: func(s *stage) {
		// It is committed, and a holder of the key does not have it.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.reader(g, "k")
		entries := s.hold(lead, g, growth...)
		put := s.put(lead, "k", "new")
		s.w.Run(20 * time.Millisecond)
		if put.done {
			s.fatalf("3 may read, and does not have it")
		}
		s.success(20*time.Millisecond, "a read at the leader", s.readKey(lead, "k", "old"))
		s.success(20*time.Millisecond, "a read elsewhere", s.readKey(g, "k", "old"))
		entries.release()
		s.success(time.Second, "the put", put)
	}},
	{name: "leader-of-the-past-reads-before-its-own", policy: "leader/key", play: func(s *stage) {
		// It slept while another was elected.
		lead, f, _ := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.hold(lead, nil, growth...)
		s.put(lead, "k", "lost")
		s.w.Run(5 * time.Millisecond)
		s.cutOff(lead)
		lead.Pause()
		s.until(5*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		s.success(5*time.Second, "a put", s.put(f, "k", "new"))
		lead.Resume()
		r := s.readKey(lead, "k", "new")
		s.w.Run(50 * time.Millisecond)
		s.mend()
		s.success(5*time.Second, "the read", r)
	}},
	{name: "index-of-its-own-in-an-earlier-leadership", policy: "leader/key", play: func(s *stage) {
		// Its entries were lost, it leads again, and another's is in the place of one.
		lead, f, _ := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.w.Run(2 * tick)
		to, from := s.hold(lead, nil), s.hold(nil, lead)
		first := lead.replica.Status().Last + 1
		for range 8 {
			s.put(lead, "lost", "v")
			s.w.Run(6 * time.Millisecond) // far enough apart for an entry each
		}
		lost := lead.replica.Status().Last
		s.until(5*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		other := s.leaderBut(lead)
		s.hold(lead, nil, "forward") // else they would be in the log once more
		to.away()
		from.away()
		s.until(time.Second, "its entries are replaced", func() bool { return lead.replica.Status().Last < lost })
		acks := s.hold(nil, lead, "MsgAppResp", "quorumlease.Report")
		s.transfer(other, lead)
		acks.catch(2) // of its first entry; before that is applied it proposes nothing anew
		put := s.put(f, "k", "new")
		s.w.Run(3 * time.Millisecond)
		acks.pass(0)
		acks.pass(1)
		s.reader(lead, "j")
		s.success(300*time.Millisecond, "a put that the leader need not know to be done", put)
		if first+2 > lost {
			s.fatalf("too few were lost")
		}
		r := s.readKey(lead, "k", "new")
		s.w.Run(20 * time.Millisecond)
		s.mend()
		s.success(time.Second, "the read", r)
	}},
	{name: "place-of-its-own-that-is-another-s", policy: "leader/key", play: func(s *stage) {
		// The same, but the entry in the place of the first is not released either when it
		// leads again, so that it does not forget the rest for that.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.w.Run(2 * tick)
		to := s.hold(lead, nil)
		s.put(f, "lost", "v")
		s.w.Run(3 * time.Millisecond)
		from := s.hold(nil, lead)
		for range 8 {
			s.put(lead, "lost", "v")
			s.w.Run(6 * time.Millisecond) // far enough apart for an entry each
		}
		lost := lead.replica.Status().Last
		s.until(5*time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		other, third := s.leaderBut(lead), f
		if third == other {
			third = g
		}
		s.until(time.Second, "its first entry", func() bool { return other.state.Term() == other.replica.Status().Term })
		s.hold(third, other, "MsgAppResp", "quorumlease.Report")
		s.put(other, "j", "v")
		s.w.Run(3 * time.Millisecond)
		s.hold(lead, nil, "forward") // else they would be in the log once more
		s.hold(lead, other, "MsgAppResp", "quorumlease.Report")
		to.away()
		from.away()
		s.until(time.Second, "its entries are replaced", func() bool { return lead.replica.Status().Last < lost })
		s.until(time.Second, "its batches are on their way to the other leader", func() bool { return lead.state.Term() == other.replica.Status().Term })
		s.w.Run(time.Millisecond)
		s.cutOff(other)
		acks := s.hold(third, lead, "MsgAppResp", "quorumlease.Report")
		for _, m := range []*Member{lead, third} {
			m.Step(replica.Down{Node: other.ID})
		}
		s.until(5*time.Second, "it leads again", func() bool { return lead.leads() && third.follows(lead) })
		acks.catch(1)
		s.w.Run(10 * time.Millisecond)
		first := len(acks.held)
		put := s.put(third, "k", "new")
		s.w.Run(10 * time.Millisecond)
		if at := lead.replica.Status(); at.Last > lost || at.Last == at.Commit {
			s.fatalf("the put is not in the place of what was lost: %d of %d, committed %d", at.Last, lost, at.Commit)
		}
		for n := range first {
			acks.pass(n)
		}
		s.reader(lead, "i")
		s.success(300*time.Millisecond, "a put that the leader need not know to be done", put)
		r := s.readKey(lead, "k", "new")
		s.w.Run(20 * time.Millisecond)
		s.mend()
		s.success(time.Second, "the read", r)
	}},
	{name: "not-kept-but-found-out-by-others", policy: "cost/key", play: func(s *stage) {
		// The others find out by themselves a key that is not read at the leader, and the
		// leader does not read past that.
		lead, f, _ := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.hold(nil, lead, "MsgAppResp", "quorumlease.Report")
		put := s.put(lead, "k", "new")
		s.success(100*time.Millisecond, "a read elsewhere", s.readKey(f, "k", "new"))
		r := s.readKey(lead, "k", "new")
		s.w.Run(20 * time.Millisecond)
		if put.done {
			s.fatalf("the leader has heard of no member that has the put")
		}
		s.mend()
		s.success(time.Second, "the read", r)
		s.success(time.Second, "the put", put)
	}},
	{name: "kept-since-it-is-read-here", policy: "cost/key", plan: 500 * time.Millisecond, play: func(s *stage) {
		lead, f, _ := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		for range 40 {
			s.reader(lead, "k")
			s.w.Run(20 * time.Millisecond)
		}
		s.hold(nil, lead, "MsgAppResp", "quorumlease.Report")
		put := s.put(lead, "k", "new")
		s.w.Run(5 * time.Millisecond)
		s.success(20*time.Millisecond, "a read that need not wait", s.readKey(lead, "k", "old"))
		elsewhere := s.readKey(f, "k", "new")
		s.w.Run(20 * time.Millisecond)
		if put.done || elsewhere.done {
			s.fatalf("the leader has heard of no member that has the put")
		}
		s.mend()
		s.success(time.Second, "the put", put)
		s.success(time.Second, "the read elsewhere", elsewhere)
	}},
}
