package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/wire"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A raft entry is a batch of requests from one member:
//
//	version byte (1, or 2 if it is kept), uvarint term, from, boot, seq, count,
//	then count times: uvarint id, uvarint length, body
//
// In versions 4 and 5, which is kept, the caller stands before each body: see callers.go.
// and a request's body is a kind byte followed by its protobuf encoding. One that is kept
// only its sender releases while it leads, in key order (see keyOrder.judge). Term is the
// term of the leader that the batch was meant for: apply refuses a batch found under
// another. So a proposal is dead as soon as an entry of a later term is applied, and its
// member can safely propose it again. And a leader that was stopped for a while revokes
// nothing when it wakes.
const (
	entryVersion = 1
	keptVersion  = 2

	calledVersion     = 4 // with callers
	keptCalledVersion = 5
)

// isBatch reports whether an entry's data is a batch that this version can read.
func isBatch(p []byte) bool {
	return len(p) > 0 && (p[0] == entryVersion || p[0] == keptVersion || hasCallers(p))
}

// keep marks an encoded batch.
func keep(p []byte) {
	if hasCallers(p) {
		p[0] = keptCalledVersion
		return
	}
	p[0] = keptVersion
}

// isKept reports whether a batch is marked so.
func isKept(p []byte) bool { return p[0] == keptVersion || p[0] == keptCalledVersion }

type batch struct {
	Term uint64
	From machine.NodeID
	Boot uint64
	Seq  uint64

	Requests []Propose
}

// size bounds the encoded length from above.
func (p Propose) size() int { return len(p.Body) + len(p.Caller.User) + 5*binary.MaxVarintLen64 }

func (b *batch) encode() []byte {
	n := 1 + 5*binary.MaxVarintLen64
	for _, r := range b.Requests {
		n += r.size()
	}
	w := make(wire.Writer, 0, n)
	called := slices.ContainsFunc(b.Requests, func(r Propose) bool { return r.Caller != auth.Caller{} })
	if called {
		w.Byte(calledVersion)
	} else {
		w.Byte(entryVersion)
	}
	writeNumbers(&w, b.Term, uint64(b.From), b.Boot, b.Seq)
	w.Count(len(b.Requests))
	for _, r := range b.Requests {
		w.Uvarint(r.ID)
		if called {
			writeCaller(&w, r.Caller)
		}
		w.Bytes(r.Body)
	}
	return w
}

var errBadEntry = errors.New("replica: an entry of the log is not a batch of requests, or a newer version wrote it: start this member with the version of the others")

// decodeBatch reads an entry. Bodies alias p.
func decodeBatch(p []byte) (*batch, error) {
	if !isBatch(p) {
		return nil, errBadEntry
	}
	r := reader{wire.Reader{Rest: p[1:]}}
	b := &batch{
		Term: r.Uvarint(),
		From: machine.NodeID(r.Uvarint()),
		Boot: r.Uvarint(),
		Seq:  r.Uvarint(),
	}
	b.Requests = make([]Propose, r.Count())
	for i := range b.Requests {
		b.Requests[i].ID = r.Uvarint()
		if hasCallers(p) {
			b.Requests[i].Caller = readCaller(&r.Reader)
		}
		b.Requests[i].Body = r.Bytes()
	}
	if !r.Done() {
		return nil, errBadEntry
	}
	return b, nil
}

// Kinds of requests. The numbers are on disk: never change or reuse one.
const (
	kindPut         = 1
	kindDeleteRange = 2
	kindTxn         = 3
	kindCompact     = 4
	kindGrant       = 5
	kindRevoke      = 6
	kindCheckpoint  = 7
	kindExpire      = 8
	kindMember      = 9
	kindReadPolicy  = 10
	kindReadCells   = 11
	kindRead        = 12
	kindMembership  = 13
	kindUsers       = 14
	kindAlarm       = 15
)

// knownKind reports whether requestType knows a kind.
func knownKind(kind byte) bool { return kind >= kindPut && kind <= kindAlarm }

// requestType ties kinds to their messages. An expiry lists its leases as a
// checkpoint does, with nothing remaining.
func requestType(kind byte) proto.Message {
	switch kind {
	case kindPut:
		return new(pb.PutRequest)
	case kindDeleteRange:
		return new(pb.DeleteRangeRequest)
	case kindTxn, kindRead:
		return new(pb.TxnRequest)
	case kindCompact:
		return new(pb.CompactionRequest)
	case kindGrant:
		return new(pb.LeaseGrantRequest)
	case kindRevoke:
		return new(pb.LeaseRevokeRequest)
	case kindCheckpoint, kindExpire:
		return new(pb.LeaseCheckpointRequest)
	case kindMember:
		return new(pb.Member)
	case kindReadPolicy:
		return new(wrapperspb.StringValue)
	case kindReadCells:
		return new(wrapperspb.BytesValue)
	case kindMembership:
		return new(raftpb.ConfChange)
	case kindUsers:
		return new(pb.InternalRaftRequest)
	case kindAlarm:
		return new(pb.AlarmRequest)
	}
	return nil
}

// EncodeRequest encodes a message as the body of a Propose. It is one of etcd's requests, or
//
//   - a *pb.Member, to announce a member's name and client URLs,
//   - a *wrapperspb.StringValue, to set the policy of read leases,
//   - a *wrapperspb.BytesValue with an encoded placement.Configuration, to set the holders of
//     the keys,
//   - a *raftpb.ConfChange from [AddMember] and the like, to change the membership,
//   - one of etcd's requests that change users and roles ([auth.Changes]), or an alarm.
func EncodeRequest(m proto.Message) ([]byte, error) {
	switch m.(type) {
	case *pb.PutRequest:
		return encodeRequest(kindPut, m)
	case *pb.DeleteRangeRequest:
		return encodeRequest(kindDeleteRange, m)
	case *pb.TxnRequest:
		return encodeRequest(kindTxn, m)
	case *pb.CompactionRequest:
		return encodeRequest(kindCompact, m)
	case *pb.LeaseGrantRequest:
		return encodeRequest(kindGrant, m)
	case *pb.LeaseRevokeRequest:
		return encodeRequest(kindRevoke, m)
	case *pb.Member:
		return encodeRequest(kindMember, m)
	case *wrapperspb.StringValue:
		return encodeRequest(kindReadPolicy, m)
	case *wrapperspb.BytesValue:
		return encodeRequest(kindReadCells, m)
	case *raftpb.ConfChange:
		return encodeRequest(kindMembership, m)
	case *pb.AlarmRequest:
		return encodeRequest(kindAlarm, m)
	}
	if wrapped := wrapUsers(m); wrapped != nil {
		return encodeRequest(kindUsers, wrapped)
	}
	return nil, fmt.Errorf("replica: %T is not a request that can be replicated", m)
}

// EncodeRead encodes a request that only takes a place in the log. At its index the
// keys may be read together, from the state as it is there, once its Result may be
// given. That Result has no Response. No entry before it that changes them is released
// after it, and none behind it before it (R25, R26).
func EncodeRead(keys keyspan.Set) []byte {
	txn := &pb.TxnRequest{}
	for _, s := range keys { // comparisons that nobody makes
		txn.Compare = append(txn.Compare, &pb.Compare{Key: s.Key, RangeEnd: s.End})
	}
	body, err := encodeRequest(kindRead, txn)
	if err != nil {
		panic(err) // bytes can always be encoded
	}
	return body
}

func encodeRequest(kind byte, m proto.Message) ([]byte, error) {
	p := make([]byte, 1, 1+proto.Size(m))
	p[0] = kind
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(p, m)
}

// decodeRequest reads a request's body. The message owns its bytes.
func decodeRequest(body []byte) (kind byte, m proto.Message, err error) {
	if len(body) == 0 {
		return 0, nil, errBadEntry
	}
	m = requestType(body[0])
	if m == nil {
		return 0, nil, fmt.Errorf("%w: unknown request kind %d; a newer version wrote it", errBadEntry, body[0])
	}
	if err := proto.Unmarshal(body[1:], m); err != nil {
		return 0, nil, fmt.Errorf("%w: %v", errBadEntry, err)
	}
	return body[0], m, nil
}
