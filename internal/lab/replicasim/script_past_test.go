package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// pastScripts are of others that might release an entry that the leader still reads past: its
// own entry, to whose key it answers with the older state.
var pastScripts = []script{
	{name: "found-out-in-the-term-before", policy: "all/key", length: 2 * time.Second, play: func(s *stage) {
		// R17. A follower keeps its finding about the leader's entry to itself, and does not
		// bring it into the term in which it leads.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.reader(f, "k")
		s.w.Run(2 * tick)
		s.hold(nil, lead, "MsgAppResp", "quorumlease.Report")
		s.put(lead, "k", "new")
		s.w.Run(20 * time.Millisecond)
		s.cutOff(lead)
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(500*time.Millisecond, "another leader", func() bool { return s.leaderBut(lead) != nil })
		next := s.leaderBut(lead)
		s.overtaken(lead, next, "new")
	}},
	{name: "restarted-and-found-out", policy: "all/key", length: time.Second, play: func(s *stage) {
		// R30. The leader's entry is in the state from which a member started, which does not
		// name the proposers of its entries.
		lead, f, _ := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.w.Run(2 * tick)
		s.hold(nil, lead, "MsgAppResp", "quorumlease.Report")
		s.put(lead, "k", "new")
		s.w.Run(20 * time.Millisecond)
		f.takeSnapshot()
		s.until(400*time.Millisecond, "a snapshot of it", func() bool {
			n := len(f.snapshots)
			return n > 0 && f.snapshots[n-1].index == lead.replica.Status().Last
		})
		f.crash()
		f.startUp()
		s.w.Run(1050 * time.Millisecond) // it was bound to no member that it does not know
		s.ask(lead)
		s.put(lead, "j", "by which the others hear what the leader has")
		s.overtaken(lead, f, "new")
	}},
	{name: "overtaken-and-found-out", members: 5, tail: 512 << 10, policy: "all/key", length: 8 * time.Second, play: func(s *stage) {
		// R30. The same of a snapshot that came from the leader.
		lead, f, g, h := s.members[0], s.members[1], s.members[2], s.members[4]
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.reader(h, "k")
		s.w.Run(2 * tick)
		entries := s.hold(lead, g, "MsgApp")
		s.fill(f, 256)
		s.w.Run(300 * time.Millisecond)
		late := s.hold(lead, h, growth...)
		s.put(lead, "k", "new")
		s.w.Run(30 * time.Millisecond)
		lead.takeSnapshot()
		s.w.Run(400 * time.Millisecond)
		entries.away()
		s.until(9*time.Second, "3 is overtaken", func() bool { return g.state.Index() == lead.replica.Status().Last })
		s.hold(h, lead, "MsgAppResp", "quorumlease.Report")
		late.release()
		s.overtaken(lead, g, "new")
	}},
	{name: "promised-by-one-of-a-later-term", policy: "all/key", play: func(s *stage) {
		// R5, R17. The next leader has released the entry when no member was bound to the one
		// before; that one is promised to wait for it again, from there on.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(lead, "k")
		s.reader(f, "k")
		s.w.Run(tick)
		s.reader(f, "k")
		s.hold(f, lead, "MsgAppResp", "quorumlease.Report")
		put := s.put(lead, "k", "new")
		s.until(20*time.Millisecond, "it is committed", func() bool { return lead.replica.Status().Commit == lead.replica.Status().Last })
		s.w.Run(5 * time.Millisecond)
		if put.done {
			s.fatalf("2 holds the key, and is not known to have it")
		}
		s.hold(lead, f)
		s.hold(f, lead)
		asked := s.hold(lead, g)
		s.hold(g, lead, "MsgApp", "MsgAppResp", "MsgHeartbeatResp", "MsgPreVote", "MsgVote", "MsgVoteResp", "MsgPreVoteResp", "quorumlease.Report", "readAsk")
		s.hold(f, g, growth...)
		s.w.Run(210 * time.Millisecond)
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(500*time.Millisecond, "another leader", f.leads)
		s.hold(lead, g, "MsgApp", "MsgHeartbeat", "MsgPreVote", "MsgVote", "quorumlease.News", "quorumlease.Return")
		asked.away()
		s.ask(lead)
		s.overtaken(lead, f, "new")
	}},
	{name: "leader-that-came-to-hold-the-key", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R13. When its entry came into the log the leader did not hold the key, so that
		// the next leader does not wait for it.
		lead, f, g := s.three()
		lead.setCells(s.cells("default = 2"), func() {})
		for _, m := range s.members {
			s.until(time.Second, "it is in force", func() bool { return m.state.ReadPolicy() != "" && s.inForce(m, "default = 2") })
		}
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.w.Run(2 * tick)
		s.reader(f, "k")
		s.hold(f, lead, "MsgAppResp", "quorumlease.Report")
		s.put(lead, "k", "new")
		s.w.Run(10 * time.Millisecond)
		lead.setCells(s.cells("default = 1,2"), func() {})
		s.until(100*time.Millisecond, "it is committed", func() bool { return lead.replica.Status().Commit == lead.replica.Status().Last })
		s.ask(lead)
		s.w.Run(50 * time.Millisecond)
		s.cutOff(lead)
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(500*time.Millisecond, "another leader", f.leads)
		s.overtaken(lead, f, "new")
	}},
	{name: "lease-whose-key-is-another-s-by-now", policy: "leader/key", play: func(s *stage) {
		// R20. By its state the leader takes the end of a lease for a change of a key;
		// others know better, and do not wait for it to release another put of that.
		lead, f, _ := s.three()
		l := s.grant(lead, 7, 600)
		l.revoked = true // soon
		s.success(time.Second, "a put", s.put(f, "k", "old", l.id))
		s.w.Run(2 * tick)
		s.reader(lead, "k")
		lead.stall()
		s.put(f, "k", "mid") // which the lease does not end
		s.w.Run(20 * time.Millisecond)
		s.hold(nil, lead, "MsgAppResp", "quorumlease.Report")
		lead.propose(&pb.LeaseRevokeRequest{ID: l.id}, func(replica.Result, error) {})
		s.w.Run(20 * time.Millisecond)
		s.success(100*time.Millisecond, "a put", s.put(f, "k", "new"))
		lead.resume()
		r := s.readKey(lead, "k", "new")
		s.w.Run(20 * time.Millisecond)
		s.mend()
		s.success(time.Second, "the read", r)
	}},
}

// overtaken has a member read a key all the time, and the leader, or one that takes itself for
// the leader, as well, once the other has seen a value: it must not miss that.
func (s *stage) overtaken(lead, m *Member, value string) {
	s.t.Helper()
	seen := false
	reads := func() bool {
		r := s.askKey(m, "k", "")
		s.w.Run(5 * time.Millisecond)
		if seen = seen || r.done && r.value == value; seen {
			s.readKey(lead, "k", value)
		}
		return seen
	}
	for end := s.w.Now() + 600*time.Millisecond; s.w.Now() < end; s.w.Run(5 * time.Millisecond) {
		reads()
	}
	s.mend()
	s.until(5*time.Second, "a read of it", reads)
	s.success(5*time.Second, "a read at the leader", s.readKey(lead, "k", value))
}
