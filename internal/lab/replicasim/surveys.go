package replicasim

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/sim"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// surveyor is a client whose operations have to do with more than one key: it puts
// some of them in one transaction, puts one on condition of another, or reads some.
type surveyor struct {
	c    *Cluster
	id   int
	seq  int
	stop bool
	// looks says that it only reads, and gives up soon, so that it reads much when
	// others have to wait.
	looks bool
	// called marks a client that does only the operations that it is told to do.
	called bool
}

// surveyed is how many keys there are, m0 and so on. The last is the crown: see siege.
const (
	surveyed = 5
	crown    = surveyed - 1
)

// land is what all of these keys hold.
type land [surveyed]string

// survey is one operation.
type survey struct {
	kind  byte   // 'r' reads, 'w' puts, 'c' puts on condition
	value string // put; no two operations put the same
	keys  [surveyed]bool
	// A put on condition is made if a key holds something, which may be one of keys.
	guard   int
	old     string
	swapped bool

	read   land
	rev    int64 // 0: its outcome is not known
	call   time.Duration
	end    time.Duration
	client int
}

// Surveyors sets n clients to work that read and write many keys at once, and as many
// that read.
func (c *Cluster) Surveyors(n, lookers int) {
	for i := range n + lookers {
		s := &surveyor{c: c, id: len(c.surveyors), looks: i >= n}
		c.surveyors = append(c.surveyors, s)
		s.next()
	}
}

// courier is a surveyor that is called.
func (c *Cluster) courier() *surveyor {
	s := &surveyor{c: c, id: len(c.surveyors), called: true}
	c.surveyors = append(c.surveyors, s)
	return s
}

func surveyKey(i int) []byte { return fmt.Appendf(nil, "m%d", i) }

func (s *surveyor) next() {
	if s.called {
		return
	}
	pause := s.c.pause()
	if s.looks {
		pause /= 4
	}
	s.c.w.After(pause, func() {
		if s.stop {
			return
		}
		if m := s.c.anyMember(); m != nil {
			s.act(m)
		} else {
			s.next()
		}
	})
}

// act does something at a member, and goes on when that is answered or given up.
func (s *surveyor) act(m *Member) { s.do(m, s.draw(), s.some()) }

func (s *surveyor) do(m *Member, kind byte, keys [surveyed]bool) {
	c, w := s.c, s.c.w
	s.seq++
	at := survey{kind: kind, keys: keys, call: w.Now(), client: s.id}
	floor, floors, over := c.checks.newest, c.checks.floors, false
	lane := fmt.Sprintf("surveyor %d", s.id)
	var mark *sim.Mark
	end := func(rev int64) {
		if over {
			return
		}
		over = true
		if at.rev, at.end = rev, w.Now(); rev > 0 {
			mark.End()
			if !c.byKey() {
				c.checks.told(w, lane, rev, floor)
			}
		}
		if !s.looks {
			c.checks.timely(w, lane, at.call)
		}
		c.checks.surveys = append(c.checks.surveys, at)
		s.next()
	}
	patience := 4 * time.Second
	if s.looks {
		patience = w.Between(10*time.Millisecond, 150*time.Millisecond)
	}
	w.After(patience, func() { end(0) })
	if at.kind == 'r' {
		mark = w.Begin(sim.Reads, lane, "%v at member %d", at.keys, m.ID)
		m.readKeys(at.spans(), func(v kv.View) {
			if isStale(v) { // compacted while it was read: another try begins, as in etcdapi
				end(0)
				return
			}
			for i, found := range surveyView(v) {
				if !at.keys[i] || found == nil {
					continue
				}
				at.read[i] = string(found.Value)
			}
			c.checks.looked(w, m, v, at.keys, floors)
			end(v.Revision())
		})
		return
	}
	at.value = fmt.Sprintf("s%d.%d", s.id, s.seq)
	txn := &pb.TxnRequest{}
	for i, put := range at.keys {
		if put {
			put := &pb.PutRequest{Key: surveyKey(i), Value: []byte(at.value)}
			txn.Success = append(txn.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}})
		}
	}
	if at.kind == 'c' {
		at.guard = w.Rand.IntN(surveyed)
		at.old = c.checks.someValue(w, string(surveyKey(at.guard)))
		txn.Compare = []*pb.Compare{{
			Key: surveyKey(at.guard), Target: pb.Compare_VALUE, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_Value{Value: []byte(at.old)},
		}}
	}
	for i, put := range at.keys {
		if put {
			c.checks.wrote(string(surveyKey(i)), at.value)
		}
	}
	mark = w.Begin(sim.Writes, lane, "%s at member %d", at.value, m.ID)
	m.propose(txn, func(r replica.Result, err error) {
		if err == nil {
			resp := r.Response.(*pb.TxnResponse)
			if at.swapped = resp.Succeeded; at.swapped {
				c.checks.showed(at.keys, resp.Header.Revision)
			}
			end(resp.Header.Revision)
		}
	})
}

// draw draws a kind of operation.
func (s *surveyor) draw() byte {
	if p := s.c.w.Rand.Float64(); s.looks || p < 0.4 {
		return 'r'
	} else if p < 0.7 {
		return 'w'
	}
	return 'c'
}

// some draws keys: one, all but the crown, or some; and all to be read, now and then.
func (s *surveyor) some() (keys [surveyed]bool) {
	p := s.c.w.Rand.Float64()
	for i := range crown {
		keys[i] = p > 0.7 || p > 0.4 && s.c.w.Chance(0.5)
	}
	keys[crown] = s.looks && p > 0.9
	keys[s.c.w.Rand.IntN(crown)] = true
	return keys
}

// spans are the keys, as one range if they are all.
func (o *survey) spans() (set keyspan.Set) {
	all := true
	for i, in := range o.keys {
		if all = all && in; in {
			set = append(set, keyspan.Span{Key: surveyKey(i)})
		}
	}
	if all {
		return keyspan.Set{{Key: []byte("m"), End: []byte("n")}}
	}
	return set
}
