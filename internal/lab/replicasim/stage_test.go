package replicasim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
)

// stage is a cluster whose faults are placed by hand: on its own the network loses nothing and
// no member fails. Member 1 leads when the curtain rises.
type stage struct {
	*Cluster
	t     *testing.T
	traps []*trap
}

func newStage(t *testing.T, sc script) *stage {
	c := Start(sim.NewWorld(1), Options{
		Voters: sc.members, Learners: sc.learners, Tail: sc.tail,
		ReadLease: sc.policy, LeaseLength: sc.length, LeaseIdle: sc.idle, PlanEvery: sc.plan, Planner: placement.Settings{Buckets: 16, HalfLife: time.Second},
		Paper: sc.paper,
	})
	s := &stage{Cluster: c, t: t}
	c.net.Take = s.take
	s.until(5*time.Second, "a first leader", func() bool { return c.leader() != nil })
	s.lead(c.members[0])
	return s
}

// three is the cast of most scripts: the leader and its followers.
func (s *stage) three() (lead, f, g *Member) { return s.members[0], s.members[1], s.members[2] }

func (s *stage) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(s.w.Recent(40), "\n"))
}

// until lets time pass until ok, and fails if that takes longer than d.
func (s *stage) until(d time.Duration, what string, ok func() bool) {
	s.t.Helper()
	for end := s.w.Now() + d; !ok(); s.w.Run(time.Millisecond) {
		if s.w.Now() >= end {
			s.fatalf("%s: not within %v", what, d)
		}
	}
}

// end wants that no checker has complained.
func (s *stage) end() {
	s.t.Helper()
	if err := s.Check(); err != nil {
		s.fatalf("%v", err)
	}
}

// trap takes messages off the wire.
type trap struct {
	s        *stage
	from, to *Member // nil: any
	kinds    []string
	held     []machine.Envelope
	open     bool
}

// hold traps messages of some kinds, of all if none is given: the names of
// raft's message types, or of package replica's own.
func (s *stage) hold(from, to *Member, kinds ...string) *trap {
	t := &trap{s: s, from: from, to: to, kinds: kinds, open: true}
	s.traps = append(s.traps, t)
	return t
}

// cutOff traps all that goes to and from a member; ends must be opened with mend.
func (s *stage) cutOff(m *Member) {
	s.hold(m, nil)
	s.hold(nil, m)
}

// mend forgets all traps and their messages.
func (s *stage) mend() { s.traps = nil }

func kindOf(body any) string {
	if m, ok := body.(interface{ GetType() raftpb.MessageType }); ok { // alone, or with messages about read leases
		return m.GetType().String()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", body), "replica.")
}

func (s *stage) take(env machine.Envelope) bool {
	for _, t := range s.traps {
		if t.open && (t.from == nil || t.from.ID == env.From) && (t.to == nil || t.to.ID == env.To) &&
			(len(t.kinds) == 0 || slices.Contains(t.kinds, kindOf(env.Body))) {
			t.held = append(t.held, env)
			return true
		}
	}
	return false
}

// pass delivers a copy of the nth message in the trap.
func (t *trap) pass(n int) { t.s.net.Deliver(t.held[n]) }

// away takes the trap away and loses its messages.
func (t *trap) away() { t.open = false }

// release takes the trap away and delivers its messages.
func (t *trap) release() {
	t.open = false
	for n := range t.held {
		t.pass(n)
	}
}

// catch waits until n messages are in the trap.
func (t *trap) catch(n int) {
	t.s.t.Helper()
	t.s.until(5*time.Second, fmt.Sprintf("%d of %v in the trap", n, t.kinds), func() bool { return len(t.held) >= n })
}

// lead makes m the leader, by asking the present one for it.
func (s *stage) lead(m *Member) {
	s.t.Helper()
	next := s.w.Now()
	s.until(10*time.Second, fmt.Sprintf("member %d leads", m.ID), func() bool {
		lead := s.leader()
		if lead != nil && lead != m && s.w.Now() >= next {
			s.transfer(lead, m)
			next = s.w.Now() + 200*time.Millisecond
		}
		for _, o := range s.members {
			if o.Up() && !o.follows(m) {
				return false
			}
		}
		return m.state.Term() == m.replica.Status().Term
	})
}

// transfer asks a leader to pass leadership to a member.
func (s *stage) transfer(lead, to *Member) { lead.handTo(to) }

// follows reports whether a member knows another as its leader.
func (m *Member) follows(lead *Member) bool { return m.Up() && m.replica.Status().Leader == lead.ID }

// kill crashes a member; the others are told that its connections closed.
func (s *stage) kill(m *Member) {
	m.crash()
	for _, o := range s.members {
		o.Step(replica.Down{Node: m.ID})
	}
}

// stall stops a member's applier; go on lets it continue.
func (m *Member) stall()  { m.stalled = true }
func (m *Member) resume() { m.stalled = false; m.apply() }

// call is a request and its outcome.
type call struct {
	done, ok bool
	value    string // of a read
	want     string // for a read to be fresh; empty: anything
	err      error
}

func (s *stage) put(m *Member, key, value string, lease ...int64) *call {
	c := &call{}
	req := &pb.PutRequest{Key: []byte(key), Value: []byte(value)}
	if len(lease) > 0 {
		req.Lease = lease[0]
	}
	m.propose(req, c.end)
	return c
}

func (c *call) end(r replica.Result, err error) {
	c.done, c.err = true, err
	if err == nil {
		c.err = r.Err
	}
	c.ok = c.err == nil
}

func (s *stage) read(m *Member, key string) *call {
	c := &call{}
	m.read(func(v kv.View) {
		c.done, c.ok = true, true
		c.value, _ = lookUp(v, key)
		if c.want != "" && c.value != c.want {
			s.checks.fail(s.w, "stale read: %s is %q, want %q", key, c.value, c.want)
		}
	})
	return c
}

func lookUp(v kv.View, key string) (value string, version int64) {
	resp, err := v.Range(&pb.RangeRequest{Key: []byte(key)})
	if err != nil {
		panic(err)
	}
	if len(resp.Kvs) == 0 {
		return "", 0
	}
	return string(resp.Kvs[0].Value), resp.Kvs[0].Version
}

// success waits for a request to succeed.
func (s *stage) success(within time.Duration, what string, c *call) {
	s.t.Helper()
	s.until(within, what, func() bool { return c.done })
	if !c.ok {
		s.fatalf("%s: %v", what, c.err)
	}
}

// once wants that a key was put exactly once, everywhere.
func (s *stage) once(key string) {
	s.t.Helper()
	s.until(5*time.Second, key+" is put everywhere", func() bool {
		for _, m := range s.members {
			if _, version := lookUp(m.state.Store().View(), key); version == 0 {
				return false
			}
		}
		return true
	})
	s.w.Run(300 * time.Millisecond)
	for _, m := range s.members {
		if _, version := lookUp(m.state.Store().View(), key); version != 1 {
			s.fatalf("%s was put %d times at member %d, want once", key, version, m.ID)
		}
	}
}

// grant grants a lease, to be watched by the checkers.
func (s *stage) grant(m *Member, id, ttl int64) *held {
	s.t.Helper()
	l := &held{id: id, ttl: time.Duration(ttl) * time.Second}
	s.checks.leases[id] = l
	c := &call{}
	sent := s.w.Now()
	m.propose(&pb.LeaseGrantRequest{ID: id, TTL: ttl}, c.end)
	s.success(5*time.Second, fmt.Sprintf("grant %d", id), c)
	l.trust(sent, 0)
	s.until(5*time.Second, "the lease is everywhere", func() bool {
		for _, o := range s.members {
			if _, ok := o.state.Store().View().Lease(id); !ok && o.Up() && !o.stalled {
				return false
			}
		}
		return true
	})
	return l
}

// ask is a question about a lease and its answer.
type ask struct {
	done bool
	ttl  int64
	sent time.Duration
}

// renew renews a lease; its holder trusts the answer.
func (s *stage) renew(m *Member, l *held) *ask {
	a := &ask{sent: s.w.Now()}
	m.keepAlive(l.id, func(answer replica.AnswerLease) {
		a.done, a.ttl = true, answer.TTL
		s.checks.answered(s.w, l, a.sent, 0, answer)
	})
	return a
}

func (s *stage) renewed(within time.Duration, a *ask) {
	s.t.Helper()
	s.until(within, "a renewal is answered", func() bool { return a.done })
	if a.ttl == 0 {
		s.fatalf("the renewal found no lease")
	}
}

// remaining asks for a lease's time.
func (m *Member) remaining(lease int64, f func(replica.AnswerLease)) {
	m.nextID++
	m.answers[m.nextID] = f
	m.Step(replica.AskLease{ID: m.nextID, Lease: lease})
}

// has reports whether a member's state holds a lease.
func (m *Member) has(l *held) bool {
	_, ok := m.state.Store().View().Lease(l.id)
	return ok
}

// fill writes n kilobytes through m.
func (s *stage) fill(m *Member, kilobytes int) {
	s.t.Helper()
	for range kilobytes / 4 {
		s.success(5*time.Second, "a large put", s.put(m, "filler", strings.Repeat("x", 4096)))
	}
}

// count counts the messages of a kind from now on.
func (s *stage) count(kind string) *int {
	n, take := new(int), s.net.Take
	s.net.Take = func(env machine.Envelope) bool {
		if kindOf(env.Body) == kind {
			*n++
		}
		return take(env)
	}
	return n
}

// leaderBut is a leader other than m.
func (s *stage) leaderBut(m *Member) *Member {
	for _, o := range s.members {
		if o != m && o.leads() {
			return o
		}
	}
	return nil
}

// together wants all members in the same state soon.
func (s *stage) together(within time.Duration) {
	s.t.Helper()
	s.until(within, "all members in one state", func() bool {
		first := s.members[0]
		for _, m := range s.members[1:] {
			if m.state.Index() != first.state.Index() || m.fingerprint() != first.fingerprint() {
				return false
			}
		}
		return first.state.Index() == first.replica.Status().Last
	})
}
