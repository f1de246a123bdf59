package memberworld

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// lease is one that a client was granted, with a key under it.
type lease struct {
	id  clientv3.LeaseID
	key string
	ttl time.Duration
	// sure is until when the lease certainly lives: the begin of the last renewal that
	// was answered, and its TTL. It is not told by how the members count.
	sure    time.Duration
	revoked bool // a client has asked for that
	owned   bool // a client still means to renew it
	gone    bool // its key was seen to be gone
}

// tooEarly reports whether the lease must not have ended by now.
func (l *lease) tooEarly(now time.Duration) bool { return !l.revoked && now < l.sure-l.ttl/early }

// overdue reports whether the lease must have ended by now, and its end was not seen.
func (l *lease) overdue(now time.Duration) bool {
	return !l.owned && !l.gone && l.sure+l.ttl+margin <= now
}

// leaseJudge knows all leases.
type leaseJudge struct {
	mu   sync.Mutex
	list []*lease
}

// early is what clocks may differ by, in parts of a TTL: members' run at rates that are up
// to 0.4 % wrong, and leases allow for one percent.
const early = 100

func (j *leaseJudge) add(l *lease) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, l)
}

// leaseholder is a client that takes leases, renews them for a while, and forgets them or
// gives them back.
func (c *cluster) leaseholder(number int) {
	name := fmt.Sprintf("l%d", number)
	r := c.w.Rand("client " + name)
	cl := c.client(name)
	defer cl.Close()
	for i := 0; !c.resting(); i++ {
		ttl := int64(2 + r.IntN(4))
		renewals := r.IntN(6)
		revokes := r.IntN(4) == 0
		c.tenure(cl, &lease{key: fmt.Sprintf("l/%s/%d", name, i), owned: true}, ttl, renewals, revokes)
		c.pause(time.Duration(r.Int64N(int64(time.Second))))
	}
}

// tenure is the life of a lease.
func (c *cluster) tenure(cl *clientv3.Client, l *lease, ttl int64, renewals int, revokes bool) {
	ctx, cancel := within(4 * time.Second)
	defer cancel()
	began := c.w.Elapsed()
	resp, err := cl.Grant(ctx, ttl)
	if err != nil {
		return
	}
	l.id, l.ttl = resp.ID, time.Duration(resp.TTL)*time.Second
	l.sure = began + l.ttl
	c.leases.add(l)
	defer func() {
		c.leases.mu.Lock()
		l.owned = false
		c.leases.mu.Unlock()
	}()
	if _, err := cl.Put(ctx, l.key, "held", clientv3.WithLease(l.id)); err != nil {
		return
	}
	c.w.Count("leases held", 1)
	for range renewals {
		c.pause(l.ttl / 3)
		if c.resting() || !c.renew(cl, l) {
			break
		}
		if !c.still(cl, l) {
			return
		}
	}
	if !revokes {
		c.abandoned(cl, l)
		return
	}
	l.revoked = true
	ctx, cancel = within(4 * time.Second)
	defer cancel()
	if _, err := cl.Revoke(ctx, l.id); err == nil {
		c.w.Count("leases revoked", 1)
		c.still(cl, l)
		if !l.gone && c.lookable(cl, l) {
			c.w.Fail("lease %x was revoked and its key %s is still there", l.id, l.key)
		}
	}
}

// lookable looks once more whether the key is there, for a look may have failed.
func (c *cluster) lookable(cl *clientv3.Client, l *lease) bool {
	ctx, cancel := within(4 * time.Second)
	defer cancel()
	resp, err := cl.Get(ctx, l.key)
	return err == nil && len(resp.Kvs) > 0
}

// renew renews a lease once, and reports whether it lives.
func (c *cluster) renew(cl *clientv3.Client, l *lease) bool {
	ctx, cancel := within(2 * time.Second)
	defer cancel()
	began := c.w.Elapsed()
	resp, err := cl.KeepAliveOnce(ctx, l.id)
	c.w.Trace.Add("lease %x renewed from %v: %v", l.id, began, err)
	if err == nil && resp.TTL > 0 {
		l.sure = began + time.Duration(resp.TTL)*time.Second
		c.w.Count("renewals", 1)
	}
	return err == nil && resp.TTL > 0
}

// still looks at the key of a lease, and judges if it is gone.
func (c *cluster) still(cl *clientv3.Client, l *lease) bool {
	ctx, cancel := within(time.Second)
	defer cancel()
	resp, err := cl.Get(ctx, l.key)
	if err != nil || len(resp.Kvs) > 0 {
		return true
	}
	l.gone = true
	now := c.w.Elapsed()
	c.w.Count("leases seen to end", 1)
	if !c.spec.Wild && l.tooEarly(now) {
		c.w.Fail("lease %x ended early: its key %s was gone at %v, and it was renewed to last until %v", l.id, l.key, now, l.sure)
	}
	return false
}

// abandoned looks at a lease that is not renewed until it is gone, or its time is over.
func (c *cluster) abandoned(cl *clientv3.Client, l *lease) {
	until := l.sure + l.ttl/2
	for c.w.Elapsed() < until && !c.resting() && c.still(cl, l) {
		c.pause(300 * time.Millisecond)
	}
}

// runSuitors want the ID of a lease that is not renewed, again and again, until the world has been
// judged: their requests must not keep the lease alive.
func (c *cluster) runSuitors(number int) {
	const id = 0x7777
	name := fmt.Sprintf("s%d", number)
	cl := c.client(name)
	defer cl.Close()
	r := c.w.Rand("client " + name)
	for i := 0; !c.resting(); i++ {
		l := &lease{id: id, key: fmt.Sprintf("l/%s/%d", name, i)}
		ctx, cancel := within(4 * time.Second)
		began := c.w.Elapsed()
		if got, err := grantAs(ctx, cl, id, 2); err == nil {
			l.ttl = time.Duration(got.TTL) * time.Second
			l.sure = began + l.ttl
			c.leases.add(l)
			if _, err = cl.Put(ctx, l.key, "held", clientv3.WithLease(id)); err == nil {
				c.w.Count("leases of a wanted ID", 1)
			}
		}
		cancel()
		if !c.calm.Load() { // in the end they ask all the time
			c.pause(time.Duration(r.Int64N(int64(500 * time.Millisecond))))
		}
		c.pause(time.Millisecond)
	}
}

// grantAs asks for a lease of that ID.
func grantAs(ctx context.Context, cl *clientv3.Client, id, ttl int64) (*pb.LeaseGrantResponse, error) {
	return pb.NewLeaseClient(cl.ActiveConnection()).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: ttl})
}

// late judges the leases that have to have ended by now.
func (c *cluster) late(cl *clientv3.Client) {
	c.leases.mu.Lock()
	list := append([]*lease(nil), c.leases.list...)
	c.leases.mu.Unlock()
	for _, l := range list {
		if !l.overdue(c.w.Elapsed()) {
			continue
		}
		ctx, cancel := within(4 * time.Second)
		resp, err := cl.Get(ctx, l.key)
		cancel()
		switch {
		case err != nil:
			c.w.Fail("nothing is wrong any more, and a read of %s fails: %v", l.key, err)
			return
		case len(resp.Kvs) > 0:
			c.w.Fail("lease %x has not ended: its key %s is there at %v, nobody renews it, and it was to last until %v", l.id, l.key, c.w.Elapsed(), l.sure)
		default:
			c.w.Count("leases found ended", 1)
		}
	}
}

// judgeOrphans judges that no lease is left but those of the suitors.
func (c *cluster) judgeOrphans(cl *clientv3.Client) {
	ctx, cancel := within(4 * time.Second)
	defer cancel()
	resp, err := cl.Leases(ctx)
	if err != nil {
		c.w.Fail("nothing is wrong any more, and the leases cannot be listed: %v", err)
		return
	}
	for _, l := range resp.Leases {
		if l.ID != 0x7777 {
			c.w.Fail("lease %x is left, and nobody renews it", l.ID)
		}
	}
}

// margin is how much later than a TTL after its time a lease may end while nothing is wrong.
const margin = 4 * time.Second
