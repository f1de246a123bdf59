package replica

import (
	"container/heap"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// nextDue returns when a lease wants attention: its next checkpoint or its end.
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

// due returns the alarm for the earliest lease.
func (ls *leases) due(at moment) machine.Mono {
	if len(ls.known) > 0 || ls.starting(at) {
		return at.now
	}
	if !ls.ticking || ls.heap.Len() == 0 || len(ls.inFlight) >= maxExpiryEntries {
		return machine.Never
	}
	return ls.heap.all[0].due
}

// expire takes the leases whose time is over, as many as share an entry; none while the log
// has enough of them to do. The checkpoints that are due are in marks.
func (ls *leases) expire(at moment) (dead []int64) {
	if !ls.ticking || len(ls.inFlight) >= maxExpiryEntries {
		return nil
	}
	for ls.heap.Len() > 0 && ls.heap.all[0].due <= at.now && len(dead) < maxExpiries {
		l := ls.heap.all[0]
		switch left := l.deadline.Sub(at.now); {
		case ls.revoking[l.id] > 0: // it ends by that
			l.due = at.now.Add(at.cfg.Tick)
			heap.Fix(&ls.heap, 0)
			continue
		case left <= 0:
			ls.heap.remove(l)
			l.expiring = true
			dead = append(dead, l.id)
			continue
		case ls.nextDue(l) <= at.now:
			if l.mark == nil {
				l.mark = new(mark)
			}
			l.mark.proposed = (left + time.Millisecond - 1).Milliseconds()
			ls.marks = append(ls.marks, &pb.LeaseCheckpoint{ID: l.id, Remaining_TTL: l.mark.proposed})
		}
		l.due = ls.nextDue(l)
		heap.Fix(&ls.heap, 0)
	}
	return dead
}

// nextMarks takes checkpoints that are to be proposed, as many as share an entry.
func (ls *leases) nextMarks() []*pb.LeaseCheckpoint {
	n := min(len(ls.marks), maxExpiries)
	marks := ls.marks[:n]
	if ls.marks = ls.marks[n:]; len(ls.marks) == 0 {
		ls.marks = nil
	}
	return marks
}

// turnLeases takes in leases, gives them their time, and proposes the expiries and
// checkpoints that are due.
func (r *Replica) turnLeases() {
	ls := &r.leases
	if len(ls.known) > 0 {
		ls.load(r.now)
	}
	if len(ls.known) == 0 && ls.starting(r.moment) {
		if ls.start(r.moment); ls.ticking {
			r.settleAsks() // first, as those that came first may be over by now
		}
	}
	for dead := ls.expire(r.moment); len(dead) > 0; dead = ls.expire(r.moment) {
		seq, ok := r.proposeOwn(kindExpire, listOf(dead))
		if !ok {
			ls.revive(r.now.Add(r.cfg.Tick), dead)
			break
		}
		ls.inFlight[seq] = dead
	}
	for marks := ls.nextMarks(); len(marks) > 0; marks = ls.nextMarks() {
		// One that the log has no room for is made good by the next.
		r.proposeOwn(kindCheckpoint, &pb.LeaseCheckpointRequest{Checkpoints: marks})
	}
}

// nextRenewed takes renewed leases whose checkpoints are to be removed, as many as share an
// entry: after a pause of the network all leases may have one.
func (ls *leases) nextRenewed() []int64 {
	n := min(len(ls.renewed), maxExpiries)
	ids := ls.renewed[:n]
	if ls.renewed = ls.renewed[n:]; len(ls.renewed) == 0 {
		ls.renewed = nil
	}
	return ids
}

// stillMarked tells that the removal of some leases' checkpoints did not reach the log.
func (ls *leases) stillMarked(ids []int64) {
	for _, id := range ids {
		if l := ls.table[id]; l != nil {
			l.clearing = false // until the renewal is repeated
		}
	}
}

// unmark proposes the removal of the checkpoints of renewed leases.
func (r *Replica) unmark() {
	for ids := r.leases.nextRenewed(); len(ids) > 0; ids = r.leases.nextRenewed() {
		if _, ok := r.proposeOwn(kindCheckpoint, listOf(ids)); !ok {
			r.leases.stillMarked(ids)
		}
	}
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
