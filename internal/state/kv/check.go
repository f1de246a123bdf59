package kv

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// DefaultMaxTxnOps is etcd's default for the limit of [CheckTxn].
const DefaultMaxTxnOps = 128

// CheckRange judges the shape of a request: everything that can be told without
// the state. A server calls the Check functions before it proposes; the Store
// calls them again, since the log may hold what another version let through.
// It returns [ErrEmptyKey] or [ErrInvalidSort].
func CheckRange(r *pb.RangeRequest) error {
	if len(r.GetKey()) == 0 {
		return ErrEmptyKey
	}
	if o := r.SortOrder; o < pb.RangeRequest_NONE || o > pb.RangeRequest_DESCEND {
		return ErrInvalidSort
	}
	if t := r.SortTarget; t < pb.RangeRequest_KEY || t > pb.RangeRequest_VALUE {
		return ErrInvalidSort
	}
	return nil
}

// CheckPut judges the shape of a request. It returns [ErrEmptyKey],
// [ErrValueProvided] or [ErrLeaseProvided].
func CheckPut(r *pb.PutRequest) error {
	switch {
	case len(r.GetKey()) == 0:
		return ErrEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return ErrValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return ErrLeaseProvided
	}
	return nil
}

// CheckDeleteRange judges the shape of a request. It returns [ErrEmptyKey].
func CheckDeleteRange(r *pb.DeleteRangeRequest) error {
	if len(r.GetKey()) == 0 {
		return ErrEmptyKey
	}
	return nil
}

// CheckTxn judges the shape of a transaction and all it nests, and that no branch
// changes a key twice. At most maxOps comparisons or operations may stand in one
// list; a nested transaction has what its parent's longest list left of that.
// The Store does not apply a limit, so that members with different limits still
// agree on the state. Besides the errors of the other checks it returns
// [ErrTooManyOps], [ErrKeyNotFound] for an operation without a request, and
// [ErrDuplicateKey].
func CheckTxn(r *pb.TxnRequest, maxOps int) error {
	if err := checkOps(r, maxOps); err != nil {
		return err
	}
	return checkOverlaps(r)
}

func checkOps(r *pb.TxnRequest, maxOps int) error {
	longest := max(len(r.GetCompare()), len(r.GetSuccess()), len(r.GetFailure()))
	if longest > maxOps {
		return ErrTooManyOps
	}
	for _, c := range r.GetCompare() {
		if len(c.GetKey()) == 0 {
			return ErrEmptyKey
		}
	}
	for _, op := range r.GetSuccess() {
		if err := checkOp(op, maxOps-longest); err != nil {
			return err
		}
	}
	for _, op := range r.GetFailure() {
		if err := checkOp(op, maxOps-longest); err != nil {
			return err
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp, maxOps int) error {
	switch op := op.GetRequest().(type) {
	case *pb.RequestOp_RequestRange:
		return CheckRange(op.RequestRange)
	case *pb.RequestOp_RequestPut:
		return CheckPut(op.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return CheckDeleteRange(op.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		if op.RequestTxn != nil {
			return checkOps(op.RequestTxn, maxOps)
		}
	}
	return ErrKeyNotFound
}

// ReadOnly reports whether a transaction, with all it nests, only reads, so that
// [View.Txn] can answer it.
func ReadOnly(r *pb.TxnRequest) bool {
	return readOnlyOps(r.GetSuccess()) && readOnlyOps(r.GetFailure())
}

func readOnlyOps(ops []*pb.RequestOp) bool {
	for _, op := range ops {
		switch op := op.GetRequest().(type) {
		case *pb.RequestOp_RequestPut, *pb.RequestOp_RequestDeleteRange:
			return false
		case *pb.RequestOp_RequestTxn:
			if !ReadOnly(op.RequestTxn) {
				return false
			}
		}
	}
	return true
}

// Serializable reports whether a transaction only reads and asks for no
// linearizability: all its operations are serializable ranges. As in etcd, one
// that nests a transaction is not.
func Serializable(r *pb.TxnRequest) bool {
	return serializableOps(r.GetSuccess()) && serializableOps(r.GetFailure())
}

func serializableOps(ops []*pb.RequestOp) bool {
	for _, op := range ops {
		if r := op.GetRequestRange(); r == nil || !r.Serializable {
			return false
		}
	}
	return true
}
