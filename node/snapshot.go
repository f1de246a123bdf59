package node

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/replica"
	"go.etcd.io/raft/v3/raftpb"
)

// snapshotting makes and moves snapshots beside everything else.
type snapshotting struct{ done sync.WaitGroup }

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
	ctx, cancel := n.context()
	defer cancel()
	header, err := replica.EncodeBody(out.Message)
	if err != nil {
		return err
	}
	file, _, err := n.storage.log.Snapshots().Export(out.Message.GetSnapshot().GetMetadata().GetIndex())
	if err != nil {
		return err
	}
	defer file.Close()
	return n.peers.SendStream(ctx, out.To, header, file)
}

// receive keeps a snapshot that the leader streams, and only then lets the
// replica know of it.
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
	if _, err := n.storage.log.Snapshots().Import(msg.GetSnapshot().GetMetadata().GetIndex(), r); err != nil {
		return err
	}
	n.driver.Offer(machine.Envelope{From: from, To: n.id, Body: msg})
	return nil
}
