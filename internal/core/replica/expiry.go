package replica

import (
	"container/heap"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// nextDue is when a lease wants attention: its next checkpoint or its end.
func (ls *leases) nextDue(l *lease) machine.Mono {
	// Checkpoints stand at 0.6 TTL remaining, then each 0.2 TTL below the last
	// one. None is made while one is being removed: behind the removal it would
	// outlive the renewals that no longer wait.
	next := l.ttl * 6 / 10
	if l.mark != nil && l.mark.proposed > 0 {
		next = l.mark.proposed - l.ttl*2/10
	}
	if next <= 0 || l.clearing {
		return l.deadline
	}
	// On the tick, so that many leases share an entry.
	at := l.deadline.Add(-millis(next))
	at += ls.grain - 1
	at -= at % ls.grain
	return min(l.deadline, at)
}

// due is the alarm for the earliest lease.
func (ls *leases) due(r *Replica) machine.Mono {
	if len(ls.known) > 0 || ls.starting(r) {
		return r.now
	}
	if !ls.ticking || ls.heap.Len() == 0 || len(ls.inFlight) >= maxExpiryEntries {
		return machine.Never
	}
	return ls.heap.all[0].due
}

// turn proposes the expiries and checkpoints that are due.
func (ls *leases) turn(r *Replica) {
	if len(ls.known) > 0 {
		ls.load(r)
	}
	if len(ls.known) == 0 && ls.starting(r) {
		ls.start(r)
	}
	if !ls.ticking {
		return
	}
	var marks []*pb.LeaseCheckpoint
	for ls.heap.Len() > 0 && ls.heap.all[0].due <= r.now && len(ls.inFlight) < maxExpiryEntries {
		var dead []int64
		for ls.heap.Len() > 0 && ls.heap.all[0].due <= r.now && len(dead) < maxExpiries {
			l := ls.heap.all[0]
			switch left := l.deadline.Sub(r.now); {
			case ls.revoking[l.id] > 0: // it ends by that
				l.due = r.now.Add(r.cfg.Tick)
				heap.Fix(&ls.heap, 0)
				continue
			case left <= 0:
				ls.heap.remove(l)
				l.expiring = true
				dead = append(dead, l.id)
				continue
			case ls.nextDue(l) <= r.now:
				if l.mark == nil {
					l.mark = new(mark)
				}
				l.mark.proposed = (left + time.Millisecond - 1).Milliseconds()
				marks = append(marks, &pb.LeaseCheckpoint{ID: l.id, Remaining_TTL: l.mark.proposed})
			}
			l.due = ls.nextDue(l)
			heap.Fix(&ls.heap, 0)
		}
		if len(dead) == 0 {
			break
		}
		if seq, ok := r.proposeOwn(kindExpire, listOf(dead)); ok {
			ls.inFlight[seq] = dead
		} else {
			ls.revive(r.now.Add(r.cfg.Tick), dead)
			break
		}
	}
	for len(marks) > 0 {
		n := min(len(marks), maxExpiries)
		// One that the log has no room for is made good by the next.
		r.proposeOwn(kindCheckpoint, &pb.LeaseCheckpointRequest{Checkpoints: marks[:n]})
		marks = marks[n:]
	}
}

// unmark proposes the removal of the checkpoints of renewed leases, many in one
// entry: after a pause of the network all leases may have one.
func (ls *leases) unmark(r *Replica) {
	for len(ls.renewed) > 0 {
		n := min(len(ls.renewed), maxExpiries)
		ids := ls.renewed[:n]
		ls.renewed = ls.renewed[n:]
		if _, ok := r.proposeOwn(kindCheckpoint, listOf(ids)); ok {
			continue
		}
		for _, id := range ids {
			if l := ls.table[id]; l != nil {
				l.clearing = false // until the renewal is repeated
			}
		}
	}
	ls.renewed = nil
}

// revive takes leases back whose expiry did not reach the log.
func (ls *leases) revive(at machine.Mono, ids []int64) {
	for _, id := range ids {
		if l := ls.table[id]; l != nil && l.expiring {
			l.expiring = false
			l.due = at
			ls.heap.add(l)
			ls.heap.order()
		}
	}
}

func listOf(ids []int64) *pb.LeaseCheckpointRequest {
	req := &pb.LeaseCheckpointRequest{Checkpoints: make([]*pb.LeaseCheckpoint, len(ids))}
	for i, id := range ids {
		req.Checkpoints[i] = &pb.LeaseCheckpoint{ID: id}
	}
	return req
}
