package replicasim

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/core/visibility"
	"github.com/tenure-lease/tenure/internal/lab/pushlease"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Member is one replica on its host.
type Member struct {
	*sim.Process[replica.Input, replica.Outcome]
	c        *Cluster
	replica  *replica.Replica
	state    *replica.Applier
	boot     uint64
	lease    replica.ReadLease // as it was published last
	keyLease *replica.KeyLease
	told     time.Duration // when the replica was last told of reads
	local    int           // reads answered under the lease
	unasked  int           // and those of them in key order that the replica was not asked for
	shared   int           // requests that shared an entry
	counted  keyspan.Set   // that were read by them, and are to be told
	seen     visibility.States[view]
	hub      *hub // nil while there is no watcher here
	keys     keyReads

	// The disk's content besides the log: snapshots, newest last.
	snapshots []savedSnapshot
	lives     uint64        // how often it was started
	promised  time.Duration // the longest promise that any life may have made
	taking    bool          // a snapshot is being made

	applying []replica.Outcome // outcomes for the applier, in order
	busy     bool
	stalled  bool // the applier stands still
	gone     bool // it was switched off for good

	nextID     uint64
	results    map[uint64]func(replica.Result, error)
	answers    map[uint64]func(replica.AnswerLease)
	reads      map[uint64]func()
	readNext   uint64
	waiting    []*indexedRead
	term       uint64
	leadership *sim.Mark
}

type indexedRead struct {
	index uint64
	f     func()
}

// startUp starts the member from its disk.
func (m *Member) startUp() {
	m.c.checks.rebooted(m)
	m.lives++
	m.boot = m.lives<<32 | uint64(m.c.w.Rand.Uint32())
	log := m.c.genesis()
	m.state = replica.NewApplier(m.ID, m.boot)
	m.state.Found(m.c.founders())
	for _, rec := range m.Disk.Durable {
		rec := rec.(replica.Record)
		if rec.Snapshot != nil {
			log.Snapshot = rec.Snapshot.GetMetadata()
			log.Entries = keepAfter(log.Entries, log.Snapshot)
		}
		for _, e := range rec.Entries {
			if len(log.Entries) > 0 {
				log.Entries = log.Entries[:e.GetIndex()-log.Entries[0].GetIndex()]
			}
			log.Entries = append(log.Entries, e)
		}
		if rec.HardState != nil {
			log.HardState = rec.HardState
		}
		log.Released = max(log.Released, rec.Released)
	}
	// A snapshot file counts once it is there, told of in the log or not.
	if k := len(m.snapshots); k > 0 {
		s := m.snapshots[k-1]
		if s.index > log.Snapshot.GetIndex() {
			meta := m.metadata(s)
			before := len(log.Entries)
			log.Entries = keepAfter(log.Entries, meta)
			log.Snapshot = meta
			if before > 0 && len(log.Entries) == 0 {
				// The log did not lead up to it. It must write that before it goes on, or later
				// records would not be found there the next time.
				m.Disk.Durable = append(m.Disk.Durable, replica.Record{Snapshot: &raftpb.Snapshot{Metadata: meta}})
				m.Disk.Forced = len(m.Disk.Durable)
			}
		}
		m.restore(log.Snapshot.GetIndex())
		if log.HardState.GetCommit() < log.Snapshot.GetIndex() {
			log.HardState = &raftpb.HardState{Term: new(max(log.HardState.GetTerm(), log.Snapshot.GetTerm())), Vote: log.HardState.Vote, Commit: new(log.Snapshot.GetIndex())}
		}
	}
	start := m.state.Restored()
	forgotten := quorumlease.Config{EarlierTTL: m.promised}.Forgotten(m.Mono())
	r, err := replica.New(replica.Config{
		ID: m.ID, Boot: m.boot, Tick: tick, ElectionTicks: electionTicks,
		Log: log, Restored: start, MaxTailBytes: m.c.Tail,
		ReadLeases: m.readLeases(), Promises: m.promises(), MaxLearners: m.c.maxLearners(),
	}, m.Now())
	if err != nil {
		panic(err)
	}
	m.replica = r
	m.applying, m.busy, m.taking, m.stalled = nil, false, false, false
	m.results = map[uint64]func(replica.Result, error){}
	m.answers = map[uint64]func(replica.AnswerLease){}
	m.reads = map[uint64]func(){}
	m.nextID, m.readNext, m.waiting, m.term = 0, 0, nil, 0
	m.lease, m.keyLease, m.told, m.counted = replica.ReadLease{}, nil, 0, nil
	m.seen, m.keys = visibility.States[view]{}, keyReads{}
	known := min(log.Released, max(log.HardState.GetCommit(), start.Index)) // as a node's storage says it
	m.seen.Begin(view{}, m.newest(), max(start.Released, known))
	m.c.onPublish(m)
	m.c.w.Note("start %d from %d", m.ID, start.Index)
	if m.c.Paper != nil && m.c.Paper.WaitToRejoin {
		m.Start(&pushlease.Absent{Replica: r, Self: m.ID, Until: forgotten})
		return
	}
	m.Start(r)
}

// crash stops the member; a snapshot being made is lost.
func (m *Member) crash() {
	m.Host.Crash()
	m.hub.close()
	m.hub = nil
	m.leadership.End()
	m.results, m.answers, m.reads, m.waiting = nil, nil, nil, nil
}

// outcome does the work of a node.
func (m *Member) outcome(out replica.Outcome) {
	switch out := out.(type) {
	case replica.Committed, replica.Restore:
		m.applying = append(m.applying, out)
		m.apply()
	case replica.WantSnapshot:
		m.takeSnapshot()
	case replica.ReadReady:
		for n := m.readNext + 1; n <= out.Number; n++ {
			if f := m.reads[n]; f != nil {
				delete(m.reads, n)
				m.waiting = append(m.waiting, &indexedRead{out.Index, f})
			}
		}
		m.readNext = max(m.readNext, out.Number)
		m.serveReads()
	case replica.ReadLease:
		m.lease = out
		m.c.mayRead(m)
	case *replica.KeyLease:
		m.keyLease = out
		m.c.mayReadKey(m)
	case replica.Released:
		m.onReleased(out)
	case replica.KeysReady:
		m.keysReady(out)
	case *replica.Plan:
		m.makePlan(out)
	case replica.AnswerLease:
		if f := m.answers[out.ID]; f != nil {
			delete(m.answers, out.ID)
			f(out)
		}
	case replica.Dropped:
		for _, id := range out.IDs {
			if f := m.results[id]; f != nil {
				delete(m.results, id)
				err := errVoid
				if out.Ambiguous {
					err = errAmbiguous
				}
				f(replica.Result{}, err)
			}
		}
	case replica.Rejected:
		if f := m.results[out.ID]; f != nil {
			delete(m.results, out.ID)
			f(replica.Result{}, out.Err)
		}
	case replica.Removed:
		m.leave()
	case replica.LeaderChanged:
		m.c.w.Note("member %d: leader %d term %d", m.ID, out.Leader, out.Term)
		m.leadership.End()
		if out.Leader == m.ID {
			m.leadership = m.c.w.Begin(sim.Holds, m.Lane, "leads").Of(fmt.Sprintf("term %d", out.Term))
		}
		m.c.checks.quiet = max(m.c.checks.quiet, m.c.w.Now())
	case replica.SendSnapshot:
		m.sendSnapshot(out)
	default:
		panic(fmt.Sprintf("unknown outcome %T", out))
	}
}

// apply works off the committed entries some at a time, later than they were
// handed out, as the second goroutine of a node does.
func (m *Member) apply() {
	if m.busy || m.stalled || len(m.applying) == 0 {
		return
	}
	m.busy = true
	m.After(m.c.applyDelay(), func() {
		if m.Paused() {
			m.busy = false
			m.After(10*time.Millisecond, m.apply)
			return
		}
		m.work()
	})
}

// work applies the next entry, and goes on.
func (m *Member) work() {
	m.Work(func() (time.Duration, func()) {
		m.busy = false
		item := m.applying[0]
		m.applying = m.applying[1:]
		before := m.state.Store().Revision()
		switch item := item.(type) {
		case replica.Committed:
			for _, e := range item.Entries {
				if err := m.state.Apply(e); err != nil {
					panic(err)
				}
				if !m.c.Measured {
					m.c.checks.applied(m.c.w, m, e)
				}
				m.onApplied(item.Held)
			}
			return m.c.Costs.entries(m.state.Store().Revision() - before), func() {
				m.c.onPublish(m)
				m.report()
				m.apply()
			}
		case replica.Restore:
			m.restore(item.Index)
			m.seen.Begin(view{}, m.newest(), m.state.Restored().Released)
			m.c.onPublish(m)
			m.c.checks.watchLeases(m.c.w, m)
			m.c.checks.watchEvents(m.c.w, m)
			m.Step(m.state.Restored())
			m.serveReads()
		}
		return 0, m.apply
	})
}

func (m *Member) report() {
	applied, results := m.state.Take()
	m.seen.Capture(results)
	m.sharing(results)
	m.Step(applied)
	if len(m.seen.Ahead()) == 1 { // else what may be seen is older
		m.state.Store().Reclaim(100)
	}
	m.reveal(results)
}

// sharing counts the requests of this member that shared an entry.
func (m *Member) sharing(results []replica.Result) {
	for i, r := range results {
		if i > 0 && results[i-1].Index == r.Index || i+1 < len(results) && results[i+1].Index == r.Index {
			m.shared++
		}
	}
}

func (m *Member) serveReads() {
	m.serveKeys()
	waiting := m.waiting
	m.waiting = nil
	for _, r := range waiting {
		if r.index <= m.view().index {
			r.f()
		} else {
			m.waiting = append(m.waiting, r)
		}
	}
}

// propose has a request replicated; f is called at most once.
func (m *Member) propose(req proto.Message, f func(replica.Result, error)) {
	body, err := replica.EncodeRequest(req)
	if err != nil {
		panic(err)
	}
	m.nextID++
	m.results[m.nextID] = f
	m.Step(replica.Propose{ID: m.nextID, Body: body})
}

// read calls f when the state may be read linearizably.
func (m *Member) read(f func(kv.View)) {
	judged := m.c.judgeRead(m, f)
	if m.lease.Until == 0 {
		m.confirmedRead(judged)
	} else {
		m.leasedRead(judged)
	}
}

// confirmedRead asks the leader.
func (m *Member) confirmedRead(f func(view)) {
	m.nextID++
	n := uint64(len(m.reads)) + m.readNext + 1
	for m.reads[n] != nil {
		n++
	}
	m.reads[n] = func() { f(m.view()) }
	m.Step(replica.Read{Number: n})
}

// keepAlive renews a lease.
func (m *Member) keepAlive(lease int64, f func(replica.AnswerLease)) {
	m.nextID++
	m.answers[m.nextID] = f
	m.Step(replica.AskLease{ID: m.nextID, Lease: lease, Renew: true})
}

// fingerprint is a number that equal states share.
func (m *Member) fingerprint() uint64 {
	h := fnv.New64a()
	if _, err := m.state.Store().View().WriteTo(h); err != nil {
		panic(err)
	}
	return h.Sum64()
}
