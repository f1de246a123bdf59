package replicasim

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
	"go.etcd.io/raft/v3/raftpb"
)

// siege is a while in which a leader puts a key and hears little of the members that have the
// entry. Meanwhile all members are asked for the key all the time: none may show an entry that
// the leader reads past (R30). Left to chance, it is too rare that all of this comes together.
// The key is the crown, which only leaders put, in sieges: puts of others would be waited for,
// and hide the rest.
type siege struct {
	c       *Cluster
	lead    *Member
	courier *surveyor
	// lost are the kinds of messages that are kept from each other, by sender and receiver;
	// late are those of them that may come when it is over.
	lost map[[2]machine.NodeID]messageKind
	late []machine.Envelope
	end  time.Duration
	over bool
}

// messageKind are kinds of messages between members, as far as sieges tell them apart.
type messageKind uint

const (
	growths  messageKind = 1 << iota // messages that make a log grow
	beats                            // the leader's other words
	acks                             // messages that tell the leader, and others as well, which members have an entry
	echoes                           // of heartbeats
	ballots                          // of elections
	pleas                            // for promises
	promises                         // and messages that take them back
	others

	everything = others<<1 - 1
)

func messageKindOf(body any) messageKind {
	switch body := body.(type) {
	case quorumlease.Report:
		return acks
	case quorumlease.News:
		return beats
	case quorumlease.Request:
		return pleas
	case quorumlease.Promise, quorumlease.Return:
		return promises
	case interface{ GetType() raftpb.MessageType }:
		switch body.GetType() {
		case raftpb.MsgApp, raftpb.MsgSnap:
			return growths
		case raftpb.MsgHeartbeat:
			return beats
		case raftpb.MsgAppResp:
			return acks
		case raftpb.MsgHeartbeatResp:
			return echoes
		case raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp, raftpb.MsgTimeoutNow:
			return ballots
		}
	}
	return others
}

// runSieges lay siege to one leader after the other.
func (c *Cluster) runSieges(courier *surveyor) {
	c.w.After(c.w.Between(50*time.Millisecond, 800*time.Millisecond), func() {
		if c.harsh.stop || c.w.Now() >= c.checks.quiet {
			return
		}
		lead := c.leader()
		if lead == nil || lead.Paused() || !c.isMember(lead) {
			c.runSieges(courier)
			return
		}
		c.w.Mark(sim.Remark, lead.Lane, "a siege")
		s := &siege{c: c, lead: lead, lost: map[[2]machine.NodeID]messageKind{}, courier: courier}
		for _, m := range c.members {
			s.look(m)
		}
		s.prepare()
	})
}

// look has a member asked for the key, again and again.
func (s *siege) look(m *Member) {
	c := s.c
	asked, since := false, time.Duration(0)
	var look func()
	look = func() {
		if s.over || c.harsh.stop {
			return
		}
		if m.Up() && c.isMember(m) && (!asked || c.w.Now() > since+50*time.Millisecond) {
			asked, since = true, c.w.Now()
			floors, keys := c.checks.floors, [surveyed]bool{crown: true}
			m.readKeys(keyspan.Set{{Key: surveyKey(crown)}}, func(v kv.View) {
				asked = false
				c.checks.looked(c.w, m, v, keys, floors)
			})
		}
		c.w.After(c.w.Between(time.Millisecond, 12*time.Millisecond), look)
	}
	look()
}

// put has a member put the key.
func (s *siege) put(m *Member) {
	if m.Up() {
		s.courier.do(m, 'w', [surveyed]bool{crown: true})
	}
}

// prepare waits until the leader has promises, which may be of keys that it does not
// hold yet.
func (s *siege) prepare() {
	w := s.c.w
	divides := w.Chance(0.25)
	if divides {
		s.give(false)
	} else {
		s.put(s.lead)
	}
	w.After(w.Between(100*time.Millisecond, 400*time.Millisecond), func() {
		s.begin()
		if divides {
			w.After(w.Between(0, 40*time.Millisecond), func() { s.give(true) })
		}
	})
}

// give has the leader propose the holders of the key: itself as well, or others.
func (s *siege) give(toLeader bool) {
	c := s.c
	self := placement.SetOf(slices.Index(c.ids, s.lead.ID))
	holders := c.someHolders() &^ self
	if toLeader {
		holders |= self
	}
	conf, err := placement.New(c.ids, c.someHolders(), []placement.Cell{{Key: surveyKey(crown), Holders: holders}}, nil)
	if err == nil && s.lead.Up() {
		s.lead.setCells(conf, func() {})
	}
}

// begin keeps the reports on its entries from the leader, and has it put the key. It goes on
// with something that lets another lead, or see the entry.
func (s *siege) begin() {
	c, w := s.c, s.c.w
	if s.over || c.harsh.stop || w.Now() >= c.checks.quiet || !s.lead.leads() {
		s.finish()
		return
	}
	all, kinds := w.Chance(0.7), acks
	if w.Chance(0.3) {
		kinds |= echoes
	}
	behind := machine.NodeID(0)
	if w.Chance(0.3) {
		behind = c.some().ID
	}
	for _, id := range c.ids {
		if all || w.Chance(0.6) {
			s.lose(id, s.lead.ID, kinds)
		}
		if id == behind {
			s.lose(s.lead.ID, id, growths)
		}
	}
	c.net.Take = s.intercept
	w.After(w.Between(0, 5*time.Millisecond), func() { s.put(s.lead) })
	w.After(w.Between(5*time.Millisecond, 80*time.Millisecond), s.turn)
	d := w.Between(300*time.Millisecond, 1300*time.Millisecond)
	if w.Chance(0.3) { // so that promises run out
		d += min(2*c.LeaseLength, 2*time.Second)
	}
	s.until(w.Now() + d)
}

func (s *siege) lose(from, to machine.NodeID, kinds messageKind) {
	s.lost[[2]machine.NodeID{from, to}] |= kinds
}

func (s *siege) intercept(env machine.Envelope) bool {
	if s.over || s.lost[[2]machine.NodeID{env.From, env.To}]&messageKindOf(env.Body) == 0 {
		return false
	}
	if len(s.late) < 200 {
		s.late = append(s.late, env)
	}
	return true
}

// turn is what happens while the leader's entry is in flight.
func (s *siege) turn() {
	c, w := s.c, s.c.w
	if s.over || c.harsh.stop {
		return
	}
	m := c.some()
	switch w.Rand.IntN(6) {
	case 0, 1:
		s.depose()
	case 2:
		if m != s.lead && s.lead.Up() {
			s.lead.handTo(m)
		}
	case 3: // a member begins with a state that has the entry, and soon knows to which holders it is bound
		if m != s.lead && m.Up() {
			m.takeSnapshot()
			w.After(300*time.Millisecond, func() {
				if m.Up() && !s.over && s.lead.leads() {
					m.crash()
					m.startUp()
				}
			})
			known := 350*time.Millisecond + min(m.promised, time.Second)
			w.After(known, func() { s.put(s.lead) })
			s.until(w.Now() + known + w.Between(50*time.Millisecond, 300*time.Millisecond))
		}
	case 4: // promises of the earlier leader run out, and are made anew behind its back
		w.After(c.LeaseLength, s.depose)
	}
}

// depose has the others elect another, of which the leader hears nothing; it may go on to ask
// for promises, and some of the others may hear or answer.
func (s *siege) depose() {
	c, w := s.c, s.c.w
	if s.over || c.harsh.stop {
		return
	}
	pleading := w.Chance(0.5)
	for _, id := range c.ids {
		to, from := everything, everything
		if pleading && w.Chance(0.7) {
			to, from = to&^pleas, from&^promises
		}
		s.lose(s.lead.ID, id, to)
		s.lose(id, s.lead.ID, from)
	}
	for _, m := range c.members {
		if m != s.lead {
			m.Step(replica.Down{Node: s.lead.ID})
		}
	}
}

// until has the siege go on until then, at least.
func (s *siege) until(end time.Duration) {
	if s.end = max(s.end, end); s.end == end {
		s.c.w.After(end-s.c.w.Now(), func() {
			if s.end == end {
				s.finish()
			}
		})
	}
}

// finish lets all members hear each other again, and some of the earlier messages.
func (s *siege) finish() {
	if s.over {
		return
	}
	s.over = true
	c := s.c
	if c.harsh.stop || c.w.Now() >= c.checks.quiet {
		return
	}
	c.net.Take = nil
	if c.w.Chance(0.3) {
		for _, env := range s.late {
			c.net.Deliver(env)
		}
	}
	c.runSieges(s.courier)
}
