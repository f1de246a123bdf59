package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// orderScripts are of entries that depend on each other, of members that do not know the held
// entries, and of changes from one order to the other.
var orderScripts = []script{
	{name: "guard-changes-before-what-it-guards", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R25. While A has the lock it puts the data; that is held, for a holder of the
		// data does not know. Were B shown the lock before, it would find old data, and
		// A's put would be made after all.
		lead, f, h := s.three()
		s.divide("key:data = 1,3; default = 1")
		s.success(time.Second, "the lock", s.put(lead, "lock", "A"))
		s.success(time.Second, "the data", s.put(lead, "data", "10"))
		s.reader(h, "data")
		s.hold(lead, h, growth...)
		guarded := s.putIf(lead, "lock", "A", "data", "11")
		s.w.Run(20 * time.Millisecond)
		lock := s.put(f, "lock", "B")
		s.until(4*time.Second, "the lock is B's", func() bool {
			h.readKeys(keyspan.Set{{Key: []byte("data")}}, func(kv.View) {})
			return lock.done
		})
		r := s.readKey(h, "data", "11")
		s.mend()
		s.success(5*time.Second, "the guarded put", guarded)
		s.success(5*time.Second, "a read of the data", r)
	}},
	{name: "guards-are-shared", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R24. Two entries that look at one key and change others do not wait for each other,
		// nor does a reader of the key that they look at.
		lead, f, h := s.three()
		s.divide("key:data = 1,3; default = 1,2")
		s.success(time.Second, "the lock", s.put(lead, "lock", "A"))
		s.reader(h, "data")
		s.reader(f, "lock")
		s.hold(lead, h, growth...)
		guarded := s.putIf(lead, "lock", "A", "data", "11")
		s.w.Run(20 * time.Millisecond)
		s.success(200*time.Millisecond, "another on the same condition", s.putIf(lead, "lock", "A", "log", "1"))
		before := f.local
		s.success(20*time.Millisecond, "a read of the lock", s.readKey(f, "lock", "A"))
		if f.local == before || guarded.done {
			s.fatalf("the lock was not read at its holder, or nothing was held")
		}
	}},
	{name: "two-keys-released-out-of-order", members: 5, policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R26. A put of a is held, and a later one of b is not, but the reader's log does not
		// have that yet when it hears that a is released. A reader of both together finds
		// either none of them or both, for b without a has been seen.
		lead, far, h := s.members[0], s.members[3], s.members[4]
		s.divide("key:a = 1,5; default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "a", "old"))
		s.success(time.Second, "a put", s.put(lead, "b", "old"))
		s.reader(h, "a")
		late := s.hold(lead, h, growth...)
		a := s.put(lead, "a", "new")
		s.until(time.Second, "all others have it", func() bool { return far.state.Index() == lead.state.Index() })
		both := s.readBoth(far)
		s.w.Run(20 * time.Millisecond)
		s.hold(lead, far, growth...)
		s.put(lead, "b", "new")
		s.w.Run(100 * time.Millisecond)
		if a.done {
			s.fatalf("the first put is not held")
		}
		late.release()
		s.until(time.Second, "the first put", func() bool { return a.done })
		s.w.Run(50 * time.Millisecond)
		s.mend()
		s.success(5*time.Second, "a read of both", both)
	}},
	{name: "example-of-r27", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R27, as package replica tells it. The put of b, which a holder that is cut off does
		// not have, waits, and that of a behind it is answered. A reader that has seen a may
		// then find b as it was before. A reader of both together never does; and in strict
		// order none does.
		lead, f, h := s.three()
		s.divide("key:b = 1,3; default = 1,2")
		both := func(m *Member) *call {
			c := &call{}
			m.readKeys(keyspan.Set{{Key: []byte("a")}, {Key: []byte("b")}}, func(v kv.View) {
				a, _ := lookUp(v, "a")
				b, _ := lookUp(v, "b")
				if c.done, c.ok = true, true; a > b {
					s.checks.fail(s.w, "of a and b member %d reads %q and %q together", m.ID, a, b)
				}
			})
			return c
		}
		puts := func(value string) (b, a *call) {
			b = s.put(lead, "b", value)
			s.w.Run(20 * time.Millisecond)
			return b, s.put(lead, "a", value)
		}
		b, a := puts("1")
		s.success(time.Second, "a put", b)
		s.success(time.Second, "a put", a)
		s.reader(h, "b")
		s.hold(lead, h, growth...)
		b, a = puts("2")
		s.success(200*time.Millisecond, "the put behind the one that is held", a)
		s.success(200*time.Millisecond, "a read of a", s.readKey(f, "a", "2"))
		s.success(200*time.Millisecond, "a later read of b", s.readKey(h, "b", "1"))
		if b.done {
			s.fatalf("nothing was held: the example does not happen")
		}
		var reads []*call
		for _, m := range s.members {
			reads = append(reads, both(m))
		}
		s.w.Run(50 * time.Millisecond)
		s.mend()
		for _, r := range append(reads, b) {
			s.success(5*time.Second, "what waited", r)
		}
		s.order("all")
		s.holding(h)
		s.hold(lead, h, growth...)
		b, a = puts("3")
		s.never(200*time.Millisecond, "a put is answered before the one that it is behind", func() bool { return a.done && !b.done })
		s.success(200*time.Millisecond, "a read at the holder", s.readKey(h, "a", "2"))
		for _, m := range s.members {
			both(m)
		}
		s.mend()
		s.success(5*time.Second, "both", b)
		s.success(time.Second, "both", a)
	}},
	{name: "branch-that-is-not-taken", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R20. Which branch a transaction takes is known when it is applied, and not
		// when its entry is appended.
		lead, _, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		c := &call{}
		lead.propose(&pb.TxnRequest{
			Compare: []*pb.Compare{{Key: []byte("lock"), Target: pb.Compare_VERSION, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_Version{}}},
			Success: []*pb.RequestOp{putOf("log", "1")}, Failure: []*pb.RequestOp{putOf("k", "new")},
		}, c.end)
		s.heldFor(h, "k", "new", c)
	}},
	{name: "lease-that-ends-with-a-key", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R20. The entry names a lease, and no key.
		lead, _, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.grant(lead, 7, 60).revoked = true // soon
		s.success(time.Second, "a put", s.put(lead, "k", "v", 7))
		s.w.Run(2 * tick)
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		c := &call{}
		lead.propose(&pb.LeaseRevokeRequest{ID: 7}, c.end)
		s.heldFor(h, "k", "", c)
	}},
	{name: "lease-that-ends-without-a-key", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R20, R24. It is not everybody's affair.
		lead, _, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.grant(lead, 7, 60).revoked = true
		s.success(time.Second, "a put", s.put(lead, "other", "v", 7))
		s.w.Run(2 * tick)
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		held := s.put(lead, "k", "new")
		c := &call{}
		lead.propose(&pb.LeaseRevokeRequest{ID: 7}, c.end)
		s.success(200*time.Millisecond, "the end of the lease", c)
		s.success(200*time.Millisecond, "another put", s.put(lead, "other", "w"))
		if held.done {
			s.fatalf("nothing was held")
		}
	}},
	{name: "published-is-what-is-released", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R28. Watchers and serializable readers see a prefix of the log, and
		// compactions are part of it.
		lead, f, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		held := s.put(lead, "k", "new")
		s.success(200*time.Millisecond, "another put", s.put(lead, "z", "1"))
		compacted := &call{}
		lead.propose(&pb.CompactionRequest{Revision: 2}, compacted.end)
		s.never(300*time.Millisecond, "what is held is published", func() bool {
			for _, m := range []*Member{lead, f} {
				if value, _ := lookUp(m.view().View, "k"); value != "old" {
					return true
				}
			}
			return held.done || compacted.done
		})
		s.mend()
		s.success(5*time.Second, "the compaction", compacted)
	}},
	{name: "applier-behind-what-is-released", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// The released entry is in the holder's log, and not in its state yet.
		lead, _, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		h.stall()
		s.success(time.Second, "a put", s.put(lead, "k", "new"))
		s.w.Run(tick)
		r := s.readKey(h, "k", "new")
		s.w.Run(50 * time.Millisecond)
		h.resume()
		s.success(time.Second, "the read", r)
	}},
	{name: "strict-lease-behind-a-change", policy: "all/key", length: time.Second, play: func(s *stage) {
		// R13. The holder's log says that it holds nothing, and its applier is slow.
		lead, _, h := s.three()
		s.order("all")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.holding(h)
		h.stall()
		lead.setCells(s.cells("default = 1"), func() {})
		s.until(time.Second, "the change is in force", func() bool { return lead.state.ReadPolicy().ByKey() })
		s.hold(lead, h)
		s.success(200*time.Millisecond, "a put that need not wait for it", s.put(lead, "k", "new"))
		r, asked := s.readKey(h, "k", "new"), s.askKey(h, "k", "new")
		s.w.Run(20 * time.Millisecond)
		s.mend()
		h.resume()
		s.success(5*time.Second, "the read", r)
		s.success(5*time.Second, "the read by keys", asked)
	}},
	{name: "strict-lease-behind-a-snapshot", policy: "all/key", length: 2 * time.Second, play: func(s *stage) {
		// The same, and the change is in a snapshot that is being loaded.
		lead, _, h := s.three()
		s.order("all")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.overtake(lead, h, func() {
			lead.setCells(s.cells("default = 1"), func() {})
		})
		s.hold(lead, h, growth...)
		s.success(300*time.Millisecond, "a put that need not wait for it", s.put(lead, "k", "new"))
		r, asked := s.readKey(h, "k", "new"), s.askKey(h, "k", "new")
		s.w.Run(5 * time.Millisecond)
		h.resume()
		s.w.Run(20 * time.Millisecond)
		s.mend()
		s.success(5*time.Second, "the read", r)
		s.success(5*time.Second, "the read by keys", asked)
	}},
	{name: "lease-behind-a-snapshot-with-another-division", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// The same in key order: by the member's present knowledge it holds the key.
		lead, _, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.w.Run(2 * tick)
		s.overtake(lead, h, func() {
			lead.setCells(s.cells("default = 1"), func() {})
		})
		s.hold(lead, h, growth...)
		s.success(300*time.Millisecond, "a put that need not wait for it", s.put(lead, "k", "new"))
		r := s.askKey(h, "k", "new")
		s.w.Run(20 * time.Millisecond)
		h.resume()
		s.w.Run(20 * time.Millisecond)
		s.mend()
		s.success(5*time.Second, "the read", r)
	}},
	{name: "follower-that-restarts-among-held", policy: "static/key", length: 3 * time.Second, play: func(s *stage) {
		// R16. Its snapshot has held entries, and it does not know of which keys.
		lead, f, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		held := s.put(lead, "k", "new")
		s.w.Run(20 * time.Millisecond)
		s.success(time.Second, "another put", s.put(lead, "z", "1"))
		s.until(time.Second, "the follower has it", func() bool { return f.state.Index() == lead.state.Index() })
		s.restart(f)
		s.w.Run(300 * time.Millisecond)
		r := s.readKey(f, "k", "new")
		s.never(200*time.Millisecond, "what is held is shown", func() bool {
			s.readKey(h, "k", "old")
			return r.done || held.done
		})
		s.mend()
		s.success(5*time.Second, "the read", r)
	}},
	{name: "leader-that-restarted-among-held", members: 5, policy: "static/key", length: 5 * time.Second, play: func(s *stage) {
		// R16, R19. It does not know the held entries, and must not report that all else is
		// released.
		lead, f, g, h := s.members[0], s.members[1], s.members[2], s.members[4]
		s.divide("key:k = 1,5; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		s.hold(nil, h, growth...)
		held := s.put(g, "k", "new")
		s.w.Run(20 * time.Millisecond)
		s.success(time.Second, "another put", s.put(lead, "z", "1"))
		s.until(time.Second, "the next leader has it", func() bool { return f.state.Index() == lead.state.Index() })
		f.takeSnapshot()
		s.w.Run(400 * time.Millisecond)
		f.crash()
		s.cutOff(lead)
		f.startUp()
		for _, o := range s.members {
			o.Step(replica.Down{Node: lead.ID})
		}
		s.until(4*time.Second, "the one that restarted leads", func() bool {
			for _, o := range s.members[2:] {
				if o.leads() {
					s.transfer(o, f)
				}
			}
			s.w.Run(10 * time.Millisecond)
			return f.leads()
		})
		s.w.Run(30 * time.Millisecond)
		r := s.readKey(g, "k", "new")
		s.never(300*time.Millisecond, "what is held is shown", func() bool {
			s.readKey(h, "k", "old")
			return r.done || held.done
		})
		s.mend()
		s.success(6*time.Second, "the read", r)
	}},
	{name: "deposed-leader-that-holds-no-key", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// Leases of clients belong to no holder's keys: the next leader grants and revokes
		// them, whatever promises were made to the one before.
		lead, f, g := s.three()
		s.divide("default = 3")
		s.ask(lead)
		s.until(time.Second, "the leader has promises", func() bool { return lead.replica.Status().ReadLeases.Left != 0 })
		s.cutOff(lead)
		f.Step(replica.Down{Node: lead.ID})
		g.Step(replica.Down{Node: lead.ID})
		s.until(time.Second, "another leader", func() bool { return f.leads() || g.leads() })
		l := &held{id: 77, ttl: time.Minute}
		s.checks.leases[l.id] = l
		sent := s.w.Now()
		s.success(10*time.Second, "a grant", s.grantCall(f, l))
		l.trust(sent, 0)
		a := s.renew(lead, l)
		s.w.Run(50 * time.Millisecond)
		s.mend()
		s.renewed(10*time.Second, a)
	}},
	{name: "deposed-leader-is-asked-for-keys", members: 5, policy: "static/key", length: 500 * time.Millisecond, play: func(s *stage) {
		// R29. Under its lease a leader answers for the keys that it holds, for as long as
		// the lease lasts. Others may be written meanwhile under the next leader.
		lead, h := s.members[0], s.members[4]
		lead.setCells(s.cells("key:k = 2; default = 1"), func() {})
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.success(time.Second, "a put", s.put(lead, "j", "old"))
		s.w.Run(3 * tick)
		s.ask(lead)
		s.until(time.Second, "the leader has promises", func() bool { return lead.replica.Status().ReadLeases.Left != 0 })
		for _, o := range s.members[1:4] {
			for _, m := range []*Member{lead, h} {
				s.hold(o, m)
				s.hold(m, o)
			}
		}
		for _, o := range s.members[1:4] {
			o.Step(replica.Down{Node: lead.ID})
		}
		s.success(20*time.Millisecond, "a read of what the leader holds", s.readKey(h, "j", "old"))
		s.until(time.Second, "another leader", func() bool { return s.leaderBut(lead) != nil })
		next := s.leaderBut(lead)
		s.success(time.Second, "a put to what it does not hold", s.put(next, "k", "new"))
		put := s.put(next, "j", "new")
		late := s.readKey(h, "k", "new")
		s.w.Run(20 * time.Millisecond)
		s.success(20*time.Millisecond, "a read of what it holds", s.readKey(h, "j", "old"))
		s.until(5*time.Second, "its lease has ended", func() bool { return put.done })
		later := s.readKey(h, "j", "new")
		s.w.Run(20 * time.Millisecond)
		s.mend()
		s.success(5*time.Second, "the reads", late)
		s.success(5*time.Second, "the reads", later)
	}},
	{name: "asked-in-order-shown-by-key", members: 5, policy: "all/key", length: 2 * time.Second, play: func(s *stage) {
		// The member's replica is in strict order yet and names a state that may be seen; by
		// the time of the look there is more in it, which is held.
		lead, f, h := s.members[0], s.members[1], s.members[4]
		s.order("all")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.holding(h)
		s.holding(f)
		f.stall()
		lead.setCells(s.cells("key:k = 1,2,5; default = 1,2"), func() {})
		s.until(time.Second, "the change is in force", func() bool { return lead.state.ReadPolicy().ByKey() })
		s.w.Run(20 * time.Millisecond)
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		held := s.put(lead, "k", "new")
		s.w.Run(5 * time.Millisecond)
		r := s.askKey(f, "k", "")
		s.w.Run(5 * time.Millisecond)
		f.resume()
		s.w.Run(100 * time.Millisecond)
		if r.done && r.value == "new" && !held.done {
			s.fatalf("what is held is shown")
		}
	}},
	{name: "report-of-an-end-is-lost", policy: "static/key", length: 500 * time.Millisecond, play: func(s *stage) {
		// A member that was bound reports once that it is not any more; if the report is lost,
		// it comes again.
		lead, f, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		s.hold(h, nil, "quorumlease.Request")
		lost := s.hold(f, lead, "quorumlease.Report")
		p := s.put(lead, "k", "new")
		s.until(3*time.Second, "the report is lost", func() bool { return len(lost.held) > 0 })
		lost.away()
		s.success(2*time.Second, "the put", p)
	}},
	{name: "what-was-shown-stays", policy: "static/key", length: 3 * time.Second, play: func(s *stage) {
		// A compaction is applied while an entry before it is held: the state that readers and
		// watchers see meanwhile is older than that, and must be there.
		lead, _, h := s.three()
		s.divide("key:k = 1,3; default = 1")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		s.hold(lead, h, growth...)
		held := s.put(lead, "k", "new")
		s.w.Run(20 * time.Millisecond)
		for range 5 {
			s.success(200*time.Millisecond, "another put", s.put(lead, "z", "1"))
		}
		lead.propose(&pb.CompactionRequest{Revision: lead.state.Store().Revision()}, func(replica.Result, error) {})
		s.never(time.Second, "what was published is gone", func() bool {
			lead.apply()
			_, err := lead.view().Range(&pb.RangeRequest{Key: []byte("z")})
			return err != nil || held.done
		})
	}},
}

// readBoth reads a and b together: a reader that sees a new must not see b old.
func (s *stage) readBoth(m *Member) *call {
	c := &call{}
	bFirst := false // b was seen new before a was released
	s.w.After(60*time.Millisecond, func() {
		s.members[1].readKeys(keyspan.Set{{Key: []byte("b")}}, func(v kv.View) {
			b, _ := lookUp(v, "b")
			s.members[4].readKeys(keyspan.Set{{Key: []byte("a")}}, func(v kv.View) {
				a, _ := lookUp(v, "a")
				bFirst = bFirst || b == "new" && a == "old"
			})
		})
	})
	m.readKeys(keyspan.Set{{Key: []byte("a")}, {Key: []byte("b")}}, func(v kv.View) {
		c.done, c.ok = true, true
		a, _ := lookUp(v, "a")
		b, _ := lookUp(v, "b")
		if a == "new" && b == "old" && bFirst {
			s.checks.fail(s.w, "member %d sees the first put without the second, which was seen before it", m.ID)
		}
	})
	return c
}

// putIf puts a key if another holds a value.
func (s *stage) putIf(m *Member, guard, holds, key, value string) *call {
	c := &call{}
	put := &pb.PutRequest{Key: []byte(key), Value: []byte(value)}
	m.propose(&pb.TxnRequest{
		Compare: []*pb.Compare{{
			Key: []byte(guard), Target: pb.Compare_VALUE, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_Value{Value: []byte(holds)},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: put}}},
	}, c.end)
	return c
}

func putOf(key, value string) *pb.RequestOp {
	put := &pb.PutRequest{Key: []byte(key), Value: []byte(value)}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}}
}

// heldFor wants a change of a key to wait for a holder that does not hear of it; were it
// done, the holder would have to read it.
func (s *stage) heldFor(h *Member, key, want string, c *call) {
	s.t.Helper()
	s.w.Run(300 * time.Millisecond)
	if c.done {
		r := s.readKey(h, key, want)
		s.w.Run(50 * time.Millisecond)
		s.fatalf("it did not wait for %s, who reads %q", h.Lane, r.value)
	}
	s.mend()
	s.success(5*time.Second, "the change", c)
	s.success(time.Second, "a read", s.readKey(h, key, want))
}

// order changes the policy and waits until all members know.
func (s *stage) order(policy string) {
	s.t.Helper()
	s.members[0].propose(wrapperspb.String(policy), func(replica.Result, error) {})
	s.until(5*time.Second, "policy "+policy, func() bool {
		for _, m := range s.members {
			if string(m.state.ReadPolicy()) != policy {
				return false
			}
		}
		return true
	})
	s.w.Run(2 * tick)
}

// overtake cuts a member off while something happens and the log goes on without it,
// until it needs a snapshot. Then it has a lease, and its applier stands still before
// that snapshot.
func (s *stage) overtake(lead, m *Member, f func()) {
	s.t.Helper()
	s.cutOff(m)
	s.w.Run(2500 * time.Millisecond) // the promises to it are over
	f()
	s.fill(lead, 256)
	s.w.Run(time.Second)
	lead.takeSnapshot()
	s.w.Run(time.Second)
	m.stall()
	s.mend()
	s.until(10*time.Second, m.Lane+" has a lease before its snapshot is loaded", func() bool {
		s.ask(m)
		return m.replica.Status().ReadLeases.Left != 0
	})
	s.w.Run(2 * tick)
	if m.state.Index() >= lead.state.Index() {
		s.fatalf("%s has loaded the snapshot", m.Lane)
	}
}

// restart has a member start again from a snapshot of its applied state.
func (s *stage) restart(m *Member) {
	m.takeSnapshot()
	s.w.Run(400 * time.Millisecond)
	m.crash()
	m.startUp()
}

// askKey asks the replica for a read in key order, whatever policy its member knows of;
// it wants a value, unless that is empty.
func (s *stage) askKey(m *Member, key, want string) *call {
	c := &call{}
	keys := keyspan.Set{{Key: []byte(key)}}
	m.askKeys(keys, func(v kv.View) {
		c.done, c.ok = true, true
		if c.value, _ = lookUp(v, key); want != "" && c.value != want {
			s.checks.fail(s.w, "stale read: %s is %q at member %d, want %q", key, c.value, m.ID, want)
		}
	})
	return c
}
