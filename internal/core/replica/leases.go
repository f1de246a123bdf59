package replica

import (
	"container/heap"
	"maps"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// leases keeps the time of leases. Every member knows which leases exist, from
// the log; only the leader counts their time, on its own clock.
//
//   - A renewal moves the deadline and touches no log.
//   - A lease past its deadline is put into an expiry entry, up to
//     maxExpiries a time. A renewal that meets it there waits for the outcome.
//   - A new leader that has applied an entry of its own term gives every lease
//     its whole time again, some thousands a turn, lest it miss a heartbeat over
//     millions of them. It counts, and answers, when all have their time. A
//     dead lease must not live for ever while leaders come and go. So a lease
//     that was not renewed for 0.4 TTL has its remaining time checkpointed in
//     the log, and again after each further 0.2 TTL. A new leader gives it no
//     more than that.
//   - A renewal of a checkpointed lease is answered when the checkpoint's
//     removal has been applied; otherwise a new leader could end the lease
//     before the renewal that its client was promised.
//
// How long a dead lease may outlive its TTL: an undisturbed leader ends it after
// one TTL. Each change of leader adds the time without a leader and at most 0.4
// TTL (0.2 once a checkpoint is in the log). Leaders that all lead for less than
// that make no progress: then leases end when the flapping does.
type leases struct {
	table   map[int64]*lease
	ticking bool
	// heap holds all leases but those in an expiry entry. They are ordered while
	// ticking, one slice after the other before that, and not at followers.
	heap dueHeap

	// known are leases of a snapshot that are not in the table yet, late what the
	// log did since then.
	known, late []leaseChange

	grain machine.Mono // checkpoints are made at multiples of it

	// inFlight holds the batches of expiries that the log has not decided.
	inFlight map[uint64][]int64
	parked   map[int64][]parkedAsk
	// marks are checkpoints to be proposed, and renewed the leases whose checkpoints are to
	// be removed.
	marks   []*pb.LeaseCheckpoint
	renewed []int64
	// renewals were answered, and expired leases ended, by this leader, in all its terms.
	renewals, expired uint64

	// revoking holds, by lease, the index of the last entry of this leadership that
	// revokes it and is not applied yet; revocations lists them by index. The ID may have
	// been granted again behind that entry. Anything about the lease in a later one
	// would be about the new lease. Grants under way need no such care: as long as nothing
	// ends the lease before them, they fail.
	revoking    map[int64]uint64
	revocations []revocation
}

type revocation struct {
	index uint64
	id    int64
}

type lease struct {
	id, ttl  int64        // ttl in milliseconds
	deadline machine.Mono // while ordered
	due      machine.Mono // heap position: never later than what is to be done
	mark     *mark        // nil: no checkpoint, as most of the time
	slot     int32        // in the heap; -1 while expiring
	expiring bool         // in an expiry entry
	clearing bool         // the removal of a checkpoint was proposed
}

// mark is what checkpoints say that a lease has left, in ms; 0 for none.
type mark struct {
	logged   int64 // by the one in the log
	proposed int64 // by one that was proposed here
}

type parkedAsk struct {
	asker
	ask leaseAsk
}

// parkedAnswer is the answer to such an ask, when there is one.
type parkedAnswer struct {
	to     asker
	answer AnswerLease
}

const (
	// slice is how many leases are loaded, or given their time by a new leader, in
	// one turn: less than a millisecond's work.
	slice = 2000
	// maxExpiries in an entry, so that applying one stays short.
	maxExpiries = 1000
	// maxExpiryEntries on their way at once: the log belongs to clients too.
	maxExpiryEntries = 4
)

func (ls *leases) init(known []leaseChange) {
	*ls = leases{renewals: ls.renewals, expired: ls.expired, known: known, table: make(map[int64]*lease, len(known)), heap: dueHeap{all: make([]*lease, 0, len(known))}}
}

// load takes in the next slice of a snapshot's leases, and what happened since
// with the last one. No ask is parked before.
func (ls *leases) load(now machine.Mono) {
	n := min(len(ls.known), slice)
	for _, c := range ls.known[:n] {
		l := &lease{id: c.ID, ttl: c.TTL * 1000}
		if c.Checkpoint > 0 {
			l.mark = &mark{logged: c.Checkpoint}
		}
		ls.table[c.ID] = l
		ls.heap.add(l)
	}
	if ls.known = ls.known[n:]; len(ls.known) > 0 {
		return
	}
	late := ls.late
	ls.known, ls.late = nil, nil
	ls.changed(now, late)
}

// starting reports whether this leader has yet to give some leases their time. It
// knows all leases once it has applied an entry of its own term.
func (ls *leases) starting(at moment) bool {
	return at.presides() && !ls.ticking
}

// start gives the next slice of leases their time, and begins to count with the
// last one.
func (ls *leases) start(at moment) {
	ls.grain = machine.Mono(at.cfg.Tick)
	for range slice {
		l := ls.heap.next()
		if l == nil {
			break
		}
		ls.begin(l, at.now)
	}
	if ls.heap.next() != nil {
		return
	}
	ls.ticking = true
	ls.parked = map[int64][]parkedAsk{}
	ls.inFlight = map[uint64][]int64{}
}

// begin gives the first lease that is not ordered its time.
func (ls *leases) begin(l *lease, now machine.Mono) {
	left := l.ttl
	l.clearing = false // a proposal of an earlier leadership is void
	if l.mark != nil && l.mark.logged > 0 {
		left = min(left, l.mark.logged)
		l.mark.proposed = l.mark.logged
	} else {
		l.mark = nil
	}
	l.deadline = now.Add(millis(left))
	l.due = ls.nextDue(l)
	ls.heap.order()
}

// stop ends counting, when leadership or its term ends. Whether proposed expiries
// come to be is the log's affair.
func (ls *leases) stop(at moment) {
	for _, seq := range slices.Sorted(maps.Keys(ls.inFlight)) {
		ls.revive(at.now.Add(at.cfg.Tick), ls.inFlight[seq])
	}
	ls.heap.ordered = 0
	ls.ticking, ls.parked, ls.inFlight = false, nil, nil
	ls.renewed = nil
	ls.revoking, ls.revocations = nil, nil
}

// appended takes note of the revocations that this leader put into the log.
func (ls *leases) appended(index uint64, requests []Propose) {
	for _, req := range requests {
		if len(req.Body) == 0 || req.Body[0] != kindRevoke {
			continue
		}
		_, m, err := decodeRequest(req.Body)
		if err != nil {
			continue
		}
		id := m.(*pb.LeaseRevokeRequest).ID
		if ls.revoking == nil {
			ls.revoking = map[int64]uint64{}
		}
		ls.revoking[id] = index
		ls.revocations = append(ls.revocations, revocation{index, id})
	}
}

// applied forgets the revocations up to an index, and looks again at the asks that
// waited for one.
func (ls *leases) applied(now machine.Mono, index uint64) (answers []parkedAnswer) {
	for len(ls.revocations) > 0 && ls.revocations[0].index <= index {
		v := ls.revocations[0]
		ls.revocations = ls.revocations[1:]
		if ls.revoking[v.id] == v.index {
			delete(ls.revoking, v.id)
			answers = ls.unpark(now, v.id, answers)
		}
	}
	return answers
}

// settled learns the fate of an expiry entry.
func (ls *leases) settled(at moment, fate batchFate) {
	ids, ok := ls.inFlight[fate.Seq]
	if !ok {
		return
	}
	delete(ls.inFlight, fate.Seq)
	if fate.Refused {
		ls.revive(at.now.Add(at.cfg.Tick), ids)
	}
}

// changed learns what the log did to leases, and returns the answers that waited for it.
func (ls *leases) changed(now machine.Mono, changes []leaseChange) (answers []parkedAnswer) {
	if len(ls.known) > 0 {
		ls.late = append(ls.late, changes...)
		return nil
	}
	for _, c := range changes {
		l := ls.table[c.ID]
		switch c.Kind {
		case leaseGranted:
			l = &lease{id: c.ID, ttl: c.TTL * 1000}
			ls.table[c.ID] = l
			ls.heap.add(l)
			if ls.ticking {
				ls.begin(l, now)
			}
		case leaseGone:
			if l != nil && l.expiring {
				ls.expired++
			}
			delete(ls.table, c.ID)
			if l != nil && l.slot >= 0 {
				ls.heap.remove(l)
			}
			if ls.ticking {
				answers = ls.unpark(now, c.ID, answers)
			}
		case leaseCheckpointed:
			if l == nil {
				continue
			}
			if c.Checkpoint > 0 && l.mark == nil {
				l.mark = new(mark)
			}
			if l.mark != nil {
				l.mark.logged = c.Checkpoint
			}
			if c.Checkpoint == 0 && l.clearing {
				l.clearing, l.mark = false, nil
				if ls.ticking && l.slot >= 0 {
					l.due = ls.nextDue(l)
					heap.Fix(&ls.heap, int(l.slot))
				}
				answers = ls.unpark(now, c.ID, answers)
			}
		}
	}
	return answers
}

// unpark adds the answers to the asks that waited for what happened to a lease.
func (ls *leases) unpark(now machine.Mono, id int64, answers []parkedAnswer) []parkedAnswer {
	waiting := ls.parked[id]
	delete(ls.parked, id)
	for _, p := range waiting {
		if answer, ok := ls.ask(now, p.asker, p.ask); ok {
			answers = append(answers, parkedAnswer{p.asker, answer})
		}
	}
	return answers
}

// ask answers an ask at the confirmed leader, or parks it.
func (ls *leases) ask(now machine.Mono, from asker, ask leaseAsk) (AnswerLease, bool) {
	answer := AnswerLease{ID: ask.ID, Lease: ask.Lease}
	l := ls.table[ask.Lease]
	if l == nil {
		return answer, true
	}
	if ask.Renew {
		if l.expiring {
			ls.parked[l.id] = append(ls.parked[l.id], parkedAsk{from, ask})
			return answer, false
		}
		l.deadline = now.Add(millis(l.ttl))
		if l.mark != nil {
			ls.parked[l.id] = append(ls.parked[l.id], parkedAsk{from, ask})
			// Behind a revocation the removal could be taken for that of a checkpoint
			// of a lease granted since.
			if !l.clearing && ls.revoking[l.id] == 0 {
				l.clearing = true
				ls.renewed = append(ls.renewed, l.id)
			}
			return answer, false
		}
	}
	if ask.Renew {
		ls.renewals++
	}
	answer.TTL = l.ttl
	answer.Remaining = max(0, l.deadline.Sub(now).Milliseconds())
	return answer, true
}
