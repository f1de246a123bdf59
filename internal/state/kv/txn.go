package kv

import (
	"math"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Txn does one branch of a transaction in at most one revision. All comparisons,
// those of nested transactions too, judge the state before the transaction; the
// operations see what earlier ones did. Everything that can go wrong is checked
// before the first change. It keeps the slices of the puts.
//
// Errors are those of [CheckTxn] (without a limit), [Store.Put], and
// [ErrCompacted] and [ErrFutureRevision] of a range. The answers of puts,
// deletions and ranges have headers with the revision at that point of the
// transaction, those of nested transactions have an empty header, as in etcd.
func (s *Store) Txn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	t := &txn{store: s, before: s.reader()}
	out, _, err := runTxn(t, r)
	if err != nil {
		return nil, err
	}
	t.tally.end(s.Counts)
	s.commit()
	out.header.Revision = s.revision
	return &out.response, nil
}

// runTxn checks and does a transaction. It also gives the turns that it took.
func runTxn(t *txn, r *pb.TxnRequest) (*txnReply, []bool, error) {
	if err := CheckTxn(r, math.MaxInt); err != nil {
		return nil, nil, err
	}
	path := t.decide(r, nil)
	if err := t.check(r, &course{turns: path}); err != nil {
		return nil, nil, err
	}
	out := new(txnReply)
	t.execute(r, &course{turns: path}, out)
	return out, path, nil
}

// txn is one run of a transaction.
type txn struct {
	store  *Store // nil: on a View
	before reader // the state before the transaction
	tally  tally  // of the comparisons, and on a View of all

	// From wipeFrom on all keys are deleted by an operation without an end,
	// which checkOverlaps does not see.
	wipes    bool
	wipeFrom string
}

// course is the outcome of the comparisons of a transaction and of the nested
// ones on the chosen branches, in order of appearance.
type course struct {
	turns []bool
}

func (c *course) next() bool {
	turn := c.turns[0]
	c.turns = c.turns[1:]
	return turn
}

// branch gives the operations that the next turn chooses.
func (c *course) branch(r *pb.TxnRequest) ([]*pb.RequestOp, bool) {
	if c.next() {
		return r.Success, true
	}
	return r.Failure, false
}

// decide appends the turns of r to path.
func (t *txn) decide(r *pb.TxnRequest, path []bool) []bool {
	ops := r.Success
	ok, looked := t.before.holds(r.Compare)
	t.tally.ranges += uint64(looked)
	if !ok {
		ops = r.Failure
	}
	path = append(path, ok)
	for _, op := range ops {
		if nested := op.GetRequestTxn(); nested != nil {
			path = t.decide(nested, path)
		}
	}
	return path
}

// check judges the operations of the chosen branches by the state before.
func (t *txn) check(r *pb.TxnRequest, c *course) error {
	ops, _ := c.branch(r)
	for _, op := range ops {
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			if err := t.checkRange(op.RequestRange); err != nil {
				return err
			}
		case *pb.RequestOp_RequestPut:
			if err := t.checkPut(op.RequestPut); err != nil {
				return err
			}
		case *pb.RequestOp_RequestDeleteRange:
			if d := op.RequestDeleteRange; text(d.RangeEnd) == fromKey && (!t.wipes || text(d.Key) < t.wipeFrom) {
				t.wipes, t.wipeFrom = true, text(d.Key)
			}
		case *pb.RequestOp_RequestTxn:
			if err := t.check(op.RequestTxn, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRange refuses revisions that cannot be read. Unlike a range of its own,
// one in a transaction is refused a negative revision once the store has been
// compacted (or below -1), as in etcd.
func (t *txn) checkRange(q *pb.RangeRequest) error {
	switch {
	case q.Revision == 0:
		return nil
	case q.Revision > t.before.revision:
		return ErrFutureRevision
	case q.Revision < t.before.compact:
		return ErrCompacted
	}
	return nil
}

func (t *txn) checkPut(p *pb.PutRequest) error {
	if err := t.store.checkPut(p); err != nil {
		return err
	}
	if (p.IgnoreValue || p.IgnoreLease) && t.wipes && text(p.Key) >= t.wipeFrom {
		return ErrKeyNotFound // by then it will be gone
	}
	return nil
}

// execute does the operations of the chosen branches; none can fail any more.
func (t *txn) execute(r *pb.TxnRequest, c *course, out *txnReply) {
	ops, ok := c.branch(r)
	out.response.Header = &out.header
	out.response.Succeeded = ok
	out.response.Responses = make([]*pb.ResponseOp, len(ops))
	for i, op := range ops {
		out.response.Responses[i] = t.do(op, c)
	}
}

func (t *txn) do(op *pb.RequestOp, c *course) *pb.ResponseOp {
	switch op := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		reply, err := t.reader().rangeKeys(op.RequestRange)
		if err != nil {
			panic("kv: range fails after it was checked: " + err.Error())
		}
		if t.store == nil {
			t.tally.ranges++
		} else {
			t.store.tally.ranges++
		}
		return reply.asOp()
	case *pb.RequestOp_RequestPut:
		reply := new(putReply)
		t.store.put(op.RequestPut, &reply.response, &reply.header)
		return reply.asOp()
	case *pb.RequestOp_RequestDeleteRange:
		reply := new(deleteReply)
		t.store.deleteRange(op.RequestDeleteRange, &reply.response, &reply.header)
		return reply.asOp()
	case *pb.RequestOp_RequestTxn:
		reply := new(txnReply)
		t.execute(op.RequestTxn, c, reply)
		return reply.asOp()
	}
	panic("kv: operation without a request after it was checked")
}

// reader reads the state with the changes made so far.
func (t *txn) reader() reader {
	if t.store == nil {
		return t.before
	}
	return t.store.reader()
}
