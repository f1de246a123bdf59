package replica

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// Controls switch to the paper's own ways where this package has others, so that the two
// can be compared on the same code (Moraru, Andersen and Kaminsky, Paxos Quorum Leases,
// SoCC 2014). They are for measurements and tests: each is as safe as what it takes the
// place of, and none is better. All members of a cluster have the same but for Older.
type Controls struct {
	// Older makes this member one of a version from before levels (level.go), for a cluster
	// that is being upgraded: it tells of none, keeps nothing, and ends at an entry that is
	// kept. Its applier has to be told, too: [Applier.Older].
	Older bool
	// Push has grantors send promises to all, whether anybody reads there or not, in
	// place of holders that ask (section 3.5, Figure 5). ReadLeases.TTL and Idle have
	// no meaning then, EarlierTTL is the longest Wait of earlier lives, and no holder
	// is given up for holding up the leader: only the grace period ends a promise.
	Push *quorumlease.Lengths
	// Lapse has a grantor that learns of another configuration promise nothing before
	// all of its promises have run out: the first way of section 3.5.
	Lapse bool
	// Abide has entries wait for the holders under the configuration before for as
	// long as a promise of its time may last: the second way.
	Abide bool
	// ExcludeSuspect has grantors tell the leader whom they suspect, and the leader
	// plan at once without these (section 3.7). It needs a policy that plans.
	ExcludeSuspect bool
	// WaitToRejoin keeps a member that restarted out of the protocol, without a vote
	// or an acknowledgment, until its earlier promises have run out: t_wait of
	// sections 3.7 and 3.8.
	WaitToRejoin bool
}

// suspicion tells the leader whom a grantor suspects.
type suspicion struct{ Members []machine.NodeID }

// controls are this member's part in what Controls switch on.
type controls struct {
	Controls
	grantor *quorumlease.PushGrantor // nil without Push
	holder  *quorumlease.PushHolder

	lapsing  bool           // no promises until those made before have run out
	abided   []machine.Mono // until when the former configurations count
	suspects []suspect
	told     machine.Mono // when the leader was told whom this member suspects
	telling  bool         // and that it was anybody
}

// suspect is a member that somebody suspects.
type suspect struct {
	by      machine.NodeID
	at      machine.Mono
	members []machine.NodeID
}

func (c *Controls) check() error {
	if c.Push == nil {
		return nil
	}
	return c.Push.Check()
}

// promiseLength is how long a promise of this member's may last.
func (rl *readLeases) promiseLength() time.Duration {
	if p := rl.controls.Push; p != nil {
		return p.Wait()
	}
	return rl.cfg.TTL
}

func (c *controls) init(r *Replica, cfg quorumlease.Config) {
	rl := &r.reads
	c.Controls = r.cfg.Controls
	if c.WaitToRejoin {
		r.rejoin = cfg.Forgotten(r.now)
		cfg.EarlierTTL = 0
		rl.grantor = quorumlease.NewGrantor(cfg, r.now)
		rl.bound = rl.grantor
	}
	if c.Push == nil {
		return
	}
	c.grantor, c.holder = quorumlease.NewPushGrantor(cfg, *c.Push, r.now), quorumlease.NewPushHolder(cfg)
	rl.bound, rl.lease = c.grantor, c.holder
	rl.cfg.Idle = -1                                                      // nobody asks, so nobody stops asking
	rl.stalls = quorumlease.NewStalls(quorumlease.Config{TTL: 1<<62 - 1}) // endless patience
}

// absent reports whether this member has yet to rejoin.
func (r *Replica) absent() bool { return r.now < r.rejoin }

// promises reports whether this member answers who asks for promises.
func (c *controls) promises() bool { return c.grantor == nil && !c.lapsing }

// receive takes a message of the paper's protocol.
func (c *controls) receive(r *Replica, from machine.NodeID, body any) {
	if m, ok := body.(suspicion); ok {
		c.suspected(r, from, m.Members)
		return
	}
	if c.grantor == nil {
		return
	}
	rl := &r.reads
	switch m := body.(type) {
	case quorumlease.Guard:
		if ack, ok := c.holder.Guarded(r.now, from, m); ok {
			r.send(from, ack)
		}
	case quorumlease.Pushed:
		if reply, ok := c.holder.Promised(r.now, from, m, rl.log(r)); ok {
			r.send(from, reply)
		}
	case quorumlease.GuardAck:
		c.grantor.GuardAcked(r.now, from, m)
		rl.reported.lapse = min(rl.reported.lapse, r.now)
	case quorumlease.PromiseReply:
		if took, ok := c.grantor.Replied(r.now, from, m); ok {
			rl.plans.answered(from, took)
			rl.reported.lapse = min(rl.reported.lapse, c.grantor.Due(r.now))
		}
	}
}

// turn sends guards and promises, and tells of suspects.
func (c *controls) turn(r *Replica) {
	rl := &r.reads
	if c.lapsing {
		holders, _ := rl.bound.Holders(r.now)
		c.lapsing = len(holders) > 0
	}
	for len(c.abided) > 0 && c.abided[0] <= r.now {
		c.abided = c.abided[1:]
	}
	if k := &rl.keys; len(k.former) > len(c.abided) {
		k.former = k.former[len(k.former)-len(c.abided):]
	}
	if c.pushes(r) {
		for _, m := range c.grantor.Turn(r.now, c.receivers(r), rl.log(r)) {
			r.send(m.To, m.Body)
		}
	}
	if c.ExcludeSuspect {
		c.tell(r)
	}
}

// pushes reports whether this member makes promises now.
func (c *controls) pushes(r *Replica) bool {
	return c.grantor != nil && !r.absent() && slices.Contains(r.reads.voters, r.cfg.ID)
}

// receivers are those who are to have promises of this member.
func (c *controls) receivers(r *Replica) (to []machine.NodeID) {
	if c.lapsing {
		return nil
	}
	rl := &r.reads
	for _, members := range [][]machine.NodeID{rl.voters, rl.learners} {
		for _, id := range members {
			if id != r.cfg.ID && rl.setting.policy.Asks(id == r.leader) {
				to = append(to, id)
			}
		}
	}
	return to
}

// changes learns that another setting takes the place of one.
func (c *controls) changes(r *Replica, before, after readSetting) {
	if before.policy == "" {
		return // the cluster begins
	}
	c.lapsing = c.lapsing || c.Lapse
	if c.Abide && before.cells != nil && before.cells != after.cells {
		c.abided = append(c.abided, r.now.Add(quorumlease.Bound(r.reads.promiseLength())))
		r.reads.keys.former = append(r.reads.keys.former, conf{setting: before})
	}
}

// tell tells the leader whom this member suspects, again and again; and once that it
// suspects nobody any more.
func (c *controls) tell(r *Replica) {
	list := r.reads.stalled // known to the leader, who named them
	if c.grantor != nil {
		list = c.grantor.Suspects()
	}
	if r.leader == 0 || len(list) == 0 && !c.telling || len(list) > 0 && r.now < c.told.Add(r.cfg.Tick) {
		return
	}
	c.told, c.telling = r.now, len(list) > 0
	if r.leading() {
		c.suspected(r, r.cfg.ID, list)
		return
	}
	r.send(r.leader, suspicion{list})
}

// suspected takes note, at the leader, of whom somebody suspects, and has a plan be made
// at once if that is news.
func (c *controls) suspected(r *Replica, by machine.NodeID, members []machine.NodeID) {
	if !c.ExcludeSuspect || !r.leading() {
		return
	}
	for _, m := range members {
		if !c.isSuspect(r, m) {
			r.reads.plans.next = r.now
		}
	}
	c.suspects = slices.DeleteFunc(c.suspects, func(s suspect) bool { return s.by == by })
	if len(members) > 0 {
		c.suspects = append(c.suspects, suspect{by, r.now, members})
	}
}

// isSuspect reports whether somebody has said so a short while ago.
func (c *controls) isSuspect(r *Replica, m machine.NodeID) bool {
	return slices.ContainsFunc(c.suspects, func(s suspect) bool {
		return r.now.Sub(s.at) < r.cfg.electionTimeout() && slices.Contains(s.members, m)
	})
}

// due is when the next turn is needed.
func (c *controls) due(r *Replica) machine.Mono {
	due := machine.Never
	if c.pushes(r) {
		due = c.grantor.Next()
	}
	if c.lapsing {
		due = min(due, r.reads.bound.Due(r.now))
	}
	if c.telling && r.leader != 0 { // a new leader is told at once
		due = min(due, c.told.Add(r.cfg.Tick))
	}
	return due
}
