package replicasim

import (
	"time"

	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// keyLeaseScripts are of readers that answer by themselves in key order, by their member's
// publications, without a turn of it.
var keyLeaseScripts = []script{
	{name: "no-turn-for-a-read", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		lead, f, _ := s.three()
		s.divide("default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "k", "v"))
		s.reader(f, "k")
		s.w.Run(3 * tick)
		before := f.unasked
		for range 20 {
			s.success(20*time.Millisecond, "a read", s.readKey(f, "k", "v"))
		}
		if n := f.unasked - before; n != 20 {
			s.fatalf("of 20 reads where nothing is written %d took no turn", n)
		}
	}},
	{name: "what-its-log-has-is-asked-for", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R7, R9. Others have seen the put by the time, and the reader's member, which has
		// acknowledged it, has not heard so.
		lead, f, _ := s.three()
		s.divide("default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.unheard(f, "k")
		s.success(300*time.Millisecond, "a put", s.put(lead, "k", "new"))
		s.freshly(f, "k", "new")
	}},
	{name: "what-its-log-has-of-two-keys-is-asked-for", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R26. The same, of keys that are read together.
		lead, f, _ := s.three()
		s.divide("default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.unheard(f, "k")
		s.success(300*time.Millisecond, "a put", s.put(lead, "k", "new"))
		r := &call{}
		f.readKeys(keyspan.Set{{Key: []byte("j")}, {Key: []byte("k")}}, func(v kv.View) {
			r.done, r.ok = true, true
			if r.value, _ = lookUp(v, "k"); r.value != "new" {
				s.checks.fail(s.w, "stale read: of j and k member %d reads %q for k, want %q", f.ID, r.value, "new")
			}
		})
		s.w.Run(50 * time.Millisecond)
		s.mend()
		s.net.Take = s.take
		s.success(2*time.Second, "the read", r)
	}},
	{name: "range-that-its-log-deletes-is-asked-for", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		lead, f, _ := s.three()
		s.divide("default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.unheard(f, "k")
		s.success(300*time.Millisecond, "a delete", s.propose(lead, &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("z")}))
		s.freshly(f, "k", "")
	}},
	{name: "released-and-not-applied-is-waited-for", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R7, Q-2. The member knows that the put is released, and its state lacks it.
		lead, f, _ := s.three()
		s.divide("default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(f, "k")
		s.w.Run(3 * tick)
		f.stall()
		s.success(300*time.Millisecond, "a put", s.put(lead, "k", "new"))
		s.until(time.Second, "the other member knows", func() bool { return f.replica.Status().ReadLeases.Released >= lead.state.Index() })
		r := s.readKey(f, "k", "new")
		s.w.Run(50 * time.Millisecond)
		f.resume()
		s.success(time.Second, "the read", r)
	}},
	{name: "keys-of-others-are-asked-for", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R7. Writers of a key do not wait for a member that does not hold it.
		lead, f, h := s.three()
		s.divide("key:k = 1,3; default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(h, "k")
		s.reader(f, "j")
		s.hold(lead, f, growth...)
		s.success(300*time.Millisecond, "a put", s.put(lead, "k", "new"))
		s.freshly(f, "k", "new")
	}},
	{name: "keys-that-may-be-given-are-asked-for", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R13. The keys that an entry gives are not held before it is committed: another leader
		// may replace it, and waits for no member by it.
		lead, f, h := s.three()
		s.divide("key:k = 1; default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(f, "j")
		s.w.Run(2 * tick)
		s.hold(f, lead, "MsgAppResp", "quorumlease.Report")
		s.hold(lead, f, "quorumlease.Report")
		s.hold(lead, h, growth...)
		last := f.replica.Status().Last
		lead.setCells(s.cells("default = 1,2"), func() {})
		s.until(time.Second, "the member has it", func() bool { return f.replica.Status().Last > last })
		before := f.unasked
		f.readKeys(keyspan.Set{{Key: []byte("k")}}, func(kv.View) {})
		s.w.Run(20 * time.Millisecond)
		if f.unasked > before {
			s.fatalf("member %d reads by itself what nobody has given it yet", f.ID)
		}
		s.mend()
	}},
	{name: "given-back-is-asked-for", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R11. A member that doubts its clock gives its promises back, and no write waits for
		// it any more; its readers have to know at once.
		lead, f, _ := s.three()
		s.divide("default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(f, "k")
		s.w.Run(3 * tick)
		s.doubt(f, f.Now().Mono)
		s.w.Run(2 * tick)
		s.hold(lead, f, growth...)
		s.success(300*time.Millisecond, "a put", s.put(lead, "k", "new"))
		s.freshly(f, "k", "new")
	}},
	{name: "lease-that-has-ended-is-none", policy: "static/key", play: func(s *stage) {
		lead, f, _ := s.three()
		s.divide("default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "k", "old"))
		s.reader(f, "k")
		s.cutOff(f)
		s.success(time.Second, "a put", s.put(lead, "k", "new"))
		s.freshly(f, "k", "new")
	}},
	{name: "told-before-it-is-acknowledged", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R8. The put is answered in the moment in which its acknowledgment has come.
		lead, f, h := s.three()
		s.divide("default = 1,2")
		s.success(time.Second, "a put", s.put(lead, "k", "0"))
		s.reader(f, "k")
		s.w.Run(3 * tick)
		s.hold(lead, h, growth...)
		s.silent(lead, f)
		s.hold(lead, f, "quorumlease.Report")
		put := s.put(lead, "k", "1")
		for !put.done {
			s.w.Run(20 * time.Microsecond)
		}
		s.freshly(f, "k", "1")
	}},
}

// unheard has a member, which reads a key by itself, hear no word of the leader about releases,
// and none of others.
func (s *stage) unheard(f *Member, key string) {
	s.t.Helper()
	lead, _, h := s.three()
	s.reader(f, key)
	s.w.Run(3 * tick)
	s.silent(lead, f)
	s.hold(lead, f, "quorumlease.Report")
	s.hold(h, f)
}

// freshly has a member asked for a key while it hears little, and wants that it answers with
// the present value, or a later one.
func (s *stage) freshly(m *Member, key, want string) {
	s.t.Helper()
	r := s.readKey(m, key, want)
	s.w.Run(50 * time.Millisecond)
	s.mend()
	s.net.Take = s.take // no member is silent any more
	s.success(3*time.Second, "the read", r)
}
