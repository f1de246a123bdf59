package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/raft/v3/raftpb"
)

// leaderScripts: the choice of a leader, and how soon.
var leaderScripts = []script{
	{name: "process-died", play: func(s *stage) {
		lead, f, _ := s.three()
		s.kill(lead)
		s.success(300*time.Millisecond, "a put under the next leader", s.put(f, "k", "v"))
	}},
	{name: "two-of-five-died", members: 5, play: func(s *stage) {
		// All messages take the same time, so that members that campaign together split the
		// vote.
		s.net.Min, s.net.Max = 5*time.Millisecond, 5*time.Millisecond
		s.hold(s.members[0], nil)
		s.w.Run(6 * time.Millisecond) // its messages have arrived
		s.kill(s.members[1])
		s.kill(s.members[0])
		s.success(200*time.Millisecond, "a put under the next leader", s.put(s.members[4], "k", "v"))
	}},
	{name: "one-died-of-five-far-apart", members: 5, play: func(s *stage) {
		// A vote takes longer than a member waits before it asks for another.
		s.net.Min, s.net.Max = 140*time.Millisecond, 140*time.Millisecond
		s.kill(s.members[0])
		s.success(3*time.Second, "a put under the next leader", s.put(s.members[4], "k", "v"))
	}},
	{name: "one-is-wrong-about-a-death", play: func(s *stage) {
		lead, f, g := s.three()
		term := lead.replica.Status().Term
		f.Step(replica.Down{Node: lead.ID})
		s.w.Run(50 * time.Millisecond)
		s.success(time.Second, "a put", s.put(f, "k", "v"))
		s.success(time.Second, "a put", s.put(g, "k", "v"))
		if st := lead.replica.Status(); st.Leader != lead.ID || st.Term != term {
			s.fatalf("member %d leads term %d, want the old leader in term %d", st.Leader, st.Term, term)
		}
	}},
	{name: "all-are-wrong-about-a-death", play: func(s *stage) {
		lead, f, g := s.three()
		l := s.grant(lead, 1, 3)
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.success(time.Second, "a put", s.put(lead, "k", "v"))
		s.renewed(time.Second, s.renew(lead, l))
		s.w.Run(2 * time.Second)
		s.success(time.Second, "a put", s.put(f, "k", "v"))
	}},
	{name: "told-of-its-own-term", play: func(s *stage) {
		// The earlier leader hears of a later term that it leads itself by now.
		_, f, g := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "v"))
		s.transfer(s.members[0], f)
		s.until(time.Second, "the follower leads", f.leads)
		s.cutOff(g)
		s.transfer(f, s.members[0])
		lead := s.members[0]
		s.until(2*time.Second, "it leads again", lead.leads)
		from, to, term := uint64(g.ID), uint64(lead.ID), lead.replica.Status().Term
		lead.Receive(machine.Envelope{From: g.ID, To: lead.ID, Body: &raftpb.Message{
			Type: raftpb.MsgAppResp.Enum(), From: &from, To: &to, Term: &term,
		}})
		s.w.Run(tick)
		s.mend()
		s.success(time.Second, "a put", s.put(lead, "k", "w"))
		s.until(3*time.Second, "the other catches up", func() bool { return g.state.Index() == lead.state.Index() })
	}},
	{name: "back-from-isolation", play: func(s *stage) {
		// It must not depose the leader that the others are content with.
		lead, f, _ := s.three()
		term := lead.replica.Status().Term
		s.cutOff(f)
		s.w.Run(8 * time.Second)
		s.mend()
		s.w.Run(3 * time.Second)
		if st := f.replica.Status(); st.Leader != lead.ID || st.Term != term {
			s.fatalf("member %d leads term %d, want member %d and term %d", st.Leader, st.Term, lead.ID, term)
		}
	}},
	{name: "leader-without-a-majority", play: func(s *stage) {
		lead, _, _ := s.three()
		s.cutOff(lead)
		s.until(3*time.Second, "it notices", func() bool { return lead.replica.Status().Leader == 0 })
	}},
	{name: "hand-over", play: func(s *stage) {
		lead, f, g := s.three()
		puts := []*call{s.put(lead, "a", "v"), s.put(f, "b", "v"), s.put(g, "c", "v")}
		lead.Step(replica.HandOver{})
		puts = append(puts, s.put(lead, "d", "v"), s.put(f, "e", "v"), s.put(g, "f", "v"))
		for _, p := range puts {
			s.success(500*time.Millisecond, "a put over the hand-over", p)
		}
		if lead.leads() {
			s.fatalf("leadership was not handed over")
		}
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			s.once(key)
		}
	}},
	{name: "restart-in-the-same-term", play: func(s *stage) {
		lead, f, _ := s.three()
		term := lead.replica.Status().Term
		s.w.Run(3 * tick)
		f.Disk.Forced = len(f.Disk.Durable) // so that it hears no news when it is back
		f.crash()
		f.startUp()
		s.success(time.Second, "a put through it", s.put(f, "k", "v"))
		s.success(time.Second, "a read through it", s.fresh(s.read(f, "k"), "v"))
		if st := f.replica.Status(); st.Term != term {
			s.fatalf("term %d, want %d as before", st.Term, term)
		}
	}},
}
