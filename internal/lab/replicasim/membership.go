package replicasim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
)

// enlist gives a member a host with an empty disk. It may be one that the cluster does
// not know yet.
func (c *Cluster) enlist(id machine.NodeID) *Member {
	m := &Member{Process: sim.NewProcess[replica.Input, replica.Outcome](c.w, c.net, id, c.harsh.rate), c: c}
	m.Lane = fmt.Sprintf("member %d", id)
	m.Outcome = m.outcome
	if c.Costs != nil {
		m.Processor, m.Takes = &sim.Processor{}, c.Costs.turn
	}
	c.members = append(c.members, m)
	return m
}

// newcomer starts a host that is no member yet: it knows the founders of the cluster.
func (c *Cluster) newcomer() *Member {
	id := machine.NodeID(len(c.members) + 1)
	c.ids = append(c.ids, id)
	m := c.enlist(id)
	m.startUp()
	return m
}

// founders are the members that the cluster began with.
func (c *Cluster) founders() replica.Roster {
	var list []*pb.Member
	for i := range c.Voters + c.Learners {
		list = append(list, &pb.Member{ID: uint64(i + 1), PeerURLs: []string{urlOf(machine.NodeID(i + 1))}, IsLearner: i >= c.Voters})
	}
	return replica.FoundedBy(list)
}

func urlOf(id machine.NodeID) string { return fmt.Sprintf("http://member%d:2380", id) }

// maxLearners lets a world have one more than it began with.
func (c *Cluster) maxLearners() int { return c.Learners + 1 }

// change asks a member for another membership.
func (m *Member) change(cc *raftpb.ConfChange, f func(error)) {
	m.propose(cc, func(r replica.Result, err error) { f(cmp.Or(err, r.Err)) })
}

// leave has a removed member stop, when the waiting clients were answered.
func (m *Member) leave() {
	m.c.w.Note("member %d was removed", m.ID)
	m.After(m.c.w.Between(0, 200*time.Millisecond), m.switchOff)
}

// switchOff stops a member for good.
func (m *Member) switchOff() {
	if m.gone = true; m.Up() {
		m.crash()
		m.c.died(m)
	}
}

// roster is the newest that any member has applied.
func (c *Cluster) roster() replica.Roster {
	var newest *Member
	for _, m := range c.members {
		if newest == nil || m.state.Index() > newest.state.Index() {
			newest = m
		}
	}
	return newest.state.Roster()
}

// isMember reports whether a member is one, by the newest state that there is.
func (c *Cluster) isMember(m *Member) bool {
	return !m.gone && (!c.harsh.reshape || c.roster().Find(uint64(m.ID)) != nil)
}

// reshaping are changes of the membership, one asked for after the other.
type reshaping struct {
	busy    bool    // one is asked for
	lost    *Member // its disk is, and it has to be removed
	until   time.Duration
	unknown time.Duration // when a request was given up whose fate is open
}

// reshape has members come and go for a while, if the world is one of those. Learners become
// voters, members are removed, dead or alive, and some lose their disk and are replaced.
func (c *Cluster) reshape(d time.Duration) {
	if c.harsh.reshape {
		c.reshaping.until = c.w.Now() + d
		c.reshapeNext()
	}
}

func (c *Cluster) reshapeNext() {
	c.w.After(c.w.Between(0, 3*time.Second), func() {
		if c.w.Now() < c.reshaping.until || c.reshaping.lost != nil {
			if !c.reshaping.busy {
				c.reshapeOnce()
			}
			c.reshapeNext()
		}
	})
}

// reshaped waits, when the faults are over, until no change is on its way and all members have
// caught up.
func (c *Cluster) reshaped() error {
	if !c.harsh.reshape {
		return nil
	}
	if !c.w.Until(30*time.Second, func() bool { return !c.reshaping.busy && c.reshaping.lost == nil }) {
		return errors.New("liveness: a change of the membership is not done 30 s after the faults ended")
	}
	lead := c.leader()
	if lead == nil {
		return errors.New("liveness: the leader was lost without a fault")
	}
	index := lead.replica.Status().Commit
	if !c.w.Until(20*time.Second, func() bool {
		return !slices.ContainsFunc(c.members, func(m *Member) bool { return c.isMember(m) && m.view().index < index })
	}) {
		return fmt.Errorf("liveness: a member has not caught up 20 s after the faults ended, with %d", index)
	}
	return nil
}

// reshapeOnce asks for one change, through any member.
func (c *Cluster) reshapeOnce() {
	ro := c.roster()
	var voters, learners []*Member
	for _, m := range c.members {
		switch is := ro.Find(uint64(m.ID)); {
		case is == nil && ro.WasRemoved(uint64(m.ID)) && !m.gone && c.w.Chance(0.7):
			m.switchOff() // the operator has read that it was removed
		case is == nil || m.gone && m != c.reshaping.lost:
		case is.IsLearner:
			learners = append(learners, m)
		default:
			voters = append(voters, m)
		}
	}
	ask := func(what string, cc *raftpb.ConfChange, done func(error)) {
		m := c.anyMember()
		if m == nil {
			return
		}
		c.w.Mark(sim.Remark, m.Lane, "is asked to %s", what)
		c.reshaping.busy = true
		end := func(err error) {
			if c.reshaping.busy {
				c.reshaping.busy = false
				if err == nil {
					c.w.Count("changes of the membership", 1)
				} else if errors.Is(err, errAmbiguous) {
					c.reshaping.unknown = c.w.Now()
				}
				done(err)
			}
		}
		life := m.Life()
		m.change(cc, end)
		var dead func()
		dead = func() {
			if c.reshaping.busy && m.Life() != life {
				end(errAmbiguous)
			} else if c.reshaping.busy {
				c.w.After(time.Second, dead)
			}
		}
		c.w.After(time.Second, dead)
	}
	pick := func(list []*Member) *Member { return list[c.w.Rand.IntN(len(list))] }
	nothing := func(error) {}
	if lost := c.reshaping.lost; lost != nil {
		if ro.Find(uint64(lost.ID)) == nil {
			c.reshaping.lost = nil
			return
		}
		ask(fmt.Sprintf("remove %d, whose disk is lost", lost.ID), replica.RemoveMember(uint64(lost.ID)), nothing)
		return
	}
	switch n := c.w.Rand.IntN(5); {
	case n == 0 && len(voters) > 2:
		m := pick(voters)
		ask(fmt.Sprintf("remove %d", m.ID), replica.RemoveMember(uint64(m.ID)), nothing)
	case n == 1 && len(voters) > 2 && c.w.Now() < c.reshaping.until && c.w.Now() > c.reshaping.unknown+15*time.Second:
		m := pick(voters)
		m.switchOff()
		c.w.Mark(sim.Fault, m.Lane, "loses its disk")
		c.reshaping.lost = m
	case n <= 3 && len(learners) > 0 && len(voters) < 5:
		ask("promote a learner", replica.PromoteMember(uint64(pick(learners).ID)), nothing)
	case len(voters)+len(learners) < 6:
		learner := len(voters) > 4 || c.w.Chance(0.7)
		id := machine.NodeID(len(c.members) + 1)
		cc := replica.AddMember(uint64(id), []string{urlOf(id)}, learner)
		if c.w.Chance(0.3) { // it waits to be one
			c.newcomer()
			ask(fmt.Sprintf("add %d", id), cc, nothing)
			return
		}
		ask(fmt.Sprintf("add %d", id), cc, func(err error) {
			if err == nil || errors.Is(err, errAmbiguous) {
				c.newcomer()
			}
		})
	}
}
