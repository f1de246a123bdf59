package replicasim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// sharingScripts are of requests that share entries in key order: those that wait for the
// same holders do, and none waits for a holder of another's keys.
var sharingScripts = []script{
	{name: "those-of-the-same-holders-share-entries", policy: "static/key", play: func(s *stage) {
		lead, f, _ := s.three()
		s.divide("key:far = 1,3; default = 1,2")
		before := lead.replica.Status().Last
		var puts []*call
		for i := range 60 {
			puts = append(puts, s.put(f, fmt.Sprintf("near%d", i), "v"))
		}
		for _, p := range puts {
			s.success(time.Second, "a put", p)
		}
		if n := lead.replica.Status().Last - before; n > 10 {
			s.fatalf("60 puts of one moment took %d entries, want at most 10", n)
		}
	}},
	{name: "nobody-waits-for-holders-of-another-s-keys", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		_, f, _ := s.three()
		s.farAway()
		s.apart(f, func(i int) *call { return s.put(f, "far", fmt.Sprint(i)) }, func(i int) *call { return s.put(f, fmt.Sprintf("near%d", i), "v") })
	}},
	{name: "nobody-waits-for-what-another-depends-on", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		lead, f, _ := s.three()
		s.farAway()
		s.put(lead, "far", "held")
		s.w.Run(20 * time.Millisecond)
		s.apart(f, func(i int) *call { return s.putIf(f, "far", "held", "near", fmt.Sprint(i)) }, func(i int) *call { return s.put(f, fmt.Sprintf("near%d", i), "v") })
	}},
	{name: "nobody-waits-with-who-decides-who-holds", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		_, f, _ := s.three()
		s.farAway()
		cells := wrapperspb.Bytes(s.cells("key:far = 1,3; default = 1,2").Encode())
		s.apart(f, func(int) *call { return s.propose(f, cells) }, func(i int) *call { return s.propose(f, &pb.LeaseGrantRequest{ID: int64(100 + i), TTL: 60}) })
	}},
	{name: "nobody-waits-with-the-end-of-a-lease", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		lead, f, h := s.three()
		s.divide("prefix:far = 1,3; default = 1,2")
		for i := range crowd {
			s.success(time.Second, "a grant", s.propose(lead, &pb.LeaseGrantRequest{ID: int64(1 + i), TTL: 60}))
			s.success(time.Second, "a put", s.put(lead, fmt.Sprintf("far%d", i), "v", int64(1+i)))
		}
		s.reader(h, "far0")
		s.hold(nil, h)
		s.apart(f, func(i int) *call { return s.propose(f, &pb.LeaseRevokeRequest{ID: int64(1 + i)}) }, func(i int) *call { return s.propose(f, &pb.LeaseGrantRequest{ID: int64(100 + i), TTL: 60}) })
	}},
	{name: "nobody-waits-with-who-changes-a-guard", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		lead, f, _ := s.three()
		s.success(time.Second, "the lock", s.put(lead, "lock", "A"))
		s.farAway()
		s.putIf(lead, "lock", "A", "far", "guarded")
		s.w.Run(20 * time.Millisecond)
		s.apart(f, func(i int) *call { return s.put(f, "lock", fmt.Sprint(i)) }, func(i int) *call { return s.put(f, fmt.Sprintf("near%d", i), "v") })
	}},
	{name: "divided-anew-between-batch-and-commit", policy: "static/key", length: 2 * time.Second, play: func(s *stage) {
		// R13. Those that share an entry have had the same holder, the leader, when it was
		// made. Before it is in the leader's log the keys are divided anew, and far is h's. It
		// reads that, and so the entry waits for it, with all that is in it.
		lead, f, h := s.three()
		s.divide("default = 1")
		s.success(time.Second, "a put", s.put(f, "far", "old"))
		s.reader(lead, "far")
		late := s.hold(f, lead, "forward")
		var puts []*call
		for i := range crowd {
			puts = append(puts, s.put(f, "far", fmt.Sprint(i)), s.put(f, fmt.Sprintf("near%d", i), "v"))
		}
		s.w.Run(30 * time.Millisecond)
		s.divide("key:far = 1,3; default = 1")
		s.reader(h, "far")
		s.hold(lead, h, growth...)
		late.release()
		s.wantLapse(h, "far", puts[len(puts)-2], fmt.Sprint(crowd-1), nil, "")
		for _, p := range puts {
			s.success(5*time.Second, "a put", p)
		}
	}},
}

// crowd is how many requests of each kind come in one moment: more than have an entry each.
const crowd = 8

// farAway divides the keys and cuts off the third member, which may read far, so that puts of
// that wait until its promises end.
func (s *stage) farAway() {
	s.t.Helper()
	lead, _, h := s.three()
	s.divide("key:far = 1,3; default = 1,2")
	s.success(time.Second, "a put", s.put(lead, "far", "v"))
	s.reader(h, "far")
	s.hold(nil, h)
}

// apart has two kinds of requests come at one member in one moment, of which the first
// have to wait, and wants that the second do not.
func (s *stage) apart(m *Member, slow, swift func(i int) *call) {
	s.t.Helper()
	var wait, swiftly []*call
	for i := range crowd {
		wait, swiftly = append(wait, slow(i)), append(swiftly, swift(i))
	}
	from := s.w.Now()
	for i, c := range swiftly {
		s.until(3*time.Second, "a request that need not wait", func() bool { return c.done })
		if !c.ok {
			s.fatalf("request %d: %v", i, c.err)
		}
	}
	if took := s.w.Now() - from; took > 300*time.Millisecond {
		s.fatalf("requests that need not wait for the third member took %v at member %d, want at most 300 ms", took, m.ID)
	}
	for i, c := range wait {
		if c.done {
			s.fatalf("request %d has not waited for the third member", i)
		}
	}
	s.mend()
}

// propose proposes any request.
func (s *stage) propose(m *Member, req proto.Message) *call {
	c := &call{}
	m.propose(req, func(r replica.Result, err error) { c.end(replica.Result{}, err) })
	return c
}
