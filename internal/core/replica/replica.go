package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Replica is one member's part in the replication: raft, the batching of
// proposals, the confirmation of leadership for reads and renewals, and the
// timekeeping of leases. It is a machine.Machine; see the package comment.
type Replica struct {
	moment
	effects
	raft     *raft.RawNode
	tail     *tail
	nextTick machine.Mono

	// unreleased are reports of the Applier that are not released yet, and applying are
	// the entries that raft handed out and that it has not been told to be applied.
	unreleased []Applied
	applying   []*raftpb.Entry

	writes    writes
	proposals proposals
	rounds    rounds
	asks      asks
	leases    leases
	reads     readLeases

	leadership
	candidacy
	members
	plausible

	snapshotWanted bool
}

// members are those of the cluster.
type members struct {
	roster  Roster                          // as of visible
	heard   map[machine.NodeID]machine.Mono // when the others were heard of last
	removed bool                            // this member was, and the owner knows
	// usersUsed tells that users or roles were changed before.
	usersUsed bool
	// alarmsUsed tells that an alarm was raised before.
	alarmsUsed bool
	promotions promotions
}

var _ machine.Receiver[Input, Outcome] = (*Replica)(nil)

// New returns a Replica that continues from cfg.Log.
func New(cfg Config, now machine.Now) (*Replica, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = discard{}
	}
	tail := newTail(cfg.Log.HardState, cfg.Log.Snapshot, cfg.Log.Entries, cfg.MaxTailBytes/4)
	r := &Replica{
		moment: moment{
			cfg: &cfg, now: now.Mono, term: cfg.Log.HardState.GetTerm(),
			visible: cfg.Restored.Index, visibleTerm: cfg.Log.Snapshot.GetTerm(), last: tail.last(),
		},
		effects:   effects{self: cfg.ID},
		tail:      tail,
		nextTick:  now.Mono.Add(cfg.Tick),
		members:   members{roster: cfg.Restored.Roster, heard: map[machine.NodeID]machine.Mono{}, usersUsed: cfg.Restored.UsersUsed, alarmsUsed: cfg.Restored.AlarmsUsed},
		plausible: plausible{least: tail.last()},
	}
	r.rounds.id = 1
	r.writes.init(cfg.Log.HardState)
	r.leases.init(cfg.Restored.Leases)
	r.reads.init(r.moment, &r.effects)
	rn, err := raft.NewRawNode(&raft.Config{
		ID:                        uint64(cfg.ID),
		ElectionTick:              cfg.ElectionTicks,
		HeartbeatTick:             1,
		Storage:                   r.tail,
		Applied:                   cfg.Restored.Index,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             uint64(min(1<<20, cfg.MaxTailBytes/8)),
		MaxCommittedSizePerReady:  maxApplyingBytes,
		MaxUncommittedEntriesSize: uint64(cfg.MaxTailBytes) / 4,
		MaxInflightMsgs:           256,
		MaxInflightBytes:          16 << 20,
		CheckQuorum:               true,
		PreVote:                   true,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	r.raft = rn
	// A group of one need not wait out an election timeout.
	if voters := cfg.Log.Snapshot.GetConfState().GetVoters(); len(voters) == 1 && voters[0] == uint64(cfg.ID) {
		if err := rn.Campaign(); err != nil {
			return nil, fmt.Errorf("replica: %w", err)
		}
	}
	return r, nil
}

// Step takes one input; see machine.Machine.
func (r *Replica) Step(now machine.Now, input Input) {
	r.now = now.Mono
	switch in := input.(type) {
	case Propose:
		r.proposals.add(in)
	case Read:
		r.reads.served(r.now)
		r.rounds.want(in.Number)
	case ReadKeys:
		r.reads.served(r.now)
		r.reads.plans.read(in.Keys)
		r.reads.keys.read(r.now, in)
	case Planned:
		r.reads.plans.planned(in)
	case Served:
		r.reads.served(r.now)
		r.reads.plans.read(in.Keys)
	case Doubted:
		r.reads.onDoubt(r.now, in)
	case AskLease:
		r.reads.asked(r.moment)
		r.asks.add(r.now, in)
	case Applied:
		r.onApplied(in)
	case Restored:
		r.onRestored(in)
	case Snapshotted:
		r.snapshotWanted = false
		index, term := in.Index, in.Term
		r.tail.snapshotted(&raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: in.ConfState})
	case SnapshotSent:
		status := raft.SnapshotFinish
		if !in.OK {
			status = raft.SnapshotFailure
		}
		r.raft.ReportSnapshot(uint64(in.To), status)
	case Down:
		r.onDown(in.Node)
	case Unreachable:
		r.raft.ReportUnreachable(uint64(in.Node))
	case HandOver:
		r.handOver(in.To)
	}
	r.tick()
}

// Receive takes a message of another member, or of this one that has waited for a record.
func (r *Replica) Receive(now machine.Now, env machine.Envelope) {
	r.now = now.Mono
	r.receive(env)
	r.tick()
}

// Wake lets time pass.
func (r *Replica) Wake(now machine.Now) {
	r.now = now.Mono
	r.tick()
}

// tick ends a step: it does what is due by the clock.
func (r *Replica) tick() {
	if r.now >= r.nextTick {
		// After a pause there is one tick and not a burst of them: a member
		// that slept must listen before it judges the others.
		r.raft.Tick()
		r.nextTick = r.now.Add(r.cfg.Tick)
		r.writeNews()
		r.proposals.onTick(r.moment, &r.effects)
		r.askAgain()
		r.asks.onTick(r.moment)
		r.reads.onTick(r.moment, &r.effects)
	}
}

// receive takes a message from another member, or one that waited for
// durability here.
func (r *Replica) receive(env machine.Envelope) {
	local := env.From == r.cfg.ID
	if _, gives := env.Body.(quorumlease.Return); r.roster.WasRemoved(uint64(env.From)) && !gives {
		return // it may not know, and must not disturb
	}
	r.heard[env.From] = r.now
	switch m := env.Body.(type) {
	case *raftpb.Message:
		// Raft tells the leader of an earlier term of a later one by a response that
		// acknowledges nothing. If that is the leader by now, it would take this for
		// the state of the sender's log, and begin with it from the start.
		if m.GetType() == raftpb.MsgAppResp && m.GetIndex() == 0 && m.GetTerm() == r.raft.BasicStatus().HardState.GetTerm() {
			return
		}
		if local {
			_ = r.raft.Step(m) // its own storage speaks, or its own vote
		} else {
			r.stepRaft(env.From, m)
		}
	case reported:
		r.receive(machine.Envelope{From: env.From, To: env.To, Body: m.Message})
		r.reads.receive(r.moment, &r.effects, env.From, m.Report)
	case announced:
		r.receive(machine.Envelope{From: env.From, To: env.To, Body: m.Message})
		r.reads.receive(r.moment, &r.effects, env.From, m.News)
	case counts:
		r.reads.plans.told(r.moment, &r.reads.electorate, env.From, m)
	case durable:
		if local {
			r.onDurable(m)
		}
	case forward:
		r.onForward(env.From, m)
	case refused:
		r.proposals.refused(r.moment, m)
	case rejected:
		r.proposals.rejected(r.moment, &r.effects, m)
	case readAsk:
		r.reads.asked(r.moment)
		r.asked(env.From, m)
	case readAnswer:
		r.confirmed(r.rounds.answered(r.moment, &r.effects, m, r.reads.bound(r.moment, m.Index)))
	case leaseAsks:
		r.reads.asked(r.moment)
		r.receiveAsks(env.From, m)
	case leaseAnswers:
		// It may have slept over a question that vouched for it. While this
		// member follows it, nobody has been elected since.
		if env.From == r.leader {
			r.asks.answered(r.moment, &r.effects, m)
		}
	default:
		r.reads.receive(r.moment, &r.effects, env.From, m)
	}
}

// onApplied learns what the Applier did.
func (r *Replica) onApplied(in Applied) {
	r.proposals.settled(in)
	r.usersUsed = r.usersUsed || in.UsersUsed
	r.alarmsUsed = r.alarmsUsed || in.AlarmsUsed
	for _, fate := range in.Batches {
		r.leases.settled(r.moment, fate)
	}
	r.afterApply(in.Index)
	r.reads.onApplied(r.moment, in)
	r.unreleased = append(r.unreleased, in)
	r.show()
}

// show takes what was applied for the present state, as far as it is released.
func (r *Replica) show() {
	for len(r.unreleased) > 0 && r.unreleased[0].Index <= r.reads.order().visible(r.unreleased[0].Index) {
		in := r.unreleased[0]
		r.unreleased = r.unreleased[1:]
		r.visible, r.visibleTerm = in.Index, in.Term
		r.enrolled(in.Roster)
		r.asks.answerParked(r.leases.changed(r.now, in.Leases))
		r.asks.answerParked(r.leases.applied(r.now, in.Index))
		r.settleAsks()
	}
}

func (r *Replica) onRestored(in Restored) {
	r.visible, r.visibleTerm, r.unreleased = in.Index, in.Term, nil
	r.usersUsed, r.alarmsUsed = in.UsersUsed, in.AlarmsUsed
	r.enrolled(in.Roster)
	r.reads.restored(r.moment, &r.effects, in)
	r.leases.init(in.Leases)
	r.proposals.restored(&r.effects, in.Term)
	r.afterApply(in.Index)
}

// enrolled learns of the members.
func (r *Replica) enrolled(now Roster) {
	if r.leading() {
		r.promotions.made(r.roster, now)
	}
	r.roster = now
	if !r.removed && now.WasRemoved(uint64(r.cfg.ID)) {
		r.removed = true
		r.outcomes = append(r.outcomes, Removed{})
	}
}

// afterApply tells raft what was applied, so that it hands out more. Entries that raft hands
// out together are applied a part at a time, as they are released, and the log may be
// compacted in between: raft must know how far.
func (r *Replica) afterApply(index uint64) {
	n := 0
	for n < len(r.applying) && r.applying[n].GetIndex() <= index {
		n++
	}
	if n > 0 {
		id, from, term := uint64(r.cfg.ID), raft.LocalApplyThread, uint64(0)
		_ = r.raft.Step(&raftpb.Message{
			Type: raftpb.MsgStorageApplyResp.Enum(), To: &id, From: &from, Term: &term, Entries: r.applying[:n:n],
		})
		r.applying = r.applying[n:]
	}
}

// Ready returns the effects; see machine.Machine.
func (r *Replica) Ready() machine.Ready[Outcome] {
	// Each of these may make work for the others; raft's Ready comes last so
	// that all of it leaves in this turn.
	r.campaign()
	r.turnLeases()
	r.turn()
	for r.raft.HasReady() {
		r.takeReady(r.raft.Ready())
		r.least = r.last
		r.turn()
	}
	r.reads.announce(r.moment, &r.effects)
	r.reads.publish(r.moment, &r.effects, r.raft)
	large := r.tail.sinceSnapshot() > r.cfg.MaxTailBytes/2 && r.reads.applied > r.tail.snap.GetIndex()
	if !r.snapshotWanted && (large || r.tail.missed && r.reads.applied >= r.tail.joined) {
		r.snapshotWanted = true
		r.outcomes = append(r.outcomes, WantSnapshot{})
	}
	rd := r.effects.take()
	rd.Alarm = r.alarm()
	return rd
}

// turn is what one part may have left for another to do.
func (r *Replica) turn() {
	r.turnReads()
	r.show()
	r.unmark()
	r.turnProposals()
	r.asks.turn(r.moment, &r.effects)
	r.turnRounds()
}

func (r *Replica) alarm() machine.Mono {
	alarm := min(r.nextTick, r.leases.due(r.moment), r.reads.due(r.moment), r.proposals.due(r.now), r.rounds.due(r.now, len(r.asks.inbox)+r.reads.keys.unasked()))
	if r.bereaved {
		alarm = min(alarm, r.campaignAt)
	}
	return alarm
}

// takeReady turns raft's effects into the machine's.
func (r *Replica) takeReady(rd raft.Ready) {
	leader, term := r.leader, r.term
	if rd.SoftState != nil {
		leader = machine.NodeID(rd.SoftState.Lead)
	}
	if rd.HardState != nil {
		term = rd.HardState.GetTerm()
	}
	if leader != r.leader || term != r.term {
		r.follow(leader, term)
	}
	for _, rs := range rd.ReadStates {
		r.confirmed(r.rounds.confirmed(r.moment, &r.effects, rs.RequestCtx, r.reads.bound(r.moment, rs.Index)))
	}
	r.reads.release(r.moment, &r.effects, r.raft) // so that what goes to the others now tells of it
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			r.write(m)
		case raft.LocalApplyThread:
			// The answer waits for the Applier, so that raft hands out no more
			// than maxApplyingBytes ahead of it.
			r.reads.noteCommitted(r.now, m.GetEntries())
			r.applying = append(r.applying, m.GetEntries()...)
			r.reconfigure(m.GetEntries())
		default:
			if m.GetType() == raftpb.MsgSnap {
				r.outcomes = append(r.outcomes, SendSnapshot{To: machine.NodeID(m.GetTo()), Message: m})
				continue
			}
			if c := m.GetContext(); m.GetType() == raftpb.MsgHeartbeat && len(c) == 8 {
				r.begun = max(r.begun, binary.LittleEndian.Uint64(c))
			}
			r.send(machine.NodeID(m.GetTo()), r.reads.attachNews(r.moment, m))
		}
	}
	if rd.HardState != nil {
		r.reads.committed = rd.HardState.GetCommit()
	}
}

// readContext is what comes back with a ReadState of this leader: fresh for every
// round, so that no late answer is taken for another's. Those to an earlier life
// are of an earlier term, too, and raft drops them.
func readContext(round uint64) []byte { return binary.BigEndian.AppendUint64(nil, round) }
