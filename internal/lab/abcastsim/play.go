package abcastsim

import (
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
)

// Protocol is package abcast in worlds of its own.
func Protocol() sim.Protocol {
	return sim.Protocol{
		Name:  "abcast",
		About: "atomic broadcast among one to seven members that crash, trim and catch up; total order, no duplication, no creation, contiguity, validity",
		Play:  playWorld,
	}
}

const (
	retry     = 100 * time.Millisecond
	heartbeat = 100 * time.Millisecond
	timeout   = 400 * time.Millisecond
	patience  = 60 * time.Second
)

type play struct {
	w       *sim.World
	net     *sim.Network
	judge   *judge
	epochs  *epochs
	members []*member
	clients []*client
	ids     []machine.NodeID // of the founders
	changes bool
	cfg     abcast.Config
	down    int
	stopped bool
	// rewrites reports whether a log is rewritten now.
	rewrites func() bool
}

// member is a host with a replica.
type member struct {
	p     *play
	host  *sim.Process[abcast.Input, abcast.Outcome]
	m     *abcast.Machine
	lives uint64
	replica
	dead bool
	join bool // it is no founder
}

// client broadcasts one message after the other, at a member that it may change. A forgotten
// client goes on under another ID.
type client struct {
	p      *play
	number int
	id     machine.ID           // none yet if it is zero
	next   func() abcast.Change // of a client that changes the members
	count  int                  // of its messages
	seq    uint64               // of the last one under its ID
	at     *member
	msg    abcast.Message
	busy   bool
	open   int // how many of the calls for msg under its ID may order it yet
}

func playWorld(w *sim.World) error {
	p := &play{w: w, net: sim.NewNetwork(w, func(b any) any { return b }), judge: newJudge()}
	for i := range [...]int{3, 5, 3, 4, 2, 7, 1}[w.Seed%7] {
		p.ids = append(p.ids, machine.NodeID(i+1))
	}
	p.epochs = newEpochs(p.ids)
	p.net.Take = func(e machine.Envelope) bool { p.epochs.showJudge(e); return false }
	p.cfg = abcast.Config{
		Consensus: fastct.Config{
			Members: p.ids, Retry: retry, Heartbeat: heartbeat, Timeout: timeout, Lambda: 1 + w.Rand.Uint64N(20),
			Plain: w.Chance(0.2), Spread: w.Chance(0.5), Volatile: w.Chance(0.3), Optimistic: w.Chance(0.3), Prefetch: w.Chance(0.3),
		},
		BatchCount: 1 + w.Rand.IntN(8), BatchBytes: 400, PendingCount: 20, PendingBytes: 1 << 20,
		Pipeline: 1 + w.Rand.IntN(4), Relay: 3 * retry, Direct: w.Chance(0.5), Clients: 100,
	}
	p.rewrites = w.Rewrites()
	clients := 1 + w.Rand.IntN(5)
	if w.Chance(0.5) { // clients are forgotten all the time
		p.cfg.Clients = 1 + w.Rand.IntN(4)
		clients += p.cfg.Clients
	}
	p.changes = !p.cfg.Consensus.Volatile && w.Chance(0.5)
	for _, id := range p.ids {
		p.addHost(id).start()
	}
	for i := range clients {
		c := &client{p: p, number: i, at: p.some()}
		p.clients = append(p.clients, c)
		if p.changes && i == 0 {
			c.next = p.change
		}
		c.later()
	}
	for range 2 {
		p.chaos(w.Between(3*time.Second, 8*time.Second))
		p.settle()
	}
	return errors.Join(p.epochs.Err(), p.judge.Err())
}

// addHost adds a host.
func (p *play) addHost(id machine.NodeID) *member {
	k := &member{p: p, host: sim.NewProcess[abcast.Input, abcast.Outcome](p.w, p.net, id, 1e-3), replica: replica{name: fmt.Sprintf("member %d", id), owner: &owner{}}}
	k.host.Lane = k.name
	k.host.Outcome = k.outcome
	p.members = append(p.members, k)
	return k
}

// start gives a member its next life. The application begins where the log does.
func (k *member) start() {
	k.lives++
	cfg := k.p.cfg
	cfg.Consensus.ID, cfg.Life, cfg.Join = k.host.ID, k.lives, k.join
	m, err := abcast.New(cfg, k.host.Disk.Durable)
	if err != nil {
		k.p.judge.violated("%s does not start again: %v", k.name, err)
		return
	}
	k.m = m
	k.p.judge.onBegin(&k.replica, m.Base())
	messages, ok := m.Messages(k.position, 1<<30)
	if !ok {
		k.p.judge.violated("%s has not kept what follows the state that it begins with, %d", k.name, k.position)
	}
	for _, d := range messages {
		k.p.judge.onDelivery(&k.replica, d)
	}
	if k.position != m.Position() {
		k.p.judge.violated("%s begins at %d, and its log ends at %d", k.name, m.Position(), k.position)
	}
	k.host.Start(sim.Rewriting[abcast.Input, abcast.Outcome]{Receiver: m, Records: m.Records, When: k.p.rewrites})
}

func (k *member) outcome(out abcast.Outcome) {
	w, j := k.p.w, k.p.judge
	switch o := out.(type) {
	case abcast.Delivered:
		w.Note("%s delivers %q at %d", k.name, o.Payload, o.Position)
		w.Count("deliveries", 1)
		j.onDelivery(&k.replica, o)
		for _, c := range k.p.clients {
			c.delivered(o.Client, o.Seq)
		}
	case abcast.Repeated:
		w.Count("repeated", 1)
		j.onRepeat(k.name, o)
		for _, c := range k.p.clients {
			c.delivered(o.Client, o.Seq)
		}
	case abcast.Refused:
		w.Note("%s refuses number %d: %v", k.name, o.Seq, o.Err)
		for _, c := range k.p.clients {
			if c.id == o.Client {
				c.refused(o)
			}
		}
	case abcast.Contradicted:
		j.violated("digest: %s says that member %d has another order up to %d", k.name, o.From, o.Position)
	case abcast.Forgotten:
		w.Note("%s does not know of number %d", k.name, o.Seq)
		w.Count("forgotten", 1)
		for _, c := range k.p.clients {
			if c.id == o.Client && c.seq == o.Seq && c.busy {
				c.id, c.busy = machine.ID{}, false
			}
		}
	case abcast.Lacks:
		w.Note("%s lacks what led to %d", k.name, o.Position)
		k.host.After(w.Between(0, 2*time.Second), func() { k.restore(o.Position) })
	case abcast.Installed:
		w.Note("%s installs %d", k.name, o.Position)
		w.Count("installed", 1)
		j.onInstall(&k.replica, o)
	case abcast.Began:
		w.Note("%s begins epoch %d: %v", k.name, o.Group.First, o.Group.IDs())
		w.Count("began", 1)
		k.p.epochs.onEpoch(k.name, o.Group)
	case abcast.Established:
		k.p.established(o.Group)
	case abcast.Leader:
		w.Note("%s trusts %d", k.name, o.Node)
	}
	if err := j.Err(); err != nil {
		w.Mark(sim.Violation, k.name, "%v", err)
	}
}

// restore gets the state up to a position from another member, the first of those asked that
// has it.
func (k *member) restore(position uint64) {
	from := k.p.some()
	if has := max(from.position, from.owner.has); has >= position && from.host.Up() {
		k.owner.has = max(k.owner.has, has)
	}
	if k.owner.has < position {
		k.host.After(k.p.w.Between(0, 2*time.Second), func() { k.restore(position) })
		return
	}
	k.host.Step(abcast.Restored{Position: k.owner.has})
}

func (c *client) later() { c.p.w.After(c.p.w.Between(0, 300*time.Millisecond), c.act) }

// act broadcasts the next message, or the same again, maybe elsewhere.
func (c *client) act() {
	w := c.p.w
	defer c.later()
	if c.p.stopped && !c.busy {
		return
	}
	if !c.busy {
		c.count++
		c.busy = true
		c.msg = abcast.Message{Payload: fmt.Appendf(nil, "%d.%d", c.number, c.count)}
		if c.next != nil {
			c.msg.Change, c.msg.Payload = true, c.next().Payload()
		}
		c.seq++
		c.open = 0
		w.Count("broadcasts", 1)
	} else if w.Chance(0.7) && c.at.host.Up() && !c.p.stopped {
		return // it waits
	}
	if !c.at.host.Up() || w.Chance(0.1) {
		c.at = c.p.some()
	}
	if !c.at.host.Up() {
		return
	}
	if c.id == (machine.ID{}) {
		c.id, c.seq, c.open = abcast.NewClient(c.at.m.Position(), w.Rand.Uint64()), 1, 0
	}
	c.msg.Client, c.msg.Seq = c.id, c.seq
	c.p.judge.onBroadcast(c.msg)
	c.open++
	c.at.host.Step(abcast.Broadcast{Message: c.msg})
}

func (c *client) delivered(id machine.ID, seq uint64) {
	if c.id == id && c.busy && seq == c.seq {
		c.busy = false
	}
}

// refused: a member that is behind may not know yet that the message before was ordered. A
// client that is told of each call that it will not order the message broadcasts it as another
// client; one that does not know that of all gives it up, or tries on.
func (c *client) refused(r abcast.Refused) {
	if c.seq != r.Seq || !c.busy {
		return
	}
	c.open--
	switch r.Err {
	case abcast.ErrOutside:
		c.at = c.p.some()
	case abcast.ErrBusy, abcast.ErrClient:
	case abcast.ErrSequence:
		switch {
		case c.open <= 0:
			c.id = machine.ID{}
			c.p.w.Count("anew", 1)
		case c.p.w.Chance(0.5):
			c.id, c.busy = machine.ID{}, false
			c.p.w.Count("given up", 1)
		}
	default:
		c.p.judge.violated("number %d of client %d is refused: %v", r.Seq, c.number, r.Err)
	}
}

// crash ends a member's life. In crash-stop worlds it was the last one.
func (k *member) crash() {
	if n := len(k.p.ids); !k.host.Up() || k.p.cfg.Consensus.Volatile && n-k.p.down-1 < n/2+1 {
		return // a majority has to live
	}
	k.host.Crash()
	if k.p.cfg.Consensus.Volatile {
		k.p.down++
		k.dead = true
		return
	}
	k.p.w.After(k.p.w.Between(0, 3*time.Second), func() {
		if !k.host.Up() && !k.dead {
			k.start()
		}
	})
}

func (p *play) some() *member { return p.members[p.w.Rand.IntN(len(p.members))] }

// chaos lets d pass, with faults of the kinds that this world draws.
func (p *play) chaos(d time.Duration) {
	w, n := p.w, p.net
	p.stopped = false
	n.Loss, n.Duplicate, n.Slow = w.Swarm(0.3), w.Swarm(0.3), w.Swarm(0.1)
	var kinds []func()
	for _, kind := range []func(){
		func() { p.some().crash() },
		func() { p.some().crash() },
		func() { n.Cut(p.some().host.ID, p.some().host.ID) },
		func() { n.Mend() },
		func() { p.some().host.Step(abcast.Suspect{Node: p.some().host.ID, Suspected: true}) },
		func() {
			if k := p.some(); k.host.Up() && !k.host.Paused() {
				k.host.Pause()
				k.host.After(w.Between(0, 2*time.Second), k.host.Resume)
			}
		},
		func() { p.some().host.Disk.Slow = w.Between(0, 200*time.Millisecond) },
		func() {
			if k := p.some(); k.host.Up() {
				at := k.position - min(k.position, uint64(w.Rand.IntN(20)))
				k.owner.has = max(k.owner.has, at)
				k.host.Step(abcast.Trim{Position: at})
			}
		},
	} {
		if w.Chance(0.5) {
			kinds = append(kinds, kind)
		}
	}
	for end := w.Now() + d; w.Now() < end && p.judge.Err() == nil; {
		if len(kinds) > 0 {
			kinds[w.Rand.IntN(len(kinds))]()
		}
		w.Run(w.Between(0, 500*time.Millisecond))
	}
}

// settle ends all faults but death. Then all that live deliver the same, and their clients'
// messages.
func (p *play) settle() {
	w, n := p.w, p.net
	n.Loss, n.Duplicate, n.Slow = 0, 0, 0
	n.Mend()
	for _, k := range p.members {
		k.host.Disk.Slow = 0
	}
	p.stopped = true
	w.Run(4 * time.Second) // members that are down or paused come back
	missing := func() error {
		for _, c := range p.clients {
			if c.busy {
				return fmt.Errorf("validity: message %d of client %d is not ordered", c.count, c.number)
			}
		}
		for _, k := range p.members {
			if !k.dead && p.epochs.last.Has(k.host.ID) && k.position != p.judge.length() {
				return fmt.Errorf("agreement: %s has delivered up to %d of %d", k.name, k.position, p.judge.length())
			}
		}
		return nil
	}
	if p.judge.Err() == nil && !w.Until(patience, func() bool { return missing() == nil || p.judge.Err() != nil }) {
		p.judge.errs = append(p.judge.errs, missing())
	}
}
