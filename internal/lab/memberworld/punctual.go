package memberworld

import (
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// tardy is how late the end of a lease may be told under a leader that stays: time to notice,
// to agree on it and to tell a watcher.
const tardy = 500 * time.Millisecond

// punctual judges that leases which are not renewed end when they are due, neither early nor late, if
// the leader that granted them still leads. The storm's judges have to allow for changes of leader.
func (c *cluster) punctual(cl *clientv3.Client) {
	if c.spec.Wild {
		return
	}
	term, leads := c.leading()
	ctx, cancel := within(15 * time.Second)
	defer cancel()
	ends := cl.Watch(ctx, "timed/", clientv3.WithPrefix(), clientv3.WithFilterPut())
	type bounds struct{ early, late time.Duration }
	due := map[string]bounds{}
	for _, ttl := range []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second} {
		key := fmt.Sprintf("timed/%v", ttl)
		asked := c.w.Elapsed()
		lease, err := cl.Grant(ctx, int64(ttl/time.Second))
		if err == nil {
			due[key] = bounds{asked + ttl - ttl/early, c.w.Elapsed() + ttl + ttl/early + tardy}
			_, err = cl.Put(ctx, key, "", clientv3.WithLease(lease.ID))
		}
		if err != nil {
			c.w.Fail("nothing is wrong any more, and a lease of %v is not granted: %v", ttl, err)
			return
		}
	}
	for resp := range ends {
		now := c.w.Elapsed()
		for _, e := range resp.Events {
			key := string(e.Kv.Key)
			b, known := due[key]
			delete(due, key)
			if newest, stays := c.leading(); !known || !leads || !stays || newest != term {
				continue // a new leader gives leases more time
			}
			c.w.Count("leases on time", 1)
			switch {
			case now < b.early:
				c.w.Fail("nothing is wrong any more, and the lease of %s ended at %v, before %v", key, now, b.early)
			case now > b.late:
				c.w.Fail("nothing is wrong any more, and the lease of %s ended at %v, after %v", key, now, b.late)
			}
		}
		if len(due) == 0 {
			return
		}
	}
	c.w.Fail("nothing is wrong any more, and leases have not ended after 15s: %v", due)
}

// leading returns the newest term in which a member leads, if all members that run say so.
func (c *cluster) leading() (term uint64, ok bool) {
	for _, h := range c.hosts {
		srv := h.running()
		if srv == nil || h.removed {
			continue
		}
		leader, t, _ := srv.Node.Leader()
		if leader == 0 || term != 0 && t != term {
			return 0, false
		}
		term = t
	}
	return term, term != 0
}
