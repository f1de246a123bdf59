package replicasim

import (
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/raft/v3/raftpb"
)

// accountScripts are of a member in key order that learns from others' accounts of their logs.
var accountScripts = []script{
	{name: "foreseen-of-an-earlier-term", members: 5, tail: 64 << 20, policy: "leader/key", play: func(s *stage) {
		// R30. A majority may have an entry of an earlier term, and say so in the leadership of
		// another leader; that does not commit it before an entry of this leadership is.
		lead, next := s.members[0], s.members[1]
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(2 * tick)
		for _, m := range s.members[2:] {
			s.hold(lead, m, growth...)
		}
		s.hold(next, lead, "MsgAppResp", "quorumlease.Report")
		before := next.replica.Status()
		s.put(lead, "k", strings.Repeat("x", 1<<20+1<<16))
		s.until(time.Second, "one other has it", func() bool { return next.replica.Status().Last > before.Last })
		large := next.replica.Status().Last
		s.mend()
		s.cutOff(lead)
		// Entries behind the large one come to no member that has it.
		s.net.Take = func(env machine.Envelope) bool {
			m, ok := env.Body.(interface {
				GetType() raftpb.MessageType
				GetEntries() []*raftpb.Entry
			})
			if ok && m.GetType() == raftpb.MsgApp && len(m.GetEntries()) > 0 && m.GetEntries()[0].GetIndex() > large && s.members[env.To-1].replica.Status().Last >= large {
				return true
			}
			return s.take(env)
		}
		for _, m := range s.members[2:] {
			m.Step(replica.Down{Node: lead.ID})
		}
		next.Step(replica.Down{Node: lead.ID})
		s.until(10*time.Second, "another leader", func() bool { return next.leads() })
		s.until(5*time.Second, "a majority has the entry", func() bool {
			return s.members[2].replica.Status().Last == large && s.members[3].replica.Status().Last == large
		})
		s.never(200*time.Millisecond, "an entry of an earlier term is taken for committed", func() bool {
			return s.members[2].replica.Status().Commit >= large || s.members[3].replica.Status().Commit >= large
		})
		s.mend()
		s.net.Take = s.take
	}},
}
