package kv

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A response and its header are one allocation, and so is an operation's response
// in a transaction with all its wrappers.

type rangeReply struct {
	op       pb.ResponseOp
	oneof    pb.ResponseOp_ResponseRange
	response pb.RangeResponse
	header   pb.ResponseHeader
}

type putReply struct {
	op       pb.ResponseOp
	oneof    pb.ResponseOp_ResponsePut
	response pb.PutResponse
	header   pb.ResponseHeader
}

type deleteReply struct {
	op       pb.ResponseOp
	oneof    pb.ResponseOp_ResponseDeleteRange
	response pb.DeleteRangeResponse
	header   pb.ResponseHeader
}

type txnReply struct {
	op       pb.ResponseOp
	oneof    pb.ResponseOp_ResponseTxn
	response pb.TxnResponse
	header   pb.ResponseHeader
}

// asOp gives the response as one of a transaction's.
func (r *rangeReply) asOp() *pb.ResponseOp {
	r.oneof.ResponseRange = &r.response
	r.op.Response = &r.oneof
	return &r.op
}

func (r *putReply) asOp() *pb.ResponseOp {
	r.oneof.ResponsePut = &r.response
	r.op.Response = &r.oneof
	return &r.op
}

func (r *deleteReply) asOp() *pb.ResponseOp {
	r.oneof.ResponseDeleteRange = &r.response
	r.op.Response = &r.oneof
	return &r.op
}

func (r *txnReply) asOp() *pb.ResponseOp {
	r.oneof.ResponseTxn = &r.response
	r.op.Response = &r.oneof
	return &r.op
}
