package sim

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/tenure-lease/tenure/kv"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/replica"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Cluster is a simulated consistent core: replicas with their appliers, which
// keep a store, and clients that use it.
type Cluster struct {
	w       *World
	net     *Network
	tail    int // bytes of log in memory
	members []*Member
	ids     []machine.NodeID
	checks  checks
	clients []*client
	lockers []*locker
}

// Member is one replica on its host.
type Member struct {
	*Host
	c       *Cluster
	replica *replica.Replica
	state   *replica.Applier
	boot    uint64

	// What its disk holds besides the log: snapshots, newest last.
	snapshots []savedSnapshot
	taking    bool // a snapshot is being made

	applying []any // outcomes for the applier, in order
	busy     bool
	stalled  bool // the applier stands still

	nextID   uint64
	results  map[uint64]func(replica.Result, error)
	answers  map[uint64]func(replica.AnswerLease)
	reads    map[uint64]func()
	readNext uint64
	waiting  []indexedRead
	term     uint64
}

type indexedRead struct {
	index uint64
	f     func()
}

// tick and electionTicks are etcd's defaults.
const (
	tick          = 100 * time.Millisecond
	electionTicks = 10
	smallTail     = 64 << 10 // so that worlds see snapshots
	drift         = 1e-4     // clocks differ in rate by at most this, each way
)

// What a client is told of a request that was given up.
var (
	errAmbiguous = errors.New("given up: it may take effect or not")
	errVoid      = errors.New("given up: it will never take effect")
)

// NewCluster starts a cluster of n members that hold no more than about tail
// bytes of log in memory.
func NewCluster(w *World, n, tail int) *Cluster {
	c := &Cluster{w: w, tail: tail, checks: newChecks()}
	c.net = NewNetwork(w, overTheWire)
	for i := range n {
		c.ids = append(c.ids, machine.NodeID(i+1))
	}
	for _, id := range c.ids {
		m := &Member{Host: NewHost(w, c.net, id, drift), c: c}
		m.Outcome = m.outcome
		c.members = append(c.members, m)
		m.boots()
	}
	return c
}

// overTheWire encodes and decodes, so that no member can see another's memory.
func overTheWire(body any) any {
	p, err := replica.EncodeBody(body)
	if err != nil {
		panic(err)
	}
	out, err := replica.DecodeBody(p)
	if err != nil {
		panic(err)
	}
	return out
}

// boots starts the member from what its disk holds.
func (m *Member) boots() {
	m.c.checks.rebooted(m)
	m.boot = m.w.Rand.Uint64() | 1
	log := replica.Genesis(m.c.ids)
	m.state = replica.NewApplier(m.ID, m.boot)
	for _, rec := range m.disk.durable {
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
				// The log did not lead up to it. It must say so before it goes
				// on, or what follows would not be found there the next time.
				m.disk.durable = append(m.disk.durable, replica.Record{Snapshot: &raftpb.Snapshot{Metadata: meta}})
			}
		}
		m.restore(log.Snapshot.GetIndex())
		if log.HardState.GetCommit() < log.Snapshot.GetIndex() {
			log.HardState = &raftpb.HardState{Term: new(max(log.HardState.GetTerm(), log.Snapshot.GetTerm())), Vote: log.HardState.Vote, Commit: new(log.Snapshot.GetIndex())}
		}
	}
	start := m.state.Restored()
	r, err := replica.New(replica.Config{
		ID: m.ID, Boot: m.boot, Tick: tick, ElectionTicks: electionTicks,
		Log: log, Applied: start.Index, Leases: start.Leases, MaxTailBytes: m.c.tail,
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
	m.w.Note("start %d from %d", m.ID, start.Index)
	m.Start(r)
}

// crash stops the member; a snapshot being made is lost.
func (m *Member) crash() {
	m.Host.Crash()
	m.results, m.answers, m.reads, m.waiting = nil, nil, nil, nil
}

// outcome does what a node does.
func (m *Member) outcome(out any) {
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
				m.waiting = append(m.waiting, indexedRead{out.Index, f})
			}
		}
		m.readNext = max(m.readNext, out.Number)
		m.serveReads()
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
	case replica.LeaderChanged:
		m.w.Note("member %d: leader %d term %d", m.ID, out.Leader, out.Term)
		m.c.checks.quiet = max(m.c.checks.quiet, m.w.Now())
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
	life := m.life
	m.w.After(m.w.Between(0, 3*time.Millisecond), func() {
		if m.life != life {
			return
		}
		if m.paused {
			m.busy = false
			m.w.After(10*time.Millisecond, func() {
				if m.life == life {
					m.apply()
				}
			})
			return
		}
		m.busy = false
		item := m.applying[0]
		m.applying = m.applying[1:]
		switch item := item.(type) {
		case replica.Committed:
			for _, e := range item.Entries {
				if err := m.state.Apply(e); err != nil {
					panic(err)
				}
				m.c.checks.applied(m.c.w, m, e)
			}
			m.report()
		case replica.Restore:
			m.restore(item.Index)
			m.c.checks.watchLeases(m.w, m)
			m.c.checks.watchEvents(m.w, m)
			m.Step(m.state.Restored())
			m.serveReads()
		}
		m.apply()
	})
}

func (m *Member) report() {
	applied, results := m.state.Take()
	m.Step(applied)
	for _, r := range results {
		if f := m.results[r.ID]; f != nil {
			delete(m.results, r.ID)
			f(r, nil)
		}
	}
	m.state.Store().Reclaim(100)
	m.serveReads()
}

func (m *Member) serveReads() {
	for len(m.waiting) > 0 && m.waiting[0].index <= m.state.Index() {
		f := m.waiting[0].f
		m.waiting = m.waiting[1:]
		f()
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
	m.nextID++
	n := uint64(len(m.reads)) + m.readNext + 1
	for m.reads[n] != nil {
		n++
	}
	m.reads[n] = func() { f(m.state.Store().View()) }
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
