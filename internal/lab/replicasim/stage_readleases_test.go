package replicasim

import (
	"reflect"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// Messages of a leader to a member that make its log grow, and news of releases.
var (
	growth = []string{"MsgApp", "MsgSnap"}
	news   = []string{"MsgApp", "MsgSnap", "MsgHeartbeat", "quorumlease.News"}
)

// leased reports whether a member's lease lets it read now.
func (m *Member) leased() bool { return m.Up() && m.Now().Mono < m.lease.Until }

// ask lets a member hear of a reader there, so that it asks for promises.
func (s *stage) ask(m *Member) { m.Step(replica.Served{}) }

// holding waits until a member has a lease.
func (s *stage) holding(m *Member) {
	s.t.Helper()
	s.ask(m)
	s.until(time.Second, "member "+m.Lane+" has a lease", m.leased)
}

// granted lets a member have promises of some others only.
func (s *stage) granted(m *Member, grantors ...*Member) {
	s.t.Helper()
	for _, o := range s.members {
		given := o == m
		for _, g := range grantors {
			given = given || o == g
		}
		if !given {
			s.hold(m, o, "quorumlease.Request")
		}
	}
	s.holding(m)
}

// never wants that something does not happen for a while.
func (s *stage) never(d time.Duration, what string, happens func() bool) {
	s.t.Helper()
	for end := s.w.Now() + d; s.w.Now() < end; s.w.Run(time.Millisecond) {
		if happens() {
			s.fatalf("%s", what)
		}
	}
}

// doubt tells a member that its clock may not have gone as time does since then.
func (s *stage) doubt(m *Member, since machine.Mono) {
	m.Step(replica.Doubted{Since: since, Until: m.Now().Mono.Add(time.Second)})
}

// failClock has a member doubt its clock, and go on doubting it.
func (s *stage) failClock(m *Member) {
	since := m.Now().Mono
	s.w.After(50*time.Millisecond, func() {
		s.doubt(m, since)
		s.failClock(m)
	})
}

// released wants a write to wait until a member can read no more, and then to be done within d.
// The checkers judge whether the member reads too early.
func (s *stage) released(c *call, after *Member, d time.Duration) {
	s.t.Helper()
	if !after.leased() {
		s.fatalf("%s has no lease that a write could wait for", after.Lane)
	}
	s.until(10*time.Second+500*time.Millisecond, after.Lane+"'s lease ends", func() bool {
		if c.done && after.leased() && after.lease.Index < s.checks.published {
			s.fatalf("a write is done that %s does not know of, while it may read", after.Lane)
		}
		return !after.leased()
	})
	s.success(d, "the write", c)
}

// told is the News that one of the leader's messages carries.
func told(body any) (n quorumlease.News, ok bool) {
	if n, ok = body.(quorumlease.News); ok {
		return n, true
	}
	v := reflect.ValueOf(body)
	if v.Kind() != reflect.Struct {
		return n, false
	}
	if f := v.FieldByName("News"); f.IsValid() {
		n, ok = f.Interface().(quorumlease.News)
	}
	return n, ok
}

// acknowledged is the message by which a member acknowledges the log.
func acknowledged(body any) (m *raftpb.Message, ok bool) {
	if m, ok = body.(*raftpb.Message); !ok {
		if v := reflect.ValueOf(body); v.Kind() == reflect.Struct && v.FieldByName("Message").IsValid() {
			m, ok = v.FieldByName("Message").Interface().(*raftpb.Message)
		}
	}
	return m, ok && m.GetType() == raftpb.MsgAppResp
}

// onNews has f hear of each message with news of releases.
func (s *stage) onNews(f func(released uint64)) {
	take := s.net.Take
	s.net.Take = func(env machine.Envelope) bool {
		if n, ok := told(env.Body); ok {
			f(n.Released)
		}
		return take(env)
	}
}
