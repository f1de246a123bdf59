package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
	"go.etcd.io/raft/v3/raftpb"
)

// directScripts are of members that find out released entries by themselves, in key order.
var directScripts = []script{
	{name: "origin-finds-out-itself", policy: "leader/key", play: func(s *stage) {
		// R30: the leader says no word of committed or released entries.
		lead, f, _ := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.silent(lead, f)
		s.success(300*time.Millisecond, "a put that the leader says nothing of", s.put(f, "k", "new"))
	}},
	{name: "leader-that-knows-less", policy: "leader/key", play: func(s *stage) {
		// the origin has answered, and the leader does not know yet that the
		// entry is committed.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.w.Run(tick)
		s.hold(f, lead, "MsgAppResp", "quorumlease.Report")
		s.hold(lead, g, "MsgApp")
		before := lead.replica.Status().Commit
		s.success(300*time.Millisecond, "a put", s.put(f, "k", "new"))
		if lead.replica.Status().Commit != before {
			s.fatalf("the leader knows")
		}
		reads := []*call{s.readKey(g, "k", "new"), s.readKey(lead, "k", "new"), s.readKey(f, "k", "new")}
		s.w.Run(50 * time.Millisecond)
		s.mend()
		for _, r := range reads {
			s.success(2*time.Second, "a read", r)
		}
	}},
	{name: "leader-that-knows-less-under-its-lease", members: 5, policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// the same, when the leader holds the key and makes no round.
		lead, f, g, x := s.members[0], s.members[1], s.members[2], s.members[3]
		s.divide("default = 1")
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.ask(lead)
		s.until(time.Second, "the leader has promises", func() bool { return lead.replica.Status().ReadLeases.Left != 0 })
		s.w.Run(3 * tick)
		s.hold(f, lead, "MsgAppResp", "quorumlease.Report")
		s.hold(x, lead, "MsgAppResp", "quorumlease.Report")
		s.hold(lead, g, "MsgApp")
		s.hold(lead, s.members[4], "MsgApp")
		before := lead.replica.Status().Commit
		s.success(300*time.Millisecond, "a put", s.put(f, "k", "new"))
		if lead.replica.Status().Commit != before {
			s.fatalf("the leader knows")
		}
		read := s.readKey(g, "k", "new")
		s.w.Run(50 * time.Millisecond)
		s.mend()
		s.success(2*time.Second, "a read", read)
	}},
	{name: "lease-that-the-leader-has-not-heard-of", policy: "leader/key", play: func(s *stage) {
		// The same of a lease: a renewal must not be told that there is none.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.w.Run(tick)
		s.hold(f, lead, "MsgAppResp", "quorumlease.Report")
		s.hold(lead, g, "MsgApp")
		l := &held{id: 7, ttl: 5 * time.Second}
		s.checks.leases[l.id] = l
		sent := s.w.Now()
		s.success(300*time.Millisecond, "a grant", s.grantCall(f, l))
		l.trust(sent, 0)
		a := s.renew(f, l)
		s.w.Run(50 * time.Millisecond)
		s.mend()
		s.renewed(2*time.Second, a)
	}},
}

// silent loses all that a leader says to a member but entries and reports.
func (s *stage) silent(lead, to *Member) {
	take := s.net.Take
	s.net.Take = func(env machine.Envelope) bool {
		if env.From == lead.ID && env.To == to.ID {
			m, ok := env.Body.(interface {
				GetType() raftpb.MessageType
				GetEntries() []*raftpb.Entry
			})
			if ok && (m.GetType() != raftpb.MsgApp || len(m.GetEntries()) == 0) || kindOf(env.Body) == "quorumlease.News" {
				return true
			}
		}
		return take(env)
	}
}

// readKey reads a key, in key order, and wants it to be fresh.
func (s *stage) readKey(m *Member, key, want string) *call {
	c := &call{}
	m.readKeys(keyspan.Set{{Key: []byte(key)}}, func(v kv.View) {
		c.done, c.ok = true, true
		if c.value, _ = lookUp(v, key); c.value != want {
			s.checks.fail(s.w, "stale read: %s is %q at member %d, want %q", key, c.value, m.ID, want)
		}
	})
	return c
}
