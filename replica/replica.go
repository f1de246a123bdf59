package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Config is what a Replica is made from.
type Config struct {
	ID machine.NodeID
	// Boot differs each time a member starts. It tells this boot's requests
	// from those of an earlier one that are still on their way.
	Boot uint64

	// Tick is the heartbeat interval. Everything that counts in ticks follows
	// from it. etcd calls it --heartbeat-interval.
	Tick time.Duration
	// ElectionTicks without a heartbeat make a follower campaign; it waits up
	// to twice as long, at random.
	ElectionTicks int

	// Log is the state found on disk at the start.
	Log Log
	// Applied is the index that the Applier's state includes: the snapshot's.
	Applied uint64
	// Leases are those that the snapshot holds.
	Leases []LeaseChange

	// MaxEntryBytes bounds a batch of more than one request. Default 1 MiB.
	MaxEntryBytes int
	// MaxTailBytes bounds the entries in memory since the last snapshot: a
	// snapshot is wanted at half of it, and proposals are dropped beyond it.
	// Default 128 MiB.
	MaxTailBytes int

	// Logger receives raft's own messages; nil discards them.
	Logger raft.Logger
}

// Log is a log as it was found on disk. Snapshot holds the index, term and
// members from which Entries go on; a fresh cluster starts from [Genesis].
type Log struct {
	HardState *raftpb.HardState
	Snapshot  *raftpb.SnapshotMetadata
	Entries   []*raftpb.Entry
}

// Genesis is the log that every member of a fresh cluster starts from.
func Genesis(voters []machine.NodeID) Log {
	conf := &raftpb.ConfState{}
	for _, v := range voters {
		conf.Voters = append(conf.Voters, uint64(v))
	}
	one := uint64(1)
	return Log{
		HardState: &raftpb.HardState{Term: &one, Commit: &one},
		Snapshot:  &raftpb.SnapshotMetadata{Index: &one, Term: &one, ConfState: conf},
	}
}

func (c *Config) validate() error {
	switch {
	case c.ID == 0:
		return errors.New("replica: ID is zero")
	case c.Tick <= 0:
		return fmt.Errorf("replica: Tick %v is not positive", c.Tick)
	case c.ElectionTicks < 3:
		return fmt.Errorf("replica: ElectionTicks %d is less than 3: one lost heartbeat would start an election", c.ElectionTicks)
	case c.Log.Snapshot.GetIndex() == 0:
		return errors.New("replica: Log has no snapshot to start from; use Genesis for a fresh cluster")
	case c.Applied < c.Log.Snapshot.GetIndex():
		return fmt.Errorf("replica: applied index %d is before the snapshot at %d", c.Applied, c.Log.Snapshot.GetIndex())
	}
	if c.MaxEntryBytes == 0 {
		c.MaxEntryBytes = 1 << 20
	}
	if c.MaxTailBytes == 0 {
		c.MaxTailBytes = 128 << 20
	}
	return nil
}

// patience is how long a request without an answer is kept: longer than any
// client waits.
func (c *Config) patience() time.Duration { return 8 * c.electionTimeout() }

func (c *Config) electionTimeout() time.Duration { return time.Duration(c.ElectionTicks) * c.Tick }

// Replica is one member's part in the replication: raft, the batching of
// proposals, the confirmation of leadership for reads and renewals, and the
// timekeeping of leases. It is a machine.Machine; see the package comment.
type Replica struct {
	cfg  Config
	raft *raft.RawNode
	tail *tail

	now      machine.Mono
	nextTick machine.Mono

	leader machine.NodeID
	term   uint64 // under which leader was last reported
	// applied is what the Applier has reported, and the term of that entry.
	applied, appliedTerm uint64
	// last is the index of the last entry in the log; at a leader, exactly.
	last uint64
	// applying holds raft's apply messages that wait for that report.
	applying []*raftpb.Message

	proposals proposals
	rounds    rounds
	asks      asks
	leases    leases
	forwards  map[asker]*fates // at the leader, of its reign

	// bereaved is set after the leader's process died, until there is another;
	// campaignAt is when this member tries to become that.
	bereaved   bool
	campaignAt machine.Mono

	snapshotWanted bool

	sends    []machine.Envelope
	persists []machine.Persist
	outcomes []any
}

var _ machine.Machine = (*Replica)(nil)

// New returns a Replica that continues from cfg.Log.
func New(cfg Config, now machine.Now) (*Replica, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = discard{}
	}
	r := &Replica{
		cfg:         cfg,
		tail:        newTail(cfg.Log.HardState, cfg.Log.Snapshot, cfg.Log.Entries, cfg.MaxTailBytes/4),
		now:         now.Mono,
		nextTick:    now.Mono.Add(cfg.Tick),
		term:        cfg.Log.HardState.GetTerm(),
		applied:     cfg.Applied,
		appliedTerm: cfg.Log.Snapshot.GetTerm(),
	}
	r.rounds.id = 1
	r.leases.init(cfg.Leases)
	rn, err := raft.NewRawNode(&raft.Config{
		ID:                        uint64(cfg.ID),
		ElectionTick:              cfg.ElectionTicks,
		HeartbeatTick:             1,
		Storage:                   r.tail,
		Applied:                   cfg.Applied,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             1 << 20,
		MaxCommittedSizePerReady:  8 << 20,
		MaxUncommittedEntriesSize: uint64(cfg.MaxTailBytes) / 4,
		MaxInflightMsgs:           256,
		MaxInflightBytes:          16 << 20,
		CheckQuorum:               true,
		PreVote:                   true,
		DisableProposalForwarding: true,
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
func (r *Replica) Step(now machine.Now, input any) {
	r.now = now.Mono
	switch in := input.(type) {
	case machine.Wake:
	case machine.Envelope:
		r.receive(in)
	case Propose:
		r.proposals.add(r, in)
	case Read:
		r.rounds.want(in.Number)
	case AskLease:
		r.asks.add(r, in)
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
		r.handOver()
	default:
		panic(fmt.Sprintf("replica: unknown input %T", input))
	}
	if r.now >= r.nextTick {
		// After a pause there is one tick and not a burst of them: a member
		// that slept must listen before it judges the others.
		r.raft.Tick()
		r.nextTick = r.now.Add(r.cfg.Tick)
		r.proposals.onTick(r)
		r.rounds.onTick(r)
		r.asks.onTick(r)
	}
}

// receive takes a message from another member, or one that waited for
// durability here.
func (r *Replica) receive(env machine.Envelope) {
	local := env.From == r.cfg.ID
	switch m := env.Body.(type) {
	case *raftpb.Message:
		// Only this member's own storage may speak as raft's local threads, and
		// what gets into the log comes as a forward, where it is looked at.
		if !local && (machine.NodeID(m.GetFrom()) != env.From || m.GetType() == raftpb.MsgProp) {
			return
		}
		// The error tells of messages from unknown members: data, ignored.
		_ = r.raft.Step(m)
	case durable:
		if local {
			r.onDurable(m.Record)
		}
	case forward:
		r.onForward(env.From, m)
	case refused:
		r.proposals.refused(r, m)
	case leaseAsks:
		r.asks.receive(r, env.From, m)
	case leaseAnswers:
		r.asks.answered(r, m)
	}
}

func (r *Replica) onDurable(rec Record) {
	if rec.Snapshot != nil {
		r.tail.restored(rec.Snapshot.GetMetadata())
	}
	r.tail.append(rec.Entries)
}

// onApplied learns what the Applier did.
func (r *Replica) onApplied(in Applied) {
	r.applied, r.appliedTerm = in.Index, in.Term
	r.leases.changed(r, in.Leases)
	r.leases.applied(in.Index)
	r.proposals.settled(r, in)
	r.afterApply()
}

func (r *Replica) onRestored(in Restored) {
	r.applied, r.appliedTerm = in.Index, in.Term
	r.leases.init(in.Leases)
	r.proposals.restored(r, in.Term)
	r.afterApply()
}

func (r *Replica) afterApply() {
	for len(r.applying) > 0 {
		m := r.applying[0]
		if es := m.GetEntries(); es[len(es)-1].GetIndex() > r.applied {
			break
		}
		for _, resp := range m.GetResponses() {
			_ = r.raft.Step(resp)
		}
		r.applying = r.applying[1:]
	}
	// A leader knows all leases once it has applied an entry of its own term.
	if r.leading() && r.appliedTerm == r.term && !r.leases.ticking {
		r.leases.start(r.now, r.cfg.Tick)
	}
	r.asks.settle(r)
}

// leading tells whether this member believes to be the leader. Only a round of
// confirmation that began later proves it.
func (r *Replica) leading() bool { return r.leader == r.cfg.ID }

// Ready returns the effects; see machine.Machine.
func (r *Replica) Ready() machine.Ready {
	// Each of these may make work for the others; raft's Ready comes last so
	// that all of it leaves in this turn.
	r.campaign()
	r.leases.turn(r)
	r.leases.unmark(r)
	r.proposals.turn(r)
	r.asks.turn(r)
	r.rounds.turn(r)
	for r.raft.HasReady() {
		r.takeReady(r.raft.Ready())
		r.leases.unmark(r)
		r.proposals.turn(r)
		r.asks.turn(r)
		r.rounds.turn(r)
	}
	if !r.snapshotWanted && r.tail.sinceSnapshot() > r.cfg.MaxTailBytes/2 && r.applied > r.tail.snap.GetIndex() {
		r.snapshotWanted = true
		r.outcomes = append(r.outcomes, WantSnapshot{})
	}
	rd := machine.Ready{Sends: r.sends, Persists: r.persists, Outcomes: r.outcomes, Alarm: r.alarm()}
	r.sends, r.persists, r.outcomes = nil, nil, nil
	return rd
}

func (r *Replica) alarm() machine.Mono {
	alarm := min(r.nextTick, r.leases.due())
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
		r.leadership(leader, term)
	}
	for _, rs := range rd.ReadStates {
		r.rounds.confirmed(r, rs)
	}
	for _, m := range rd.Messages {
		switch m.GetTo() {
		case raft.LocalAppendThread:
			r.persist(m)
		case raft.LocalApplyThread:
			// The answer waits for the Applier, so that raft hands out no more
			// than MaxCommittedSizePerReady ahead of it.
			r.outcomes = append(r.outcomes, Committed{Entries: m.GetEntries()})
			r.applying = append(r.applying, m)
		default:
			if m.GetType() == raftpb.MsgSnap {
				r.outcomes = append(r.outcomes, SendSnapshot{To: machine.NodeID(m.GetTo()), Message: m})
				continue
			}
			r.send(machine.NodeID(m.GetTo()), m)
		}
	}
}

// persist turns a MsgStorageAppend into a Persist.
func (r *Replica) persist(m *raftpb.Message) {
	rec := Record{Entries: m.GetEntries()}
	if n := len(rec.Entries); n > 0 {
		r.last = rec.Entries[n-1].GetIndex()
	}
	if m.Term != nil && m.Commit != nil {
		rec.HardState = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
	}
	if !raft.IsEmptySnap(m.GetSnapshot()) {
		rec.Snapshot = m.GetSnapshot()
		md := rec.Snapshot.GetMetadata()
		r.outcomes = append(r.outcomes, Restore{Index: md.GetIndex(), Term: md.GetTerm()})
	}
	p := machine.Persist{Record: rec}
	if len(m.GetResponses()) > 0 {
		p.Then = make([]machine.Envelope, 0, 1+len(m.GetResponses()))
		p.Then = append(p.Then, machine.Envelope{From: r.cfg.ID, To: r.cfg.ID, Body: durable{rec}})
		for _, resp := range m.GetResponses() {
			p.Then = append(p.Then, machine.Envelope{From: r.cfg.ID, To: machine.NodeID(resp.GetTo()), Body: resp})
		}
	}
	r.persists = append(r.persists, p)
}

func (r *Replica) send(to machine.NodeID, body any) {
	r.sends = append(r.sends, machine.Envelope{From: r.cfg.ID, To: to, Body: body})
}

// readContext is what comes back with a ReadState: fresh for every round of
// every boot, so that no late answer is taken for another's.
func (r *Replica) readContext(round uint64) []byte {
	p := binary.BigEndian.AppendUint64(make([]byte, 0, 16), r.cfg.Boot)
	return binary.BigEndian.AppendUint64(p, round)
}
