package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// cellScripts are of keys that are divided among holders, and of changes of that.
var cellScripts = []script{
	{name: "keys-taken-from-a-holder-that-is-cut-off", policy: "static/key", length: time.Second, play: func(s *stage) {
		// R13. It knows nothing of the change, and reads until its promises run out.
		lead, f, h := s.three()
		s.divide("default = 1,3")
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(h, "k")
		s.hold(lead, h)
		lead.setCells(s.cells("default = 1"), func() {})
		p, later := s.put(f, "k", "new"), (*call)(nil)
		s.w.Run(50 * time.Millisecond) // the change is committed
		later = s.put(f, "k", "newer")
		s.wantLapse(h, "k", p, "new", later, "newer")
	}},
	{name: "keys-taken-and-another-key-written", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R13. The change itself waits for a member that knows nothing of it: else no entry
		// would wait for that one any more.
		lead, f, h := s.three()
		s.divide("default = 1,3")
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(h, "k")
		s.hold(lead, h)
		s.hold(f, h)
		lead.setCells(s.cells("default = 1"), func() {})
		s.w.Run(100 * time.Millisecond) // the change is committed
		s.heldFor(h, "k", "new", s.put(f, "k", "new"))
	}},
	{name: "keys-taken-by-what-is-not-known-to-be-committed", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R13. The change is in its log, and that is all that the holder hears.
		lead, f, h := s.three()
		s.divide("default = 1,3")
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(h, "k")
		s.w.Run(tick)
		m := s.hold(lead, h)
		s.hold(f, h) // the member by whose word it would find out
		lead.setCells(s.cells("default = 1"), func() {})
		m.catch(1)
		for n := 0; kindOf(m.held[n].Body) != "MsgApp"; n++ {
			m.catch(n + 2)
		}
		for n := range m.held {
			if kindOf(m.held[n].Body) == "MsgApp" {
				m.pass(n)
				break
			}
		}
		s.until(500*time.Millisecond, "the change is released", func() bool { return f.state.ReadPolicy() != "" && s.inForce(f, "default = 1") })
		s.success(500*time.Millisecond, "a put that need not wait for it", s.put(f, "k", "new"))
		r := s.readKey(h, "k", "new")
		s.w.Run(100 * time.Millisecond)
		s.mend()
		s.success(3*time.Second, "the read", r)
	}},
	{name: "keys-given-by-what-is-not-committed", members: 5, policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R13. The change is in its log and will be cut off: no other has it.
		lead, next, h := s.members[0], s.members[1], s.members[4]
		lead.setCells(s.cells("key:x = 5; default = 2"), func() {})
		s.success(time.Second, "a put", s.put(next, "k", "old"))
		s.reader(h, "x")
		s.w.Run(tick)
		for _, m := range s.members[1:4] {
			s.hold(lead, m)
		}
		last := h.replica.Status().Last
		lead.setCells(s.cells("default = *"), func() {})
		s.until(300*time.Millisecond, "the holder-to-be has the change", func() bool { return h.replica.Status().Last > last })
		for _, m := range s.members {
			if m != h {
				s.hold(m, h)
			}
		}
		s.kill(lead)
		s.until(time.Second, "another leader", next.leads)
		s.success(time.Second, "a put that need not wait for it", s.put(next, "k", "new"))
		r := s.readKey(h, "k", "new")
		s.w.Run(100 * time.Millisecond)
		s.mend()
		s.success(5*time.Second, "the read", r)
	}},
	{name: "changes-in-a-row-and-another-leader", policy: "static/key", length: time.Second, play: func(s *stage) {
		// R13, R17. None of the changes is released while the holder cannot hear of them, and
		// the next leader lacks the knowledge of the one before.
		lead, f, h := s.three()
		s.divide("default = 1,3")
		s.success(time.Second, "a put", s.put(f, "k", "old"))
		s.reader(h, "k")
		s.w.Run(tick)
		s.hold(lead, h, growth...)
		s.hold(f, h)
		last := f.replica.Status().Last
		lead.setCells(s.cells("default = 1"), func() {})
		lead.setCells(s.cells("default = 1,2"), func() {})
		s.until(200*time.Millisecond, "the follower has both", func() bool { return f.replica.Status().Last > last+1 })
		s.transfer(lead, f)
		s.until(2*time.Second, "another leader", func() bool { return f.leads() && lead.follows(f) })
		f.setCells(s.cells("default = 2"), func() {})
		p := s.put(f, "k", "new")
		s.wantLapse(h, "k", p, "new", nil, "")
	}},
	{name: "nothing-is-held-no-promise-is-asked-for", policy: "static/key", play: func(s *stage) {
		_, f, h := s.three()
		s.divide("default = 1,2")
		s.success(time.Second, "a put", s.put(f, "k", "v"))
		s.w.Run(time.Second)
		for range 20 {
			s.success(time.Second, "a read", s.readKey(h, "k", "v"))
			if h.replica.Status().ReadLeases.Left != 0 {
				s.fatalf("a member that holds no keys has a lease")
			}
			s.w.Run(20 * time.Millisecond)
		}
	}},
	{name: "who-reads-most-holds", policy: "quorum/key", plan: 300 * time.Millisecond, play: func(s *stage) {
		// The leader hears of a holder's local reads only by its counts; of another
		// member's reads it hears each.
		_, f, g := s.three()
		s.success(time.Second, "a put", s.put(f, "k", "v"))
		local := 0
		for i := range 600 {
			before := f.local
			s.success(time.Second, "a read", s.readKey(f, "k", "v"))
			if i >= 300 {
				local += f.local - before
			}
			if i%4 == 0 {
				s.success(time.Second, "a read elsewhere", s.readKey(g, "k", "v"))
			}
			s.w.Run(10 * time.Millisecond)
		}
		if local < 280 {
			s.fatalf("of 300 reads where most are made, %d were local", local)
		}
	}},
	{name: "next-leader-holds-all", policy: "quorum/key", plan: time.Hour, play: func(s *stage) {
		// It takes over the configuration in force, and itself, before it plans.
		lead, f, _ := s.three()
		s.divide("default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "v"))
		s.lead(f)
		s.reader(f, "k")
	}},
	{name: "plan-of-a-leader-that-was", policy: "cost/key", plan: 200 * time.Millisecond, play: func(s *stage) {
		// A plan that was under way when it ceased to lead hinders no later plan.
		lead, f, g := s.three()
		s.success(time.Second, "a put", s.put(lead, "k", "v"))
		for range 5 {
			s.lead(f)
			s.lead(lead)
		}
		s.until(5*time.Second, "a plan by which the readers hold", func() bool {
			before := g.local
			s.success(time.Second, "a read", s.readKey(g, "k", "v"))
			s.w.Run(10 * time.Millisecond)
			return g.local > before && lead.replica.Status().ReadLeases.Cells != nil
		})
	}},
}

// cells are a configuration as text says it.
func (s *stage) cells(text string) *placement.Configuration {
	s.t.Helper()
	conf, err := placement.Parse(text, s.names())
	if err != nil {
		s.fatalf("%v", err)
	}
	return conf
}

// divide divides the keys and waits until all members know.
func (s *stage) divide(text string) {
	s.t.Helper()
	if !s.Divide(text) {
		s.fatalf("%s is not in force", text)
	}
	s.w.Run(2 * tick)
}

// inForce reports whether a member has applied a configuration that is released.
func (s *stage) inForce(m *Member, text string) bool {
	st := m.replica.Status()
	return st.ReadLeases.Cells != nil && st.ReadLeases.Cells.Equal(s.cells(text)) && st.ReadLeases.Released >= st.Commit
}

// reader waits until a member reads a key by itself.
func (s *stage) reader(m *Member, key string) {
	s.t.Helper()
	before := m.local
	s.until(2*time.Second, m.Lane+" reads by itself", func() bool {
		m.readKeys(keyspan.Set{{Key: []byte(key)}}, func(kv.View) {})
		return m.local > before
	})
}

// wantLapse has a member read a key all the time while writes to it wait, and wants that it reads
// the written value once that is done. The writes end when its promises do.
func (s *stage) wantLapse(m *Member, key string, p *call, want string, q *call, then string) {
	s.t.Helper()
	before := m.local
	s.until(4*time.Second, "the writes", func() bool {
		switch {
		case q != nil && q.done:
			s.readKey(m, key, then)
		case p.done && q == nil:
			s.readKey(m, key, want)
		case !p.done:
			m.readKeys(keyspan.Set{{Key: []byte(key)}}, func(kv.View) {})
		}
		return p.done && (q == nil || q.done)
	})
	if m.local == before {
		s.fatalf("%s read nothing by itself meanwhile", m.Lane)
	}
	if q != nil {
		want = then
	}
	r := s.readKey(m, key, want)
	s.w.Run(300 * time.Millisecond)
	s.mend()
	s.success(5*time.Second, "the read", r)
}
