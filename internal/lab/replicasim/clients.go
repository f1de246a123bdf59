package replicasim

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// client does one thing at a time against some member and records it.
type client struct {
	c    *Cluster
	id   int
	seq  int
	stop bool
}

// op is a client's request, as the checker sees it.
type op struct {
	kind     byte // 'r' read, 'w' write, 'c' compare and swap
	key      string
	old, new string
}

// Clients sets n clients to work on a few keys.
func (c *Cluster) Clients(n int) {
	for range n {
		cl := &client{c: c, id: len(c.clients)}
		c.clients = append(c.clients, cl)
		cl.next()
	}
}

// clientKeys is how many keys clients work on: k0 and so on.
const clientKeys = 3

func clientKey(i int) string { return "k" + strconv.Itoa(i) }

func (cl *client) lane() string { return fmt.Sprintf("client %d", cl.id) }

func (cl *client) next() {
	cl.c.w.After(cl.c.pause(), func() {
		if cl.stop {
			return
		}
		m := cl.c.anyMember()
		if m == nil {
			cl.next()
			return
		}
		cl.act(m)
	})
}

// pause is how long a client waits before its next operation.
func (c *Cluster) pause() time.Duration {
	d := c.w.Between(0, 60*time.Millisecond)
	if c.harsh.bursts && c.w.Now()/time.Second%3 == 0 {
		d += c.w.Between(0, 2*time.Second)
	}
	return d
}

func (c *Cluster) anyMember() *Member {
	m := c.members[c.w.Rand.IntN(len(c.members))]
	if !m.Up() || !c.isMember(m) {
		return nil
	}
	return m
}

// act does one operation and, once it is answered or given up, the next. An
// operation that was given up may take effect at any later time.
func (cl *client) act(m *Member) {
	c, w := cl.c, cl.c.w
	cl.seq++
	place := w.Rand.IntN(clientKeys)
	o := op{key: clientKey(place), new: fmt.Sprintf("%d.%d", cl.id, cl.seq)}
	call := int64(w.Now())
	floor, floors := c.checks.newest, c.checks.floors
	over := false
	var mark *sim.Mark
	end := func(output string, known bool, rev int64) {
		if over {
			return
		}
		over = true
		if known {
			mark.End()
		}
		if known && !c.byKey() {
			c.checks.told(w, cl.lane(), rev, floor)
		}
		c.checks.timely(w, cl.lane(), time.Duration(call))
		c.checks.operation(cl.id, o, output, call, int64(w.Now()), known)
		cl.next()
	}
	w.After(4*time.Second, func() { end("", false, 0) })
	dropped := func(err error) {
		if errors.Is(err, errVoid) {
			c.checks.void = append(c.checks.void, o.new)
		}
	}
	switch p := w.Rand.Float64(); {
	case p < 0.45:
		o.kind, o.new = 'r', ""
		mark = w.Begin(sim.Reads, cl.lane(), "%s at member %d", o.key, m.ID)
		m.readKeys(keyspan.Set{{Key: []byte(o.key)}}, func(v kv.View) {
			resp, err := v.Range(&pb.RangeRequest{Key: []byte(o.key)})
			if err != nil {
				panic(err)
			}
			value, written := "", int64(0)
			if len(resp.Kvs) > 0 {
				value, written = string(resp.Kvs[0].Value), resp.Kvs[0].ModRevision
			}
			if c.byKey() {
				c.checks.lookedAt(w, m, []byte(o.key), written, floors[surveyed+place])
				c.checks.showedClients(place, written)
			}
			end(value, true, v.Revision())
		})
	case p < 0.75:
		o.kind = 'w'
		mark = w.Begin(sim.Writes, cl.lane(), "%s=%s at member %d", o.key, o.new, m.ID)
		m.propose(&pb.PutRequest{Key: []byte(o.key), Value: []byte(o.new)}, func(r replica.Result, err error) {
			if err != nil {
				dropped(err)
				return
			}
			rev := r.Response.(*pb.PutResponse).Header.Revision
			c.checks.showedClients(place, rev)
			end("", true, rev)
		})
	default:
		o.kind = 'c'
		o.old = c.checks.someValue(w, o.key)
		mark = w.Begin(sim.Writes, cl.lane(), "%s=%s if it is %s, at member %d", o.key, o.new, o.old, m.ID)
		m.propose(&pb.TxnRequest{
			Compare: []*pb.Compare{{
				Key: []byte(o.key), Target: pb.Compare_VALUE, Result: pb.Compare_EQUAL,
				TargetUnion: &pb.Compare_Value{Value: []byte(o.old)},
			}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(o.key), Value: []byte(o.new)}}}},
		}, func(r replica.Result, err error) {
			if err != nil {
				dropped(err)
				return
			}
			resp := r.Response.(*pb.TxnResponse)
			if resp.Succeeded {
				c.checks.showedClients(place, resp.Header.Revision)
			}
			end(strconv.FormatBool(resp.Succeeded), true, resp.Header.Revision)
		})
	}
}

// janitor compacts the history now and then.
func (c *Cluster) janitor() {
	c.w.After(c.w.Between(0, 6*time.Second), func() {
		if m := c.anyMember(); m != nil {
			rev := m.state.Store().Revision() - c.w.Rand.Int64N(50)
			m.propose(&pb.CompactionRequest{Revision: max(1, rev)}, func(replica.Result, error) {})
		}
		c.janitor()
	})
}
