package kv

import (
	"github.com/tidwall/btree"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// checkOverlaps looks for a key that one branch puts twice, or puts and deletes.
// The rules are etcd's to the letter, gaps included: deletions without an end
// ("\x00") are not looked at, nor is a deletion in a nested transaction after a
// put in an earlier one. The Store copes with both, see Txn.
func checkOverlaps(r *pb.TxnRequest) error {
	for _, branch := range [...][]*pb.RequestOp{r.GetSuccess(), r.GetFailure()} {
		if atMostOneWrite(branch) {
			continue
		}
		if _, err := changesOf(branch); err != nil {
			return err
		}
	}
	return nil
}

// atMostOneWrite recognizes the usual transaction, which needs no bookkeeping.
func atMostOneWrite(ops []*pb.RequestOp) bool {
	writes := 0
	for _, op := range ops {
		switch op.GetRequest().(type) {
		case *pb.RequestOp_RequestPut, *pb.RequestOp_RequestDeleteRange:
			writes++
		case *pb.RequestOp_RequestTxn:
			return false
		}
	}
	return writes <= 1
}

// changes is what a list of operations may put and delete, whatever the
// comparisons of nested transactions say.
type changes struct {
	puts btree.Set[string]
	dels intervals
}

func (c *changes) put(key string) error {
	if c.puts.Contains(key) || c.dels.contains(key) {
		return ErrDuplicateKey
	}
	c.puts.Insert(key)
	return nil
}

func changesOf(ops []*pb.RequestOp) (*changes, error) {
	c := new(changes)
	for _, op := range ops {
		if d := op.GetRequestDeleteRange(); d != nil {
			c.dels.add(text(d.Key), text(d.RangeEnd))
		}
	}
	for _, op := range ops {
		if t := op.GetRequestTxn(); t != nil {
			if err := c.nest(t); err != nil {
				return nil, err
			}
		}
	}
	for _, op := range ops {
		if p := op.GetRequestPut(); p != nil {
			if err := c.put(text(p.Key)); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// nest adds what both branches of a nested transaction may change. Only one of
// them happens, so they may have keys in common.
func (c *changes) nest(t *pb.TxnRequest) error {
	then, err := changesOf(t.Success)
	if err != nil {
		return err
	}
	otherwise, err := changesOf(t.Failure)
	if err != nil {
		return err
	}
	then.puts.Scan(func(key string) bool {
		err = c.put(key)
		return err == nil
	})
	if err != nil {
		return err
	}
	otherwise.puts.Scan(func(key string) bool {
		// A key of both branches has just been added by the first.
		if then.puts.Contains(key) {
			return true
		}
		err = c.put(key)
		return err == nil
	})
	if err != nil {
		return err
	}
	for _, branch := range [...]*changes{then, otherwise} {
		branch.dels.Scan(func(from, to string) bool {
			c.dels.merge(from, to)
			return true
		})
	}
	return nil
}

// intervals is a set of keys, as disjoint intervals [from, to) by from.
type intervals struct {
	btree.Map[string, string]
}

// add takes a deletion's key and end.
func (s *intervals) add(key, end string) {
	switch {
	case end == "":
		s.merge(key, key+"\x00")
	case key < end: // never with the end "\x00"
		s.merge(key, end)
	}
}

func (s *intervals) merge(from, to string) {
	s.Descend(from, func(f, t string) bool {
		if t >= from {
			from, to = f, max(to, t)
		}
		return false
	})
	var covered []string
	s.Ascend(from, func(f, t string) bool {
		if f > to {
			return false
		}
		covered = append(covered, f)
		to = max(to, t)
		return true
	})
	for _, f := range covered {
		s.Delete(f)
	}
	s.Set(from, to)
}

func (s *intervals) contains(key string) (found bool) {
	s.Descend(key, func(_, to string) bool {
		found = key < to
		return false
	})
	return found
}
