package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/wire"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Kinds of messages between members, the first byte on the wire.
const (
	wireRaft         = 1
	wireForward      = 2
	wireRefused      = 3
	wireLeaseAsks    = 4
	wireLeaseAnswers = 5
	wireReadAsk      = 6
	wireReadAnswer   = 7
	wireReported     = 8
	wireAnnounced    = 9
	wireRequest      = 10
	wirePromise      = 11
	wireReturn       = 12
	wireReport       = 13
	wireNews         = 14
	wireCounts       = 15
	wireRejected     = 16
)

var errBadMessage = errors.New("replica: a message from a member makes no sense")

// EncodeBody encodes the body of an envelope for the way to another member.
func EncodeBody(body any) ([]byte, error) {
	switch m := body.(type) {
	case *raftpb.Message:
		p := make([]byte, 1, 1+proto.Size(m))
		p[0] = wireRaft
		return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(p, m)
	case forward:
		p := make([]byte, 0, 1+2*binary.MaxVarintLen64+len(m.Entry))
		p = append(p, wireForward)
		p = binary.AppendUvarint(p, m.Term)
		p = binary.AppendUvarint(p, m.Seq)
		return append(p, m.Entry...), nil
	case refused:
		p := []byte{wireRefused}
		p = binary.AppendUvarint(p, m.Boot)
		p = binary.AppendUvarint(p, m.Term)
		return binary.AppendUvarint(p, m.Seq), nil
	case rejected:
		return appendUvarints([]byte{wireRejected}, m.Boot, m.Term, m.Seq, uint64(m.Why)), nil
	case readAsk:
		p := []byte{wireReadAsk}
		p = binary.AppendUvarint(p, m.Boot)
		p = binary.AppendUvarint(p, m.Round)
		p = binary.AppendUvarint(p, uint64(len(m.Keys)))
		for _, s := range m.Keys {
			for _, part := range [2][]byte{s.Key, s.End} {
				p = binary.AppendUvarint(p, uint64(len(part)))
				p = append(p, part...)
			}
		}
		return p, nil
	case readAnswer:
		p := []byte{wireReadAnswer}
		p = binary.AppendUvarint(p, m.Boot)
		p = binary.AppendUvarint(p, m.Round)
		return binary.AppendUvarint(p, m.Index), nil
	case leaseAsks:
		p := make([]byte, 0, 16+20*len(m.Asks))
		p = append(p, wireLeaseAsks)
		p = binary.AppendUvarint(p, m.Boot)
		p = binary.AppendUvarint(p, uint64(len(m.Asks)))
		for _, a := range m.Asks {
			p = binary.AppendUvarint(p, a.ID)
			p = binary.AppendVarint(p, a.Lease)
			renew := byte(0)
			if a.Renew {
				renew = 1
			}
			p = append(p, renew)
		}
		return p, nil
	case leaseAnswers:
		p := make([]byte, 0, 16+28*len(m.Answers))
		p = append(p, wireLeaseAnswers)
		p = binary.AppendUvarint(p, m.Boot)
		p = binary.AppendUvarint(p, uint64(len(m.Answers)))
		for _, a := range m.Answers {
			p = binary.AppendUvarint(p, a.ID)
			p = binary.AppendVarint(p, a.Lease)
			p = binary.AppendVarint(p, a.TTL)
			p = binary.AppendVarint(p, a.Remaining)
		}
		return p, nil
	}
	if p, ok := encodeReadLeases(body); ok {
		return p, nil
	}
	return nil, fmt.Errorf("replica: %T is not for other members", body)
}

// DecodeBody is the inverse of EncodeBody. It fails on anything that
// EncodeBody did not make, and keeps no part of p.
func DecodeBody(p []byte) (any, error) {
	if len(p) == 0 {
		return nil, errBadMessage
	}
	r := reader{wire.Reader{Rest: p[1:]}}
	switch p[0] {
	case wireRaft:
		m := new(raftpb.Message)
		if err := proto.Unmarshal(p[1:], m); err != nil {
			return nil, fmt.Errorf("%w: %v", errBadMessage, err)
		}
		return m, nil
	case wireForward:
		m := forward{Term: r.Uvarint(), Seq: r.Uvarint()}
		if r.Bad {
			return nil, errBadMessage
		}
		m.Entry = append([]byte(nil), r.Rest...)
		return m, nil
	case wireRefused:
		m := refused{Boot: r.Uvarint(), Term: r.Uvarint(), Seq: r.Uvarint()}
		if !r.Done() {
			return nil, errBadMessage
		}
		return m, nil
	case wireRejected:
		m := rejected{Boot: r.Uvarint(), Term: r.Uvarint(), Seq: r.Uvarint(), Why: verdict(r.Uvarint())}
		if !r.Done() || m.Why < refusals || m.Why >= pastVerdicts {
			return nil, errBadMessage
		}
		return m, nil
	case wireReadAsk:
		m := readAsk{Boot: r.Uvarint(), Round: r.Uvarint()}
		for n := r.Count(); n > 0 && !r.Bad; n-- {
			m.Keys = append(m.Keys, keyspan.Span{Key: bytes.Clone(r.Bytes()), End: bytes.Clone(r.Bytes())})
		}
		if !r.Done() {
			return nil, errBadMessage
		}
		return m, nil
	case wireReadAnswer:
		m := readAnswer{Boot: r.Uvarint(), Round: r.Uvarint(), Index: r.Uvarint()}
		if !r.Done() {
			return nil, errBadMessage
		}
		return m, nil
	case wireLeaseAsks:
		m := leaseAsks{Boot: r.Uvarint()}
		n := r.Uvarint()
		if r.Bad || n > uint64(len(r.Rest)) {
			return nil, errBadMessage
		}
		m.Asks = make([]leaseAsk, n)
		for i := range m.Asks {
			m.Asks[i] = leaseAsk{ID: r.Uvarint(), Lease: r.Varint(), Renew: r.flag()}
		}
		if !r.Done() {
			return nil, errBadMessage
		}
		return m, nil
	case wireLeaseAnswers:
		m := leaseAnswers{Boot: r.Uvarint()}
		n := r.Uvarint()
		if r.Bad || n > uint64(len(r.Rest)) {
			return nil, errBadMessage
		}
		m.Answers = make([]AnswerLease, n)
		for i := range m.Answers {
			m.Answers[i] = AnswerLease{ID: r.Uvarint(), Lease: r.Varint(), TTL: r.Varint(), Remaining: r.Varint()}
		}
		if !r.Done() {
			return nil, errBadMessage
		}
		return m, nil
	}
	return decodeReadLeases(p[0], &r)
}
