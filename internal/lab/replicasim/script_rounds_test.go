package replicasim

import "time"

// roundScripts: how many rounds of confirmation a read takes.
var roundScripts = []script{
	{name: "confirmed-and-not-committed", policy: "leader/key", play: func(s *stage) {
		// The leader is confirmed, and has to commit its log before it answers. It does
		// not ask again meanwhile; alone, it would do so for ever in one turn.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.w.Run(3 * tick)
		s.hold(nil, lead, "quorumlease.Promise") // a lease would confirm it
		acks := s.hold(f, lead, "MsgAppResp", "quorumlease.Report")
		s.hold(g, lead, "MsgAppResp", "quorumlease.Report")
		p := s.put(lead, "k", "v")
		acks.catch(1)
		r := s.read(lead, "k")
		n := s.count("MsgHeartbeat")
		s.w.Run(3 * tick)
		if p.done || r.done {
			s.fatalf("the put is committed")
		}
		if *n > 2*(3+2) {
			s.fatalf("%d heartbeats to two others in three ticks, for one read", *n)
		}
		acks.release()
		s.success(slack, "the put", p)
		s.success(slack, "the read", r)
	}},
}
