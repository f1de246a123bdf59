package replicasim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// locker takes a lock over and over, as etcd's concurrency.Mutex does: with a key of its own,
// attached to its lease. The key's create revision is its place in the queue. It stops when, by
// its own clock, its lease may be over.
type locker struct {
	c    *Cluster
	id   int
	rate float64
	stop bool

	*held         // its present lease
	round   int   // counts leases, so that parts of an old one are void
	created int64 // the create revision of its key, once known
	until   time.Duration
	hold    *sim.Mark
}

// Lockers sets n clients to compete for one lock.
func (c *Cluster) Lockers(n int) {
	for i := range n {
		k := &locker{c: c, id: i, rate: (2*c.w.Rand.Float64() - 1) * c.harsh.rate}
		c.lockers = append(c.lockers, k)
		k.begin()
	}
}

// later does something unless the lease is another by then.
func (k *locker) later(d time.Duration, f func(m *Member)) {
	round := k.round
	k.c.w.After(d, func() {
		if round != k.round {
			return
		}
		if round > 0 && k.c.w.Now() >= k.until {
			k.begin()
			return
		}
		if m := k.c.anyMember(); m != nil {
			f(m)
			return
		}
		k.later(50*time.Millisecond, f)
	})
}

// begin starts over with a fresh lease.
func (k *locker) begin() {
	w := k.c.w
	k.round++
	k.hold.End()
	k.hold = nil
	k.created = 0
	k.until = 1 << 62
	if k.stop {
		return
	}
	l := &held{id: w.Rand.Int64N(1<<40) + 1, rate: k.c.harsh.rate, ttl: time.Duration(2+w.Rand.Int64N(3)) * time.Second}
	k.held = l
	k.later(w.Between(0, 500*time.Millisecond), func(m *Member) {
		sent := w.Now()
		k.until = l.until(sent, k.rate)
		l.lastSent = sent
		k.c.checks.leases[l.id] = l
		round := k.round
		m.propose(&pb.LeaseGrantRequest{ID: l.id, TTL: int64(l.ttl / time.Second)}, func(r replica.Result, err error) {
			if round != k.round || err != nil || r.Err != nil || w.Now() >= k.until {
				return
			}
			l.trust(sent, k.rate)
			k.renew()
			k.queue()
		})
		k.later(l.ttl, func(*Member) {
			if l.believedUntil == 0 {
				k.begin()
			}
		})
	})
}

// renew keeps the lease, each third of its TTL.
func (k *locker) renew() {
	k.later(k.ttl/3, func(m *Member) {
		l, sent, round := k.held, k.c.w.Now(), k.round
		l.lastSent = sent
		m.keepAlive(l.id, func(a replica.AnswerLease) {
			k.c.checks.answered(k.c.w, l, sent, k.rate, a)
			if round == k.round && a.TTL > 0 && k.c.w.Now() < k.until {
				k.until = max(k.until, l.until(sent, k.rate))
				k.hold.Until(k.until)
			}
		})
		k.renew()
	})
}

func (k *locker) key() []byte { return fmt.Appendf(nil, "lock/%d", k.held.id) }

// queue puts the key and learns its place; trying again does no harm.
func (k *locker) queue() {
	k.later(0, func(m *Member) {
		round := k.round
		m.propose(&pb.TxnRequest{
			Compare: []*pb.Compare{{
				Key: k.key(), Target: pb.Compare_CREATE, Result: pb.Compare_EQUAL,
				TargetUnion: &pb.Compare_CreateRevision{CreateRevision: 0},
			}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: k.key(), Lease: k.held.id}}}},
			Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: k.key()}}}},
		}, func(r replica.Result, err error) {
			if round != k.round || k.created > 0 || err != nil || r.Err != nil {
				return
			}
			resp := r.Response.(*pb.TxnResponse)
			k.created = resp.Header.Revision
			if !resp.Succeeded {
				k.created = resp.Responses[0].GetResponseRange().Kvs[0].CreateRevision
			}
			k.wait()
		})
		k.later(time.Second, func(*Member) {
			if k.created == 0 {
				k.queue()
			}
		})
	})
}

// wait looks, linearizably, whether the key is the oldest.
func (k *locker) wait() {
	k.later(k.c.w.Between(20*time.Millisecond, 200*time.Millisecond), func(m *Member) {
		round, over := k.round, false
		again := func() {
			if !over && round == k.round {
				over = true
				k.wait()
			}
		}
		m.read(func(v kv.View) {
			if over || round != k.round {
				return
			}
			resp, err := v.Range(&pb.RangeRequest{
				Key: []byte("lock/"), RangeEnd: []byte("lock0"), Limit: 1,
				SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_ASCEND,
			})
			if err != nil {
				panic(err)
			}
			if len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != k.created || k.c.w.Now() >= k.until {
				again()
				return
			}
			over = true
			k.enter()
		})
		k.c.w.After(time.Second, again)
	})
}

// enter holds the lock for a while, then lets it go.
func (k *locker) enter() {
	w, checks := k.c.w, &k.c.checks
	if o := checks.inside; o != nil && o.round == checks.insideRound && w.Now() < o.until {
		checks.fail(w, "lock: %d enters while %d may still be inside, until %v", k.id, o.id, o.until)
	}
	w.Note("locker %d enters at create revision %d", k.id, k.created)
	k.hold = w.Mark(sim.Holds, fmt.Sprintf("locker %d", k.id), "token %d", k.created).Of("the lock")
	k.hold.Until(k.until)
	if k.created <= checks.token {
		checks.fail(w, "lock: token %d follows %d", k.created, checks.token)
	}
	checks.inside, checks.insideRound, checks.token = k, k.round, k.created
	checks.entered++
	k.later(w.Between(0, 1500*time.Millisecond), func(m *Member) {
		id := k.held.id
		k.held.revoked = true
		k.begin()
		m.propose(&pb.LeaseRevokeRequest{ID: id}, func(replica.Result, error) {})
	})
}
