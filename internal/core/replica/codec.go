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
		w := make(wire.Writer, 0, 1+proto.Size(m))
		w.Byte(wireRaft)
		return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(w, m)
	case forward:
		w := make(wire.Writer, 0, 1+2*binary.MaxVarintLen64+len(m.Entry))
		w.Byte(wireForward)
		writeNumbers(&w, m.Term, m.Seq)
		w.Put(m.Entry)
		return w, nil
	case refused:
		return numbers(wireRefused, m.Boot, m.Term, m.Seq), nil
	case rejected:
		return numbers(wireRejected, m.Boot, m.Term, m.Seq, uint64(m.Why)), nil
	case readAsk:
		w := numbers(wireReadAsk, m.Boot, m.Round)
		w.Count(len(m.Keys))
		for _, s := range m.Keys {
			w.Bytes(s.Key)
			w.Bytes(s.End)
		}
		return w, nil
	case readAnswer:
		return numbers(wireReadAnswer, m.Boot, m.Round, m.Index), nil
	case leaseAsks:
		w := make(wire.Writer, 0, 16+20*len(m.Asks))
		w.Byte(wireLeaseAsks)
		w.Uvarint(m.Boot)
		w.Count(len(m.Asks))
		for _, a := range m.Asks {
			w.Uvarint(a.ID)
			w.Varint(a.Lease)
			writeFlag(&w, a.Renew)
		}
		return w, nil
	case leaseAnswers:
		w := make(wire.Writer, 0, 16+28*len(m.Answers))
		w.Byte(wireLeaseAnswers)
		w.Uvarint(m.Boot)
		w.Count(len(m.Answers))
		for _, a := range m.Answers {
			w.Uvarint(a.ID)
			w.Varint(a.Lease)
			w.Varint(a.TTL)
			w.Varint(a.Remaining)
		}
		return w, nil
	}
	if p, ok := encodeReadLeases(body); ok {
		return p, nil
	}
	return nil, fmt.Errorf("replica: %T is not for other members", body)
}

// numbers is a message that begins with some numbers, or is nothing else.
func numbers(kind byte, list ...uint64) wire.Writer {
	w := make(wire.Writer, 0, 32)
	w.Byte(kind)
	writeNumbers(&w, list...)
	return w
}

func writeNumbers(w *wire.Writer, list ...uint64) {
	for _, v := range list {
		w.Uvarint(v)
	}
}

// writeFlag appends a byte that is 0 or 1.
func writeFlag(w *wire.Writer, flag bool) {
	b := byte(0)
	if flag {
		b = 1
	}
	w.Byte(b)
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
		m.Asks = make([]leaseAsk, r.Count())
		for i := range m.Asks {
			m.Asks[i] = leaseAsk{ID: r.Uvarint(), Lease: r.Varint(), Renew: r.flag()}
		}
		if !r.Done() {
			return nil, errBadMessage
		}
		return m, nil
	case wireLeaseAnswers:
		m := leaseAnswers{Boot: r.Uvarint()}
		m.Answers = make([]AnswerLease, r.Count())
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
