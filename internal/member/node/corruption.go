package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/caller"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// hashPatience bounds a comparison of the members' hashes.
const hashPatience = time.Minute

// watchCorruption has the leader compare the members again and again.
func (n *Node) watchCorruption() {
	defer n.done.Done()
	tick := time.NewTicker(n.cfg.CorruptCheck)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-tick.C:
			if n.leadership.Load().leader == n.id {
				n.checkCorruption(n.ctx)
			}
		}
	}
}

// checkCorruption raises the alarm CORRUPT of members whose data differ from those of a majority, or of member
// 0 if there is no such majority. A difference counts if it is found twice.
func (n *Node) checkCorruption(ctx context.Context) {
	found, total := n.compare(ctx)
	corrupt := differing(found, total)
	if len(corrupt) == 0 {
		n.logger.Info("the members' data were compared", "compared", len(found), "members", total)
		return
	}
	corrupt = both(corrupt, differing(n.compare(ctx)))
	for _, id := range corrupt {
		if n.Alarms().Raised(id, pb.AlarmType_CORRUPT) {
			continue
		}
		n.logger.Error("the data of a member differ from those of the others: all members refuse writes until the alarm is disarmed; see docs/alarms.md",
			"member", fmt.Sprintf("%x", id))
		alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: pb.AlarmType_CORRUPT}
		if _, err := n.Propose(caller.Member(ctx), alarm); err != nil {
			n.logger.Error("the alarm cannot be raised yet", "member", fmt.Sprintf("%x", id), "error", err)
		}
	}
}

// compare returns the hashes of this member and of those that have one at the same revision with the same
// compact revision, and the number of members.
func (n *Node) compare(ctx context.Context) (found map[uint64]uint32, total int) {
	members := n.applied().roster.Members
	own, err := n.hashAt(ctx, 0)
	if err != nil {
		return nil, len(members)
	}
	found = map[uint64]uint32{uint64(n.id): own.sum}
	if n.peers == nil {
		return found, len(members)
	}
	ctx, cancel := context.WithTimeout(ctx, hashPatience)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, m := range members {
		if m.ID == uint64(n.id) {
			continue
		}
		asked.Go(func() {
			h, err := n.hashOf(ctx, machine.NodeID(m.ID), own.revision)
			if err != nil || !own.comparable(h) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			found[m.ID] = h.sum
		})
	}
	asked.Wait()
	return found, len(members)
}

// both returns what is in both lists.
func both(first, second []uint64) []uint64 {
	return slices.DeleteFunc(first, func(id uint64) bool { return !slices.Contains(second, id) })
}

// differing returns the members whose hash is not that of a majority of all members. Without such a
// majority it is member 0, if any differ: nobody can tell which of them are wrong.
func differing(found map[uint64]uint32, total int) (ids []uint64) {
	with := map[uint32]int{}
	for _, sum := range found {
		with[sum]++
	}
	if len(with) < 2 {
		return nil
	}
	for id, sum := range found {
		if with[sum] <= total/2 {
			ids = append(ids, id)
		}
	}
	if len(ids) == len(found) {
		return []uint64{0}
	}
	slices.Sort(ids)
	return ids
}

// CheckAgainstOthers returns an error if more of the other members contradict this one's data than agree
// with them. It waits until this member has caught up. Without an answer there is nothing to compare.
func (n *Node) CheckAgainstOthers(ctx context.Context) error {
	if err := n.Ready(ctx); err != nil {
		n.logger.Warn("the data are not compared with those of the other members", "error", err)
		return nil
	}
	found, total := n.compare(ctx)
	own, agree, differ := found[uint64(n.id)], 0, 0
	for id, sum := range found {
		switch {
		case id == uint64(n.id):
		case sum == own:
			agree++
		default:
			differ++
		}
	}
	n.logger.Info("the data were compared with those of the other members", "agree", agree, "differ", differ, "members", total)
	if differ > agree {
		return fmt.Errorf("the data of this member contradict those of %d others: remove it, empty its data directory, and add it again: see docs/alarms.md", differ)
	}
	return nil
}
