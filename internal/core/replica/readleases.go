package replica

import (
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// ReadLeases are the settings of read leases at one member.
type ReadLeases struct {
	// Policy is what a cluster begins with that has none in its log yet; empty
	// leaves it without one, which is as good as off.
	Policy quorumlease.Policy
	// TTL is how long this member's promises last. Default 200 ms.
	TTL time.Duration
	// EarlierTTL is the longest TTL of this member's earlier lives, zero if there
	// was none: the member may have made promises of that length and forgotten them. It
	// must be durable before a TTL is used.
	EarlierTTL time.Duration
	// Idle is how long after a read a member goes on renewing its lease. Default
	// 10 s; negative means for ever, read or not.
	Idle time.Duration
	// PlanEvery is how often, under a policy that plans, a member tells the leader what
	// is read there, and the leader plans which members hold which keys. Default 5 s.
	PlanEvery time.Duration
	// Planner are settings of planning, of which Buckets must be the same at all
	// members. The members, the leader and the policy are filled in.
	Planner placement.Settings
}

func (c *ReadLeases) setDefaults() {
	if c.TTL == 0 {
		c.TTL = 200 * time.Millisecond
	}
	if c.Idle == 0 {
		c.Idle = 10 * time.Second
	}
	if c.PlanEvery == 0 {
		c.PlanEvery = 5 * time.Second
	}
	if c.Planner.Buckets == 0 {
		c.Planner.Buckets = placement.MaxBuckets
	}
}

// readLeases are this member's part in quorum read leases: it asks for promises and
// makes them, reports with what it acknowledges to whom it is bound, and, as the
// leader, finds out what is released. Readers, writers and watchers see nothing else (R2).
type readLeases struct {
	cfg      ReadLeases
	promises Promises
	ledger   quorumlease.Ledger
	stalls   *quorumlease.Stalls

	electorate
	demand
	positions
	unapplied
	bulletin

	setting  readSetting // as the log has it
	placed   bool        // this member holds some keys by it
	plans    plans
	proposed uint64 // the term in which this leader proposed its own
	keys     keyOrder
	waits    heldUp // since when what is committed waits to be released

	reported  lastReport
	shown     ReadLease
	shownKeys *KeyLease
	far       bool          // as the leader of this term it has had others judge for themselves
	flush     time.Duration // what making entries durable takes, smoothed
}

func (rl *readLeases) init(at moment, eff *effects) {
	rl.cfg = at.cfg.ReadLeases
	cfg := quorumlease.Config{Self: at.cfg.ID, Boot: at.cfg.Boot, TTL: rl.cfg.TTL, EarlierTTL: rl.cfg.EarlierTTL}
	if rl.promises = newAsked(cfg, at.now); at.cfg.Promises != nil {
		rl.promises = at.cfg.Promises(cfg, at.now)
	}
	rl.stalls = quorumlease.NewStalls(quorumlease.Config{TTL: rl.promises.Patience()})
	rl.reported.lapse, rl.placed = machine.Never, true
	rl.tail = slices.Clone(at.cfg.Log.Entries)
	rl.handedOut = at.cfg.Restored.Index
	rl.committed = max(at.cfg.Restored.Index, at.cfg.Log.HardState.GetCommit())
	rl.released, rl.recorded = at.cfg.Log.Released, at.cfg.Log.Released
	rl.received, rl.durable = rl.committed, rl.committed
	rl.restored(at, eff, at.cfg.Restored)
	if rl.cfg.Idle < 0 {
		rl.wanted = machine.Never
	}
}

// count takes note of the memberships that count from now on.
func (rl *readLeases) count(members quorumlease.Memberships) {
	if rl.follow(members) {
		rl.ledger.Count(members)
		rl.plans.restart()
	}
}

// settle notes that a change of the membership is released.
func (rl *readLeases) settle(at moment, eff *effects) {
	if rl.loading != 0 {
		return // what the snapshot says counts
	}
	now, fewer := rl.once(rl.releasedHere())
	if !fewer {
		return
	}
	if at.leading() { // members that have left are told now or never
		for _, id := range rl.everyone {
			if !now.Newest().Has(id) && id != at.cfg.ID {
				eff.send(id, rl.news(at))
			}
		}
	}
	rl.count(now)
}

func nodeIDs(ids []uint64) []machine.NodeID {
	list := make([]machine.NodeID, len(ids))
	for i, id := range ids {
		list[i] = machine.NodeID(id)
	}
	return list
}

// log returns what this member knows of its log.
func (rl *readLeases) log(at moment) quorumlease.Log {
	return quorumlease.Log{
		Term: at.term, Last: at.last, Received: rl.received, Commit: rl.committed,
	}
}

// served notes that somebody reads here.
func (rl *readLeases) served(now machine.Mono) {
	rl.readFor(now, rl.cfg.Idle)
}

// asked notes that the leader is asked for something: it is its lease that answers,
// and no other member's.
func (rl *readLeases) asked(at moment) {
	if at.leading() {
		rl.served(at.now)
	}
}

// onDoubt has this member rely on no promise, and keep its own for longer. Its clock may
// have stood still: then a promise may be over that it believes in. Or its clock may
// have run ahead: then a promise may bind it that it takes to be over.
func (rl *readLeases) onDoubt(now machine.Mono, in Doubted) {
	rl.doubt(now, in.Until)
	rl.promises.Doubt(in.Since, now)
	rl.reported.lapse = 0 // the leader is told at once
}

// yield gives the lease up until somebody reads again.
func (rl *readLeases) yield() {
	if rl.cfg.Idle > 0 {
		rl.wanted = 0
	}
}

// wantsLease reports whether this member is to hold a lease.
func (rl *readLeases) wantsLease(at moment) bool {
	// A leader that holds no keys has leases of clients to answer for.
	return rl.live(at.now) && rl.setting.policy.Asks(at.leading()) && (rl.placed || at.leading()) &&
		rl.memberships.Newest().Has(at.cfg.ID)
}

// set learns what the cluster has decided.
func (rl *readLeases) set(at moment, s readSetting) {
	if s == rl.setting {
		return
	}
	rl.placed = true // without cells each member with promises holds all
	if s.cells != nil {
		_, some := s.cells.Everything()
		place := s.cells.Place(at.cfg.ID)
		rl.placed = place >= 0 && some.Has(place)
	}
	rl.plans.follow(at, s)
	if rl.setting.policy != "" { // else the cluster begins
		rl.promises.Replaced(rl.standing(at), rl.setting.cells, s.cells)
		rl.keys.former = rl.promises.Former()
	}
	rl.setting = s
}

// standing returns how this member stands, for its promises.
func (rl *readLeases) standing(at moment) Standing {
	return Standing{
		Now: at.now, Leader: at.leader, Log: rl.log(at), Members: rl.memberships, Policy: rl.setting.policy,
		Wants: rl.wantsLease(at), Wanted: rl.wanted,
	}
}

// calledFor does what promises call for, with a message from a member, if it was one.
func (rl *readLeases) calledFor(at moment, eff *effects, from machine.NodeID, out PromiseEffects) {
	if out.ToVoters != nil {
		rl.toVoters(at, eff, out.ToVoters)
	}
	if out.Reply != nil {
		eff.send(from, out.Reply)
	}
	for _, m := range out.Sends {
		eff.send(m.To, m.Body)
	}
	if out.Answered {
		rl.plans.answered(from, out.Took)
	}
	if out.Report {
		rl.reported.lapse = min(rl.reported.lapse, out.ReportAt)
	}
	if out.Plan {
		rl.plans.next = at.now
	}
}

// until returns when this member's lease ends.
func (rl *readLeases) until(at moment) machine.Mono {
	if !rl.wantsLease(at) {
		return 0
	}
	return rl.promises.Until(rl.memberships)
}

// assured reports whether this member is the leader beyond doubt. While this one's
// lease lasts and its log has nothing of a later term, a later leader could release
// nothing, and so have counted no lease's time. All writes acknowledged by now are
// at index or before (R17).
func (rl *readLeases) assured(at moment, node *raft.RawNode) (index uint64, ok bool) {
	st := node.BasicStatus()
	ok = at.leading() && st.RaftState == raft.StateLeader && st.HardState.GetTerm() == at.visibleTerm && at.now < rl.until(at)
	return st.HardState.GetCommit(), ok
}

// receive takes a message of package quorumlease, or of other promises.
func (rl *readLeases) receive(at moment, eff *effects, from machine.NodeID, body any) {
	switch m := body.(type) {
	case quorumlease.Request:
		// A voter that knows no leader, or whose leader has given the asker up, binds
		// itself to nobody (R21). No voter binds itself to one that is no member (R23).
		if at.leader == 0 || !rl.votes(at.cfg.ID) || rl.givenUp(from, at.term) {
			return
		}
		if !rl.memberships.Newest().Has(from) {
			return
		}
		rl.calledFor(at, eff, from, rl.promises.Receive(rl.standing(at), from, m))
	case quorumlease.Report:
		rl.ledger.Report(from, m)
	case quorumlease.News:
		rl.released = max(rl.released, m.Released)
		rl.keys.news = m
		rl.named(m)
	default:
		rl.calledFor(at, eff, from, rl.promises.Receive(rl.standing(at), from, m))
	}
}

// newLeader learns of a leader; fresh says that the term is another, too.
func (rl *readLeases) newLeader(at moment, fresh bool) {
	if fresh {
		// Every later leader has what is committed, even if there is nothing left to be
		// acknowledged to it. A majority has that on disk, and this member need not be one of
		// it. The leader may lack the rest of what is on disk here.
		rl.received, rl.durable = rl.committed, min(rl.durable, rl.committed)
		rl.stalled, rl.told, rl.far = nil, nil, false
		rl.stalls.Reset()
	}
	rl.plans.restart()
	if at.leader != 0 && rl.ledger.Term() != at.term {
		rl.ledger.Begin(at.term, rl.memberships)
	}
}

// plan has the leader plan which members hold which keys, and returns the plan that is to be
// proposed, or nil.
func (rl *readLeases) plan(at moment, eff *effects) *placement.Configuration {
	rl.promises.Reached(rl.log(at))
	if rl.plans.counter == nil {
		return nil
	}
	return rl.plans.turn(at, eff, rl.planning(at))
}

// planning returns what plans are made by.
func (rl *readLeases) planning(at moment) planning {
	return planning{
		electorate: &rl.electorate, policy: rl.setting.policy, every: rl.cfg.PlanEvery,
		latest: rl.keys.latest(), settled: rl.accounted(at.last) && len(rl.keys.confs) <= 1,
		stalled: rl.stalled, promises: rl.promises,
	}
}

// turn has promises asked for or given back, reports what changed by itself, and
// returns the policy that is to be proposed for a cluster that has none.
func (rl *readLeases) turn(at moment, eff *effects) (propose quorumlease.Policy) {
	rl.calledFor(at, eff, 0, rl.promises.Turn(rl.standing(at)))
	rl.keys.former = rl.promises.Former()
	if at.now >= rl.reported.lapse {
		holders, everyone := rl.promises.Holders(at.now)
		if slices.Equal(holders, rl.reported.holders) && everyone == rl.reported.everyone {
			rl.reported.lapse = rl.promises.Due(at.now)
		} else {
			rl.tell(at, eff)
		}
	}
	if !at.leading() {
		return ""
	}
	stalled := rl.stalls.Look(at.now, rl.committed, &rl.ledger)
	if !slices.Equal(stalled, rl.stalled) {
		rl.version++ // others are told at once
	}
	rl.stalled, rl.stalledTerm = stalled, at.term
	// Somebody may have set one that is not applied.
	if at.presides() && rl.setting.policy == "" && rl.cfg.Policy != "" && rl.proposed != at.term &&
		rl.accounted(at.last) && !slices.ContainsFunc(rl.tail, setsPolicy) {
		rl.proposed = at.term
		return rl.cfg.Policy
	}
	return ""
}

// turnReads has what read leases call for proposed, and takes what raft may commit by them.
func (r *Replica) turnReads() {
	if cells := r.reads.plan(r.moment, &r.effects); cells != nil {
		r.proposeOwn(kindReadCells, wrapperspb.Bytes(cells.Encode()))
	}
	if policy := r.reads.turn(r.moment, &r.effects); policy != "" {
		// One that the log has no room for is proposed by the next leader.
		r.proposeOwn(kindReadPolicy, wrapperspb.String(string(policy)))
	}
	if commit := r.reads.foresee(r.moment, r.raft); commit != nil {
		_ = r.raft.Step(commit)
	}
	r.reads.release(r.moment, &r.effects, r.raft)
}

func (rl *readLeases) toVoters(at moment, eff *effects, body any) {
	for _, v := range rl.everyone {
		if v != at.cfg.ID && !slices.Contains(rl.learners, v) {
			eff.send(v, body)
		}
	}
}

// due returns when the next turn is needed.
func (rl *readLeases) due(at moment) machine.Mono {
	due := min(rl.reported.lapse, rl.plans.due(), rl.promises.Next(rl.standing(at)))
	if at.leading() {
		due = min(due, rl.stalls.Due())
	}
	return due
}
