package node

import (
	"io"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/replica"
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
	n     *Node
	state *replica.Applier

	mu    sync.Mutex
	queue []any // of replica.Committed, .Restore, .WantSnapshot
	wake  chan struct{}

	reclaim   bool  // compacted history may be left
	compacted int64 // up to where it was given back
}

func newApplier(n *Node, state *replica.Applier) *applier {
	a := &applier{n: n, state: state, wake: make(chan struct{}, 1), reclaim: true}
	a.publish()
	return a
}

// put queues an outcome of the replica.
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
		if a.reclaim { // in turn with entries, however many there are
			a.reclaim = a.state.Store().Reclaim(reclaimVersions)
			a.reclaimed()
		}
		if len(items) > 0 || a.reclaim {
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
		a.n.hub.Publish(a.publish().view)
	}
}

func (a *applier) do(item any) error {
	switch item := item.(type) {
	case replica.Committed:
		return a.apply(item.Entries)
	case replica.Restore:
		return a.restore(item)
	case replica.WantSnapshot:
		a.n.snapshots.start(a.n, a.state.Snapshot())
	}
	return nil
}

func (a *applier) apply(entries []*raftpb.Entry) error {
	began := time.Now()
	for i, e := range entries {
		if err := a.state.Apply(e); err != nil {
			return err
		}
		if i == len(entries)-1 || time.Since(began) > sliceTime {
			a.report()
			began = time.Now()
		}
	}
	a.reclaim = true
	return nil
}

// report publishes the state and then tells who waited for it.
func (a *applier) report() {
	applied, results := a.state.Take()
	st := a.publish()
	a.n.hub.Publish(st.view)
	a.n.driver.Step(applied)
	for _, r := range results {
		a.n.results.answer(r.ID, result{r.Response, r.Err})
	}
	a.n.barriers.published(st.index)
}

func (a *applier) publish() *state {
	st := &state{view: a.state.Store().View(), index: a.state.Index(), term: a.state.Term(), members: a.state.Members()}
	a.n.state.Store(st)
	return st
}

// restore takes the place of everything with a snapshot that the leader sent.
func (a *applier) restore(item replica.Restore) error {
	if err := a.n.storage.load(a.state, item.Index, a.n.stop); err != nil {
		return err
	}
	a.n.logger.Info("caught up by a snapshot", "index", item.Index)
	a.n.advance(item.Index)
	st := a.publish()
	a.n.hub.Publish(st.view)
	a.n.driver.Step(a.state.Restored())
	a.n.barriers.published(st.index)
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
