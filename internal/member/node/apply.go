package node

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/kv"
	"go.etcd.io/raft/v3/raftpb"
)

// sliceTime is how long the applier works before it publishes what it has, so
// that no caller waits for a long queue behind its own request.
const sliceTime = 5 * time.Millisecond

// reclaimVersions of compacted history are freed at a time.
const reclaimVersions = 2000

// applier applies committed entries on a goroutine of its own: a mass delete or
// expiry may take as long as it does, and heartbeats go on.
type applier struct {
	n       *Node
	state   *replica.Applier
	visible visible

	mu    sync.Mutex
	queue []any // of replica.Committed, .Released, .Restore, .WantSnapshot, holding and reclaiming
	wake  chan struct{}

	warned    time.Time
	members   uint64    // index of the change of the membership that the peers know
	reclaim   bool      // compacted history may be left
	compacted int64     // up to where it was given back
	began     time.Time // when the request that is being applied began
	emptied   []reclaiming
}

// newApplier begins with a state of which everything up to released may be seen, as the
// log says. The snapshot may say less: it was made when less was known.
func newApplier(n *Node, state *replica.Applier, released uint64) *applier {
	a := &applier{n: n, state: state, wake: make(chan struct{}, 1), reclaim: true, visible: visible{n: n}}
	restored := state.Restored()
	a.order(restored.ReadPolicy)
	if n.cfg.Applied != nil {
		state.Observe(a.applied)
	}
	a.visible.begin(a.now(), max(restored.Released, released))
	a.members = state.Roster().Memberships.Newest().Index
	return a
}

// put queues an outcome of the replica, or a holding.
func (a *applier) put(item any) {
	a.mu.Lock()
	a.queue = append(a.queue, item)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *applier) take() []any {
	a.mu.Lock()
	defer a.mu.Unlock()
	items := a.queue
	a.queue = nil
	return items
}

func (a *applier) run() {
	defer a.n.done.Done()
	for {
		items := a.take()
		for _, item := range items {
			err := a.do(item)
			select {
			case <-a.n.stop: // which may have made do fail
				return
			default:
			}
			if err != nil {
				a.n.fail(err)
				return
			}
		}
		// In turn with entries, however many there are; but while something is held the
		// published state is an older one, of which nothing may be given back.
		if a.reclaim && len(a.visible.Ahead()) == 1 {
			a.reclaim = a.state.Store().Reclaim(reclaimVersions)
			a.reclaimed()
		}
		a.tellReclaimed()
		if len(items) > 0 || a.reclaim && len(a.visible.Ahead()) == 1 {
			continue
		}
		select {
		case <-a.wake:
		case <-a.n.stop:
			return
		}
	}
}

// reclaimed publishes the state anew when a compaction is done: the one before
// holds on to what was given back, and tells the old size.
func (a *applier) reclaimed() {
	if now := a.n.State().view.CompactRevision(); !a.reclaim && now != a.compacted {
		a.compacted = now
		if len(a.visible.Ahead()) == 1 {
			a.visible.Add(a.now(), false)
			a.visible.show()
		}
	}
}

func (a *applier) do(item any) error {
	switch item := item.(type) {
	case replica.Committed:
		return a.apply(item)
	case replica.Released:
		a.visible.Release(item)
		a.state.Released(a.visible.Through())
		a.show(nil)
	case replica.Restore:
		return a.restore(item)
	case replica.WantSnapshot:
		a.n.snapshots.start(a.n, a.state.Snapshot())
	case holding:
		a.hold(item)
	case reclaiming:
		a.awaitReclaimed(item)
	}
	return nil
}

func (a *applier) apply(item replica.Committed) error {
	began := time.Now()
	for i, e := range item.Entries {
		begin := time.Now()
		a.began = begin
		if err := a.state.Apply(e); err != nil {
			return err
		}
		a.warn(e, begin)
		due := i == len(item.Entries)-1 || time.Since(began) > sliceTime
		if item.Held || due { // what is held is released one by one
			a.visible.Add(a.now(), item.Held)
		}
		if due {
			a.report()
			began = time.Now()
		}
	}
	a.reclaim = true
	return nil
}

// applied tells of a request. As in etcd it succeeded, too, if all that was wrong was that its revision is compacted.
func (a *applier) applied(operation string, err error) {
	now := time.Now()
	a.n.cfg.Applied(operation, err == nil || errors.Is(err, kv.ErrCompacted), now.Sub(a.began))
	a.began = now
}

// warn tells of an entry that took long, without what is in it.
func (a *applier) warn(e *raftpb.Entry, began time.Time) {
	bound := a.n.cfg.WarnApply
	if bound <= 0 {
		return
	}
	now := time.Now()
	took := now.Sub(began)
	if took >= bound {
		a.n.slow.Add(1)
	}
	if took >= bound && now.Sub(a.warned) >= time.Second {
		a.warned = now
		a.n.logger.Warn("an entry took long to apply", "index", e.GetIndex(), "bytes", len(e.GetData()), "took", took, "bound", bound)
	}
}

// report publishes the state and then answers the calls that waited for it. The replica hears
// of it last, for speed: a caller that gets an index from the replica looks for a state that
// includes it (barriers, visibility.For), and waits or asks again while there is none.
func (a *applier) report() {
	applied, results := a.state.Take()
	for _, token := range a.state.TakeTokens() {
		a.n.cfg.Assigned(token) // before anybody hears of it
	}
	a.visible.Capture(results)
	a.state.Released(a.visible.Through())
	a.order(applied.ReadPolicy)
	a.visible.show()
	a.n.driver.Step(applied)
	a.show(results)
}

// order has readers go by keys or not, before a state is published of which they must
// know.
func (a *applier) order(policy quorumlease.Policy) {
	if byKey(a.n.order.Load()) != policy.ByKey() {
		a.n.order.Add(1)
	}
}

// show answers what may be answered by now.
func (a *applier) show(results []replica.Result) {
	a.visible.show()
	a.visible.answer(results)
	if now := a.state.Roster(); now.Memberships.Newest().Index != a.members {
		a.members = now.Memberships.Newest().Index
		a.n.reconnect(now)
	}
	a.n.barriers.published(a.n.State().index)
	a.n.applications.published(a.n.appliedIndex())
}

// now is the state as it was applied.
func (a *applier) now() *state {
	return &state{
		view: a.state.Store().View(), users: a.state.Users(), alarms: a.state.Alarms(), index: a.state.Index(), term: a.state.Term(), roster: a.state.Roster(),
	}
}

// restore takes the place of everything with a snapshot that the leader sent.
func (a *applier) restore(item replica.Restore) error {
	if err := a.n.storage.arrivals.keep(item.Index, item.Term); err != nil {
		return err
	}
	a.n.restoring.Store(true)
	defer a.n.restoring.Store(false)
	if err := a.n.storage.load(a.state, item.Index, a.n.stop); err != nil {
		return err
	}
	a.n.logger.Info("caught up by a snapshot", "index", item.Index)
	a.n.advance(item.Index)
	restored := a.state.Restored()
	a.order(restored.ReadPolicy)
	a.visible.begin(a.now(), restored.Released)
	a.n.driver.Step(restored)
	a.show(nil)
	a.reclaim = true
	return nil
}

// load puts a snapshot file into an applier, unless stop is closed meanwhile.
func (s *storage) load(state *replica.Applier, index uint64, stop <-chan struct{}) error {
	r, err := s.log.Snapshots().Open(index)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := state.Restore(untilStop{stop: stop, r: r}, index, r.Info().Term); err != nil {
		return err
	}
	// Read on to the end, where the checksum is.
	_, err = io.Copy(io.Discard, r)
	return err
}
