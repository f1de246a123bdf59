package kv

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// This file is the model's transactions.

func modelCheckPut(r *pb.PutRequest) error {
	if len(r.Key) == 0 {
		return ErrEmptyKey
	}
	if r.IgnoreValue && len(r.Value) > 0 {
		return ErrValueProvided
	}
	if r.IgnoreLease && r.Lease != 0 {
		return ErrLeaseProvided
	}
	return nil
}

func modelCheckOps(m *model, r *pb.TxnRequest) error {
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return ErrEmptyKey
		}
	}
	for _, op := range append(slices.Clone(r.Success), r.Failure...) {
		var err error
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			q := op.RequestRange
			switch {
			case len(q.Key) == 0:
				err = ErrEmptyKey
			case q.SortOrder > 2 || q.SortTarget > 4:
				err = ErrInvalidSort
			}
		case *pb.RequestOp_RequestPut:
			err = modelCheckPut(op.RequestPut)
		case *pb.RequestOp_RequestDeleteRange:
			if len(op.RequestDeleteRange.Key) == 0 {
				err = ErrEmptyKey
			}
		case *pb.RequestOp_RequestTxn:
			err = modelCheckOps(m, op.RequestTxn)
		default:
			err = ErrKeyNotFound
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type putsAndDels struct{ puts, dels map[string]bool }

// modelOverlaps lists, key by key out of all keys of the test, what a branch may
// put and delete.
func modelOverlaps(ops []*pb.RequestOp, universe []string) (putsAndDels, error) {
	all := putsAndDels{map[string]bool{}, map[string]bool{}}
	for _, op := range ops {
		if d := op.GetRequestDeleteRange(); d != nil {
			for _, k := range universe {
				if reaches(k, string(d.Key), string(d.RangeEnd)) {
					all.dels[k] = true
				}
			}
		}
	}
	for _, op := range ops {
		t := op.GetRequestTxn()
		if t == nil {
			continue
		}
		then, err := modelOverlaps(t.Success, universe)
		if err != nil {
			return all, err
		}
		otherwise, err := modelOverlaps(t.Failure, universe)
		if err != nil {
			return all, err
		}
		puts := maps.Clone(then.puts)
		maps.Copy(puts, otherwise.puts)
		for k := range puts {
			if all.puts[k] || all.dels[k] {
				return all, ErrDuplicateKey
			}
		}
		maps.Copy(all.puts, puts)
		maps.Copy(all.dels, then.dels)
		maps.Copy(all.dels, otherwise.dels)
	}
	for _, op := range ops {
		if p := op.GetRequestPut(); p != nil {
			k := string(p.Key)
			if all.puts[k] || all.dels[k] {
				return all, ErrDuplicateKey
			}
			all.puts[k] = true
		}
	}
	return all, nil
}

func (m *model) Txn(r *pb.TxnRequest, universe []string) (*pb.TxnResponse, error) {
	if err := modelCheckOps(m, r); err != nil {
		return nil, err
	}
	for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
		if _, err := modelOverlaps(branch, universe); err != nil {
			return nil, err
		}
	}
	d := m.begin()
	if err := d.checkTxn(r, new([]string)); err != nil {
		return nil, err
	}
	resp := d.txn(r)
	d.commit()
	resp.Header.Revision = m.revision()
	return resp, nil
}

func (d *draft) branch(r *pb.TxnRequest) ([]*pb.RequestOp, bool) {
	for _, c := range r.Compare {
		if !d.compare(c) {
			return r.Failure, false
		}
	}
	return r.Success, true
}

func (d *draft) compare(c *pb.Compare) bool {
	kvs := within(d.before, c.Key, c.RangeEnd)
	if len(kvs) == 0 {
		if c.Target == pb.Compare_VALUE {
			return false
		}
		kvs = append(kvs, &mvccpb.KeyValue{})
	}
	for _, kv := range kvs {
		sign := map[pb.Compare_CompareTarget]int{
			pb.Compare_VALUE:   bytes.Compare(kv.Value, c.GetValue()),
			pb.Compare_CREATE:  cmp.Compare(kv.CreateRevision, c.GetCreateRevision()),
			pb.Compare_MOD:     cmp.Compare(kv.ModRevision, c.GetModRevision()),
			pb.Compare_VERSION: cmp.Compare(kv.Version, c.GetVersion()),
			pb.Compare_LEASE:   cmp.Compare(kv.Lease, c.GetLease()),
		}[c.Target]
		holds := map[pb.Compare_CompareResult]bool{
			pb.Compare_EQUAL:     sign == 0,
			pb.Compare_NOT_EQUAL: sign != 0,
			pb.Compare_LESS:      sign < 0,
			pb.Compare_GREATER:   sign > 0,
		}[c.Result]
		if !holds {
			return false
		}
	}
	return true
}

// checkTxn judges the chosen branch. wiped collects the keys from which on a
// deletion without an end deletes.
func (d *draft) checkTxn(r *pb.TxnRequest, wiped *[]string) error {
	ops, _ := d.branch(r)
	for _, op := range ops {
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			rev := op.RequestRange.Revision
			if rev > d.m.revision() {
				return ErrFutureRevision
			}
			if rev != 0 && rev < d.m.compact {
				return ErrCompacted
			}
		case *pb.RequestOp_RequestPut:
			p := op.RequestPut
			if err := d.checkPut(p); err != nil {
				return err
			}
			for _, from := range *wiped {
				if (p.IgnoreValue || p.IgnoreLease) && compareKeys(string(p.Key), from) >= 0 {
					return ErrKeyNotFound
				}
			}
		case *pb.RequestOp_RequestDeleteRange:
			if string(op.RequestDeleteRange.RangeEnd) == "\x00" {
				*wiped = append(*wiped, string(op.RequestDeleteRange.Key))
			}
		case *pb.RequestOp_RequestTxn:
			if err := d.checkTxn(op.RequestTxn, wiped); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *draft) txn(r *pb.TxnRequest) *pb.TxnResponse {
	ops, ok := d.branch(r)
	resp := &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: ok}
	for _, op := range ops {
		out := &pb.ResponseOp{}
		switch op := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			q, err := d.read(op.RequestRange)
			if err != nil {
				panic(err)
			}
			out.Response = &pb.ResponseOp_ResponseRange{ResponseRange: q}
		case *pb.RequestOp_RequestPut:
			out.Response = &pb.ResponseOp_ResponsePut{ResponsePut: d.put(op.RequestPut)}
		case *pb.RequestOp_RequestDeleteRange:
			out.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: d.delete(op.RequestDeleteRange)}
		case *pb.RequestOp_RequestTxn:
			out.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: d.txn(op.RequestTxn)}
		}
		resp.Responses = append(resp.Responses, out)
	}
	return resp
}
