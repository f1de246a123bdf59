package sim

import (
	"fmt"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/tenure-lease/tenure/kv"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/replica"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// client does one thing at a time against some member and records it.
type client struct {
	c    *Cluster
	id   int
	seq  int
	busy bool
	stop bool
	rate float64 // of its clock
}

// op is what a client asked, as the checker sees it.
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

func (cl *client) next() {
	w := cl.c.w
	w.After(w.Between(0, 60*time.Millisecond), func() {
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

func (c *Cluster) anyMember() *Member {
	m := c.members[c.w.Rand.IntN(len(c.members))]
	if !m.Up() {
		return nil
	}
	return m
}

// act does one operation and, once it is answered or given up, the next. An
// operation that was given up may take effect at any later time.
func (cl *client) act(m *Member) {
	c, w := cl.c, cl.c.w
	cl.seq++
	o := op{key: "k" + strconv.Itoa(w.Rand.IntN(3)), new: fmt.Sprintf("%d.%d", cl.id, cl.seq)}
	call := int64(w.Now())
	over := false
	end := func(output string, known bool) {
		if over {
			return
		}
		over = true
		c.checks.operation(cl.id, o, output, call, int64(w.Now()), known)
		cl.next()
	}
	w.After(4*time.Second, func() { end("", false) })
	switch p := w.Rand.Float64(); {
	case p < 0.45:
		o.kind, o.new = 'r', ""
		m.read(func(v kv.View) {
			resp, err := v.Range(&pb.RangeRequest{Key: []byte(o.key)})
			if err != nil {
				panic(err)
			}
			value := ""
			if len(resp.Kvs) > 0 {
				value = string(resp.Kvs[0].Value)
			}
			end(value, true)
		})
	case p < 0.75:
		o.kind = 'w'
		m.propose(&pb.PutRequest{Key: []byte(o.key), Value: []byte(o.new)}, func(r replica.Result, err error) {
			if err == nil {
				end("", true)
			}
		})
	default:
		o.kind = 'c'
		o.old = c.checks.someValue(w, o.key)
		m.propose(&pb.TxnRequest{
			Compare: []*pb.Compare{{
				Key: []byte(o.key), Target: pb.Compare_VALUE, Result: pb.Compare_EQUAL,
				TargetUnion: &pb.Compare_Value{Value: []byte(o.old)},
			}},
			Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(o.key), Value: []byte(o.new)}}}},
		}, func(r replica.Result, err error) {
			if err == nil {
				end(strconv.FormatBool(r.Response.(*pb.TxnResponse).Succeeded), true)
			}
		})
	}
}

// registers is the model: each key a register with compare and swap.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		var keys []string
		for _, o := range history {
			key := o.Input.(op).key
			if byKey[key] == nil {
				keys = append(keys, key)
			}
			byKey[key] = append(byKey[key], o)
		}
		var parts [][]porcupine.Operation
		for _, key := range keys {
			parts = append(parts, byKey[key])
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		o, value := input.(op), state.(string)
		out := output.(outcome)
		switch o.kind {
		case 'r':
			return !out.known || out.value == value, value
		case 'w':
			return true, o.new
		}
		// A compare of a key that does not exist fails, whatever the value.
		swapped := value != "" && value == o.old
		if out.known && out.value != strconv.FormatBool(swapped) {
			return false, value
		}
		if swapped {
			return true, o.new
		}
		return true, value
	},
	DescribeOperation: func(input, output any) string {
		o := input.(op)
		return fmt.Sprintf("%c(%s %s>%s)=%v", o.kind, o.key, o.old, o.new, output.(outcome))
	},
}

type outcome struct {
	value string
	known bool
}

// holder is a client that keeps a lease: it grants one, renews it for a while by
// its own clock, then stops, and begins again.
type holder struct {
	c     *Cluster
	id    int
	host  machine.NodeID
	rate  float64
	stop  bool
	lease *held
}

// held is what the checker knows of a lease.
type held struct {
	id  int64
	ttl time.Duration
	// believedUntil is when, in true time, its holder stops believing in it.
	believedUntil time.Duration
	// lastSent is when the last renewal that anyone may have seen was sent.
	lastSent time.Duration
	gone     time.Duration // when the first member removed it; 0: not yet
	released bool
}

// Holders sets n lease holders to work.
func (c *Cluster) Holders(n int) {
	for i := range n {
		h := &holder{c: c, id: i, rate: (2*c.w.Rand.Float64() - 1) * drift}
		c.checks.holders = append(c.checks.holders, h)
		h.grant()
	}
}

func (h *holder) grant() {
	w := h.c.w
	w.After(w.Between(0, time.Second), func() {
		m := h.c.anyMember()
		if h.stop {
			return
		}
		if m == nil {
			h.grant()
			return
		}
		l := &held{id: w.Rand.Int64N(1<<40) + 1, ttl: time.Duration(2+w.Rand.Int64N(5)) * time.Second}
		h.lease = l
		sent := w.Now()
		over := false
		m.propose(&pb.LeaseGrantRequest{ID: l.id, TTL: int64(l.ttl / time.Second)}, func(r replica.Result, err error) {
			if over || err != nil || r.Err != nil {
				return
			}
			over = true
			h.c.checks.leases[l.id] = l
			l.lastSent = sent
			h.believe(l, sent)
			m.propose(&pb.PutRequest{Key: fmt.Appendf(nil, "lease/%d", l.id), Lease: l.id}, func(replica.Result, error) {})
			h.renew(l, w.Rand.IntN(12))
		})
		w.After(3*time.Second, func() {
			if !over {
				over = true
				h.grant()
			}
		})
	})
}

// believe notes that the holder trusts its lease until TTL after sending, by its
// own clock less the drift that it allows for.
func (h *holder) believe(l *held, sent time.Duration) {
	trust := time.Duration(float64(l.ttl) * (1 - 2*drift) / (1 + h.rate))
	until := sent + trust
	if h.c.w.Now() < until { // an answer that comes too late renews nothing
		l.believedUntil = max(l.believedUntil, until)
	}
}

// renew sends renewals at a third of the TTL, a number of times, then leaves the
// lease to die.
func (h *holder) renew(l *held, times int) {
	w := h.c.w
	if times == 0 || h.stop {
		w.Note("holder %d leaves lease %d", h.id, l.id)
		h.grant()
		return
	}
	w.After(l.ttl/3, func() {
		if l.gone > 0 && w.Now() > l.believedUntil {
			h.grant()
			return
		}
		if m := h.c.anyMember(); m != nil {
			sent := w.Now()
			l.lastSent = sent
			m.keepAlive(l.id, func(a replica.AnswerLease) {
				if a.TTL == 0 && l.gone == 0 {
					h.c.checks.fail(w, "lease %d was called unknown while it lives", l.id)
				}
				if a.TTL > 0 && w.Now() < l.believedUntil {
					h.believe(l, sent)
				}
			})
		}
		h.renew(l, times-1)
	})
}
