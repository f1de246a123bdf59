package node

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
	"go.etcd.io/raft/v3/raftpb"
)

// snapshotting makes and moves snapshots beside everything else.
type snapshotting struct{ done sync.WaitGroup }

// arrivals are snapshots that were received and are not kept. Raft has to judge them
// first: a newest snapshot that no leader sent would be this member's state after a
// restart.
type arrivals struct {
	mu   sync.Mutex
	list []*arrival
}

type arrival struct {
	*wal.Arrival
	taken bool          // by raft
	kept  chan struct{} // closed when Keep has returned err; nil before anybody keeps it
	err   error
}

func (as *arrivals) add(a *arrival) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.list = append(as.list, a)
}

func (as *arrivals) find(index, term uint64, taken bool) *arrival {
	for _, a := range as.list {
		if a.Info.Index == index && a.Info.Term == term && a.taken == taken {
			return a
		}
	}
	return nil
}

// take notes that raft goes on from a snapshot.
func (as *arrivals) take(index, term uint64) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if a := as.find(index, term, false); a != nil {
		a.taken = true
	}
}

// keep gives a snapshot that raft has taken its name, durably, unless it has it. The log
// and the applier both call it, and both return when the name is durable. The driver must not wait for
// a disk that hangs, so no lock is held meanwhile.
func (as *arrivals) keep(index, term uint64) error {
	as.mu.Lock()
	a := as.find(index, term, true)
	first := a != nil && a.kept == nil
	if first {
		a.kept = make(chan struct{})
	}
	as.mu.Unlock()
	switch {
	case a == nil:
		return nil
	case !first:
		<-a.kept
		return a.err
	}
	a.err = a.Keep()
	close(a.kept)
	as.mu.Lock()
	as.removeLocked(a)
	as.mu.Unlock()
	return a.err
}

// refuse removes a snapshot that raft has not taken.
func (as *arrivals) refuse(a *arrival) (refused bool, err error) {
	as.mu.Lock()
	refused = !a.taken
	if refused {
		as.removeLocked(a)
	}
	as.mu.Unlock()
	if !refused {
		return false, nil
	}
	return true, a.Discard()
}

func (as *arrivals) removeLocked(a *arrival) {
	as.list = slices.DeleteFunc(as.list, func(o *arrival) bool { return o == a })
}

func (s *snapshotting) wait() { s.done.Wait() }

// advance notes that a newer snapshot is in use.
func (n *Node) advance(index uint64) {
	if err := n.storage.advance(index); err != nil {
		n.logger.Warn("remove old snapshots", "err", err) // the next one tries again
	}
}

// start writes a snapshot of the applier's state to disk.
func (s *snapshotting) start(n *Node, snap replica.Snapshot) {
	s.done.Add(1)
	go func() {
		defer s.done.Done()
		began := time.Now()
		conf := snap.ConfState()
		err := n.storage.saveSnapshot(snap.Index, snap.Term, conf, func(w io.Writer) error {
			_, err := snap.WriteTo(untilStop{stop: n.stop, w: w})
			return err
		})
		snap.Release()
		if errors.Is(err, errStopped) {
			return
		}
		if err != nil {
			// A disk that does not take a snapshot will not take the log for
			// long: better to say so now.
			n.fail(fmt.Errorf("node: save a snapshot: %w", err))
			return
		}
		n.advance(snap.Index)
		n.logger.Info("saved a snapshot", "index", snap.Index, "took", time.Since(began))
		n.driver.Step(replica.Snapshotted{Index: snap.Index, Term: snap.Term, ConfState: conf})
	}()
}

// untilStop fails when the node stops, which does not wait for a large snapshot.
type untilStop struct {
	stop <-chan struct{}
	w    io.Writer
	r    io.Reader
}

func (u untilStop) Write(p []byte) (int, error) {
	select {
	case <-u.stop:
		return 0, errStopped
	default:
		return u.w.Write(p)
	}
}

func (u untilStop) Read(p []byte) (int, error) {
	select {
	case <-u.stop:
		return 0, errStopped
	default:
		return u.r.Read(p)
	}
}

// send streams the newest durable snapshot to a member that fell behind.
func (s *snapshotting) send(n *Node, out replica.SendSnapshot) {
	s.done.Add(1)
	go func() {
		defer s.done.Done()
		err := s.stream(n, out)
		if err != nil {
			n.logger.Warn("send a snapshot", "to", fmt.Sprintf("%x", uint64(out.To)), "err", err)
		} else {
			n.logger.Info("sent a snapshot", "to", fmt.Sprintf("%x", uint64(out.To)), "index", out.Message.GetSnapshot().GetMetadata().GetIndex())
		}
		n.driver.Step(replica.SnapshotSent{To: out.To, OK: err == nil})
	}()
}

func (s *snapshotting) stream(n *Node, out replica.SendSnapshot) error {
	header, err := replica.EncodeBody(out.Message)
	if err != nil {
		return err
	}
	file, _, err := n.storage.log.Snapshots().Export(out.Message.GetSnapshot().GetMetadata().GetIndex())
	if err != nil {
		return err
	}
	defer file.Close()
	return n.peers.SendStream(n.ctx, out.To, header, file)
}

// receive takes a snapshot that the leader streams, and only then lets the replica know
// of it. It is kept if raft goes on from it.
func (n *Node) receive(from machine.NodeID, header []byte, r io.Reader) error {
	<-n.running
	if !n.listensTo(from) {
		return fmt.Errorf("node: member %x is not listened to, for data directories are to be set right first", uint64(from))
	}
	body, err := replica.DecodeBody(header)
	if err != nil {
		return err
	}
	msg, ok := body.(*raftpb.Message)
	if !ok || msg.GetType() != raftpb.MsgSnap {
		return fmt.Errorf("node: a stream from member %x is not a snapshot", uint64(from))
	}
	if err := replica.Sound(msg, from, n.id); err != nil {
		return err
	}
	md := msg.GetSnapshot().GetMetadata()
	received, err := n.storage.log.Snapshots().Receive(md.GetIndex(), r)
	if err != nil {
		return err
	}
	a := &arrival{Arrival: received}
	if err := announcedSo(a.Info, md); err != nil {
		return errors.Join(err, a.Discard())
	}
	n.storage.arrivals.add(a)
	n.driver.Offer(machine.Envelope{From: from, To: n.id, Body: msg})
	for range 2 { // the first may share the turn of the message, whose outcomes come at its end
		if !n.driver.Do(func() {}) {
			return errStopped // the next start removes it
		}
	}
	if refused, err := n.storage.arrivals.refuse(a); err != nil {
		return err
	} else if refused {
		n.logger.Info("a snapshot was not needed", "from", fmt.Sprintf("%x", uint64(from)), "index", md.GetIndex())
	}
	return nil
}

// announcedSo returns an error if a snapshot's file says something else than its message.
func announcedSo(info wal.SnapshotInfo, md *raftpb.SnapshotMetadata) error {
	file, err := metadataOf(info)
	if err != nil {
		return err
	}
	is, was := file.GetConfState(), md.GetConfState()
	if file.GetIndex() != md.GetIndex() || file.GetTerm() != md.GetTerm() ||
		!slices.Equal(is.GetVoters(), was.GetVoters()) || !slices.Equal(is.GetLearners(), was.GetLearners()) {
		return fmt.Errorf("node: a snapshot of %v came with the file of %v", md, file)
	}
	return nil
}
