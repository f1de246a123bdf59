package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// anewRevisions is by how much a cluster that begins anew raises the revision. The members that are lost may
// have given out later ones than this member knows, and their clients go by them: as fencing tokens, and in watches.
const anewRevisions = 1_000_000_000

// ErrAborted is returned by Start if Config.Abort ended it.
var ErrAborted = errors.New("node: the start was ended before it was over")

// Starting is the context of a part of a start that may take so long. Abort ends it.
func (cfg Config) Starting(patience time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	go func() {
		select {
		case <-cfg.Abort:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// aborted reports whether the start is to end.
func (cfg Config) aborted() bool {
	select {
	case <-cfg.Abort:
		return true
	default:
		return false
	}
}

// beginAnew makes the data directory that of the only member of another cluster, which begins with what this
// directory knows: etcd's --force-new-cluster. See the package comment.
func (n *Node) beginAnew() error {
	dir, began := n.cfg.DataDir, n.cfg.mono()
	found, err := n.cfg.WAL.Exists(dir)
	if err != nil {
		return fmt.Errorf("node: open data directory: %w", err)
	}
	if !found {
		return fmt.Errorf("node: %s has no data of a member, so no cluster can begin anew from it: name the --data-dir of a member that is left, or leave --force-new-cluster out", dir)
	}
	s, log, err := openStorage(dir, identity{}, n.cfg.WAL, n.cfg.Logger)
	if err != nil {
		return fmt.Errorf("node: open data directory: %w", err)
	}
	defer func() {
		if s != nil {
			s.log.Close()
		}
	}()
	if s.identity.Anew != 0 {
		n.logger.Warn("--force-new-cluster has no effect: this data directory has begun anew by it before. Leave the flag out. If the majority was lost once more, begin from a snapshot of this member", "cluster", hexOf(s.identity.Cluster), "before", hexOf(s.identity.Anew))
		return nil
	}
	id, snap, err := n.anew(s, log)
	if err != nil {
		return fmt.Errorf("node: begin a new cluster from %s: %w", dir, err)
	}
	// There is no cluster that could acknowledge a write until no member of the former one has a read lease.
	// This member made no promise since it began, and of the others no two heard of each other.
	n.logger.Warn("a new cluster begins from this member's data, of which it is the only member", "cluster", hexOf(id.Cluster), "before", hexOf(id.Anew), "entries up to", snap.Index-1, "waits until read leases have run out", quorumlease.Bound(quorumlease.MaxTTL))
	if err := makeAnew(dir, id, snap, n.cfg.WAL, n.logger); err != nil {
		return fmt.Errorf("node: begin a new cluster from %s: %w", dir, err)
	}
	for until := began.Add(quorumlease.Bound(quorumlease.MaxTTL)); n.cfg.mono() < until; {
		select {
		case <-n.cfg.Abort:
			return ErrAborted // the former data is as it was
		case <-time.After(min(until.Sub(n.cfg.mono()), n.cfg.HeartbeatInterval)):
		}
	}
	if err := commitAnew(dir, n.cfg.WAL); err != nil {
		return fmt.Errorf("node: begin a new cluster from %s: %w", dir, err)
	}
	err = s.log.Close()
	if s = nil; err != nil {
		return fmt.Errorf("node: begin a new cluster from %s: %w", dir, err)
	}
	return finishAnew(dir, n.cfg.WAL)
}

// anew applies the whole log, and returns the identity and the state with which the new cluster begins. The end
// of the log may not be committed, as far as this member knows: it knows of commits late, and one that it has
// acknowledged must not be lost.
func (n *Node) anew(s *storage, log replica.Log) (id identity, snap replica.Snapshot, err error) {
	state := replica.NewApplier(machine.NodeID(s.identity.Member), 0)
	state.Found(replica.FoundedBy(s.identity.founders(n.founders)))
	if index := log.Snapshot.GetIndex(); index > state.Index() {
		if err := s.load(state, index, nil); err != nil {
			return id, snap, err
		}
	}
	for _, e := range log.Entries {
		if err := state.Apply(e); err != nil {
			return id, snap, err
		}
	}
	raised, err := kv.Raise(state.Store().View(), anewRevisions)
	if err != nil {
		return id, snap, err
	}
	token := fmt.Sprintf("%s\x00anew %x %s", n.cfg.ClusterToken, s.identity.Cluster, rand.Text())
	members, err := roster(map[string]string{n.cfg.Name: n.cfg.Peers[n.cfg.Name]}, token)
	if err != nil {
		return id, snap, err
	}
	id = described(members, machine.NodeID(members[0].ID), token)
	id.Anew = s.identity.Cluster
	return id, state.Anew(replica.FoundedBy(members), raised), nil
}
