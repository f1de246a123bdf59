package memberworld

import (
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// keys is how many registers there are. Few, so that clients meet.
const keys = 3

// runRegisters is a client that reads and writes registers until the world rests.
func (c *cluster) runRegisters(number int) {
	name := fmt.Sprintf("c%d", number)
	r := c.w.Rand("client " + name)
	of := c.hosts
	switch {
	case c.spec.Pinned:
		of = of[number%c.spec.Members:][:1]
	case r.IntN(3) == 0:
		of = of[r.IntN(c.spec.Members):][:1]
	}
	cl := c.client(name, of...)
	defer cl.Close()
	last := map[string]string{}
	for i := 0; !c.resting(); i++ {
		o := op{client: number, key: fmt.Sprintf("k/%d", r.IntN(keys)), new: fmt.Sprintf("%d-%d", number, i)}
		n := r.IntN(20)
		if c.spec.Readers && r.IntN(3) > 0 {
			n = 13
		}
		switch {
		case n < 7:
			o.kind = "put"
		case n < 14:
			o.kind, o.new = "get", ""
		case n < 15:
			o.kind, o.new = "delete", ""
		default:
			o.kind, o.old = "swap", last[o.key]
		}
		c.request(cl, &o)
		if o.known {
			switch {
			case o.kind == "get" || o.kind == "swap" && !o.done:
				last[o.key] = o.got
			case o.kind == "delete":
				last[o.key] = ""
			default:
				last[o.key] = o.new
			}
		}
		c.history.add(o)
		c.pause(time.Duration(r.Int64N(int64(c.spec.Pace))))
	}
}

// request makes a request, and fills in its outcome.
func (c *cluster) request(cl *clientv3.Client, o *op) {
	ctx, cancel := within(4 * time.Second)
	defer cancel()
	o.began = c.w.Elapsed()
	var err error
	switch o.kind {
	case "put":
		var resp *clientv3.PutResponse
		if resp, err = cl.Put(ctx, o.key, o.new); err == nil {
			o.rev = resp.Header.Revision
		}
	case "get":
		var resp *clientv3.GetResponse
		if resp, err = cl.Get(ctx, o.key); err == nil && len(resp.Kvs) > 0 {
			o.got, o.gotRev = string(resp.Kvs[0].Value), resp.Kvs[0].ModRevision
		}
	case "delete":
		var resp *clientv3.DeleteResponse
		if resp, err = cl.Delete(ctx, o.key); err == nil && resp.Deleted > 0 {
			o.done, o.rev = true, resp.Header.Revision
		}
	case "swap":
		is := clientv3.Compare(clientv3.Value(o.key), "=", o.old)
		if o.old == "" {
			is = clientv3.Compare(clientv3.CreateRevision(o.key), "=", 0)
		}
		var resp *clientv3.TxnResponse
		resp, err = cl.Txn(ctx).If(is).Then(clientv3.OpPut(o.key, o.new)).Else(clientv3.OpGet(o.key)).Commit()
		switch {
		case err != nil:
		case resp.Succeeded:
			o.done, o.rev = true, resp.Header.Revision
		default:
			if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
				o.got, o.gotRev = string(kvs[0].Value), kvs[0].ModRevision
			}
		}
	}
	o.ended, o.known = c.w.Elapsed(), err == nil
	c.w.Trace.Add("%v, error %v", *o, err)
	if o.known {
		c.w.Count("requests answered", 1)
	} else {
		c.w.Count("requests not answered", 1)
	}
}
