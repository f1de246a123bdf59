package replicasim

import (
	"strings"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// heldScripts are of snapshots and restarts while something is held, in key order or
// between the orders.
var heldScripts = []script{
	{name: "order-changes-while-a-snapshot-waits", policy: "all/key", length: 2 * time.Second, play: func(s *stage) {
		// R16. The change to key order is applied when a later snapshot is still to be loaded:
		// nothing is known of the entries between them.
		lead, f, h := s.three()
		s.order("all")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(2 * tick)
		h.stall()
		lead.setCells(s.cells("default = 1,3"), func() {})
		s.until(2*time.Second, "the change is in force", func() bool { return lead.state.ReadPolicy().ByKey() && f.state.ReadPolicy().ByKey() })
		s.w.Run(2 * tick)
		s.overtake(lead, h, func() {
			s.success(5*time.Second, "the put", s.put(lead, "k", "new"))
		})
		s.applyOne(h)
		r := s.readKey(h, "k", "new")
		s.w.Run(50 * time.Millisecond)
		h.resume()
		s.success(5*time.Second, "the read", r)
	}},
	{name: "keys-of-a-lease-before-a-snapshot", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R20. An entry that is applied while a snapshot waits has the keys of leases as they
		// were.
		lead, _, h := s.three()
		s.divide("default = 1,2,3")
		l := s.grant(lead, 7, 600)
		l.revoked = true // soon
		s.success(time.Second, "a put", s.put(lead, "y", "1"))
		s.w.Run(2 * tick)
		h.stall()
		s.success(time.Second, "a put", s.put(lead, "y", "2"))
		s.w.Run(2 * tick)
		s.overtake(lead, h, func() {
			s.success(5*time.Second, "the put", s.put(lead, "k", "v", l.id))
		})
		s.applyOne(h)
		c := &call{}
		lead.propose(&pb.LeaseRevokeRequest{ID: l.id}, c.end)
		s.success(5*time.Second, "the end of the lease", c)
		s.w.Run(20 * time.Millisecond)
		r := s.readKey(h, "k", "")
		s.w.Run(20 * time.Millisecond)
		s.applyOne(h)
		s.w.Run(20 * time.Millisecond)
		h.resume()
		s.success(5*time.Second, "the read", r)
	}},
	{name: "overtaken-by-a-snapshot-while-held", members: 5, tail: 512 << 10, policy: "all/key", length: 4 * time.Second, play: func(s *stage) {
		// R2. In its strict order it has not given out the held entries; a snapshot comes, and
		// the entries before that have to be applied first.
		lead, f, h := s.members[0], s.members[1], s.members[4]
		s.order("all")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(2 * tick)
		f.stall()
		lead.setCells(s.cells("key:k = 1,5; default = 1"), func() {})
		s.until(2*time.Second, "the change is in force", func() bool { return lead.state.ReadPolicy().ByKey() && h.state.ReadPolicy().ByKey() })
		s.w.Run(2 * tick)
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		held := s.put(lead, "k", "new")
		s.w.Run(30 * time.Millisecond)
		s.overtakenBy(lead, f, func() bool { return len(f.applying) > 0 && f.restorePending() })
		for len(f.applying) > 0 {
			s.applyOne(f)
			if v := f.view(); v.index > 0 {
				if value, _ := lookUp(v.View, "k"); value == "new" && !held.done {
					s.fatalf("what is held is published")
				}
			}
		}
		s.mend()
	}},
	{name: "read-that-waits-while-a-snapshot-comes", members: 5, tail: 512 << 10, policy: "static/key", length: 4 * time.Second, play: func(s *stage) {
		// R16. The entry that it waits for is held, and the snapshot puts one held entry in the
		// place of all.
		lead, f, h := s.members[0], s.members[1], s.members[4]
		s.divide("key:k = 1,5; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		held := s.put(lead, "k", "new")
		s.w.Run(30 * time.Millisecond)
		r := s.readKey(f, "k", "new")
		s.w.Run(10 * time.Millisecond)
		s.overtakenBy(lead, f, func() bool {
			if r.done && !held.done {
				s.fatalf("the read found %q, which is held", r.value)
			}
			return held.done || f.state.Index() > 200
		})
		s.never(200*time.Millisecond, "the read found what is held", func() bool { return r.done && !held.done })
		s.mend()
		s.success(9*time.Second, "the put", held)
		s.success(9*time.Second, "the read", r)
	}},
	{name: "restarts-behind-a-holder-that-died", policy: "static/key", length: time.Second, play: func(s *stage) {
		// Its snapshot has all of the log, so that it acknowledges nothing; it still has to
		// report that it is bound to no member any more.
		lead, f, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		held := s.put(lead, "k", "new")
		s.w.Run(50 * time.Millisecond)
		s.restart(f)
		s.success(5*time.Second, "the put", held)
	}},
	{name: "silence-after-a-snapshot-of-both-orders", members: 5, policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// The cluster is back in strict order when the snapshot comes, and an entry in that is
		// held; then there are no writes.
		lead, f, held := s.heldBetweenOrders("key:k = 1,5; default = 1", "")
		s.until(6*time.Second, "it has the snapshot", func() bool { return f.state.Index() == lead.state.Index() })
		s.until(8*time.Second, "the put", func() bool { return held.done })
		s.mend()
		s.w.Run(2 * time.Second)
		s.success(3*time.Second, "a read", s.read(f, "k"))
	}},
	{name: "silence-after-a-snapshot-that-is-late", members: 5, policy: "all/key", length: 2 * time.Second, play: func(s *stage) {
		// It knows that all is released before it has loaded the snapshot, which says
		// that it is not.
		lead, f, held := s.heldBetweenOrders("key:k = 1,5; default = 1", "all")
		f.stall()
		s.until(8*time.Second, "the put", func() bool { return held.done })
		s.mend()
		s.w.Run(2 * time.Second)
		f.resume()
		s.w.Run(time.Second)
		s.success(3*time.Second, "a read", s.read(f, "k"))
		if f.state.Index() != lead.state.Index() {
			s.fatalf("it has not caught up")
		}
	}},
	{name: "silence-after-a-restart", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// The same of a snapshot of its own; the log knows that it is released.
		lead, f, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		held := s.put(lead, "k", "new")
		s.w.Run(20 * time.Millisecond)
		lead.propose(wrapperspb.String("all"), func(replica.Result, error) {})
		s.w.Run(50 * time.Millisecond)
		f.takeSnapshot()
		s.until(20*time.Second, "the put", func() bool { return held.done })
		s.mend()
		s.w.Run(3 * time.Second)
		f.Disk.Forced = len(f.Disk.Durable) // all of it was written
		f.crash()
		f.startUp()
		s.w.Run(3 * time.Second)
		s.success(3*time.Second, "a read", s.read(f, "k"))
	}},
	{name: "entry-replaced-by-one-that-is-held", members: 5, policy: "static/key", length: 3 * time.Second, play: func(s *stage) {
		// R8. A release at an index is of the entry that is there, and not of the one that was.
		lead, f, g, x, h := s.members[0], s.members[1], s.members[2], s.members[3], s.members[4]
		s.divide("key:k = 1,5; default = 2")
		s.success(time.Second, "a put", s.put(g, "k", "old"))
		s.reader(h, "k")
		for _, o := range []*Member{g, x, h} {
			s.hold(lead, o)
		}
		last := f.replica.Status().Last
		s.put(lead, "z", "1")
		s.w.Run(20 * time.Millisecond)
		s.put(lead, "z", "2")
		s.until(time.Second, "one follower has both", func() bool { return f.replica.Status().Last == last+2 })
		s.cutOff(lead)
		to, from := s.hold(nil, f), s.hold(f, nil)
		for _, o := range []*Member{g, x, h} {
			o.Step(replica.Down{Node: lead.ID})
		}
		s.until(2*time.Second, "another leader", func() bool { return g.leads() && x.follows(g) && h.follows(g) })
		s.until(time.Second, "its first entry", func() bool { return h.replica.Status().Last == last+1 })
		s.hold(g, h, growth...)
		held := s.put(g, "k", "new")
		to.away()
		from.away()
		s.until(3*time.Second, "the follower has it", func() bool { return f.state.Index() == last+2 })
		r := s.readKey(f, "k", "new")
		s.never(3500*time.Millisecond, "what is held is read", func() bool { return r.done || held.done })
		s.mend()
		s.success(9*time.Second, "the read", r)
	}},
	{name: "log-fills-while-a-key-is-held", members: 5, policy: "static/key", length: 4 * time.Second, play: func(s *stage) {
		// One snapshot is ahead of the released entries already; others' writes need the next.
		lead, h := s.members[0], s.members[4]
		s.divide("key:k = 1,5; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		held := s.put(lead, "k", "new")
		s.w.Run(30 * time.Millisecond)
		for n := 0; !held.done; n++ {
			s.success(time.Second, "a put of another key", s.put(lead, "other", strings.Repeat("x", 4096)))
		}
	}},
}

// applyOne lets a stalled applier do one thing.
func (s *stage) applyOne(m *Member) {
	m.resume()
	m.stall()
	s.w.Run(5 * time.Millisecond)
}

// restorePending reports whether a snapshot waits for the applier.
func (m *Member) restorePending() bool {
	for _, item := range m.applying {
		if _, ok := item.(replica.Restore); ok {
			return true
		}
	}
	return false
}

// overtakenBy lets the log go on without a member until it needs a snapshot, and waits
// until something happens.
func (s *stage) overtakenBy(lead, m *Member, happens func() bool) {
	s.t.Helper()
	entries := s.hold(lead, m, "MsgApp")
	s.fill(lead, 256)
	s.w.Run(300 * time.Millisecond)
	lead.takeSnapshot()
	s.w.Run(400 * time.Millisecond)
	entries.away()
	s.until(9*time.Second, m.Lane+" is overtaken", happens)
}

// heldBetweenOrders has a member without connections, to be sent a snapshot of strict
// order of which not everything is released; first it may be strict order, too.
func (s *stage) heldBetweenOrders(cells, first string) (lead, f *Member, held *call) {
	s.t.Helper()
	lead, f = s.members[0], s.members[1]
	h := s.members[4]
	if first != "" {
		s.order(first)
	} else {
		s.divide(cells)
	}
	s.success(time.Second, "a put", s.put(lead, "k", "old"))
	s.w.Run(2 * tick)
	to, from := s.hold(nil, f), s.hold(f, nil)
	s.w.Run(2500 * time.Millisecond)
	lead.setCells(s.cells(cells), func() {})
	s.until(5*time.Second, "key order", func() bool { return lead.state.ReadPolicy().ByKey() && h.state.ReadPolicy().ByKey() })
	s.fill(lead, 256)
	s.reader(h, "k")
	s.hold(lead, h, growth...)
	held = s.put(lead, "k", "new")
	s.w.Run(20 * time.Millisecond)
	lead.propose(wrapperspb.String("all"), func(replica.Result, error) {})
	s.w.Run(50 * time.Millisecond)
	for _, m := range []*Member{lead, s.members[2], s.members[3]} {
		m.takeSnapshot()
	}
	s.w.Run(400 * time.Millisecond)
	lead.takeSnapshot()
	s.w.Run(400 * time.Millisecond)
	to.away()
	from.away()
	return lead, f, held
}
