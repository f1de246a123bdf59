package replica

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// encodeReadLeases encodes what has to do with read leases.
func encodeReadLeases(body any) ([]byte, bool) {
	switch m := body.(type) {
	case reported:
		p := appendReport(make([]byte, 1, 64+proto.Size(m.Message)), m.Report)
		p[0] = wireReported
		return appendRaft(p, m.Message), true
	case announced:
		p := appendNews(make([]byte, 1, 32+proto.Size(m.Message)), m.News)
		p[0] = wireAnnounced
		return appendRaft(p, m.Message), true
	case quorumlease.Request:
		return appendUvarints([]byte{wireRequest}, m.Boot, m.Seq), true
	case quorumlease.Promise:
		return appendUvarints([]byte{wirePromise}, m.Boot, m.Seq, uint64(m.TTL), m.Stamp.Term, m.Stamp.Index), true
	case quorumlease.Return:
		return appendUvarints([]byte{wireReturn}, m.Boot, m.Seq), true
	case quorumlease.Report:
		return appendReport([]byte{wireReport}, m), true
	case quorumlease.News:
		return appendNews([]byte{wireNews}, m), true
	case counts:
		p := appendUvarints([]byte{wireCounts}, m.Boot, m.Seq, uint64(len(m.Trips)))
		for _, t := range m.Trips {
			p = appendUvarints(p, uint64(t.Member), uint64(t.Time))
		}
		return append(p, m.Body...), true
	}
	return encodeControls(body)
}

func appendUvarints(p []byte, list ...uint64) []byte {
	for _, v := range list {
		p = binary.AppendUvarint(p, v)
	}
	return p
}

func appendRaft(p []byte, m *raftpb.Message) []byte {
	p, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(p, m)
	if err != nil {
		panic(err) // a message of raft's always encodes
	}
	return p
}

func appendReport(p []byte, m quorumlease.Report) []byte {
	everyone := uint64(0)
	if m.Everyone {
		everyone = 1
	}
	p = appendUvarints(p, m.Boot, m.Term, m.Durable, m.Received, everyone, uint64(len(m.Holders)))
	for _, h := range m.Holders {
		p = appendUvarints(p, uint64(h.Member), h.Boot)
	}
	return p
}

func appendNews(p []byte, m quorumlease.News) []byte {
	p = appendUvarints(p, m.Term, m.Released, m.Horizon, uint64(len(m.Held)))
	p = appendUvarints(p, m.Held...)
	p = binary.AppendUvarint(p, uint64(len(m.Stalled)))
	for _, id := range m.Stalled {
		p = binary.AppendUvarint(p, uint64(id))
	}
	return p
}

// decodeReadLeases decodes what encodeReadLeases made, behind the kind.
func decodeReadLeases(kind byte, r *reader) (any, error) {
	var body any
	switch kind {
	case wireReported:
		report := r.report()
		return rest(r, func(m *raftpb.Message) any { return reported{m, report} }, raftpb.MsgAppResp)
	case wireAnnounced:
		news := r.news()
		return rest(r, func(m *raftpb.Message) any { return announced{m, news} }, raftpb.MsgApp, raftpb.MsgHeartbeat)
	case wireRequest:
		body = quorumlease.Request{Boot: r.uvarint(), Seq: r.uvarint()}
	case wirePromise:
		body = quorumlease.Promise{
			Boot: r.uvarint(), Seq: r.uvarint(), TTL: time.Duration(r.uvarint()),
			Stamp: quorumlease.Stamp{Term: r.uvarint(), Index: r.uvarint()},
		}
	case wireReturn:
		body = quorumlease.Return{Boot: r.uvarint(), Seq: r.uvarint()}
	case wireReport:
		body = r.report()
	case wireNews:
		body = r.news()
	case wireCounts:
		return r.counts()
	default:
		return decodeControls(kind, r)
	}
	if r.bad || len(r.p) != 0 {
		return nil, errBadMessage
	}
	return body, nil
}

// rest decodes a message of raft's at the end, of one of the types that come there.
func rest(r *reader, with func(*raftpb.Message) any, types ...raftpb.MessageType) (any, error) {
	m := new(raftpb.Message)
	if r.bad || proto.Unmarshal(r.p, m) != nil || !slices.Contains(types, m.GetType()) {
		return nil, errBadMessage
	}
	return with(m), nil
}

func (r *reader) report() quorumlease.Report {
	m := quorumlease.Report{
		Boot: r.uvarint(), Term: r.uvarint(), Durable: r.uvarint(), Received: r.uvarint(), Everyone: r.uvarint() != 0,
	}
	for n := r.count(); n > 0 && !r.bad; n-- {
		m.Holders = append(m.Holders, quorumlease.Lifetime{Member: machine.NodeID(r.uvarint()), Boot: r.uvarint()})
	}
	return m
}

func (r *reader) news() quorumlease.News {
	m := quorumlease.News{Term: r.uvarint(), Released: r.uvarint(), Horizon: r.uvarint()}
	for n := r.count(); n > 0 && !r.bad; n-- {
		m.Held = append(m.Held, r.uvarint())
	}
	for n := r.count(); n > 0 && !r.bad; n-- {
		m.Stalled = append(m.Stalled, machine.NodeID(r.uvarint()))
	}
	return m
}

func (r *reader) counts() (any, error) {
	m := counts{Boot: r.uvarint(), Seq: r.uvarint()}
	for n := r.count(); n > 0 && !r.bad; n-- {
		m.Trips = append(m.Trips, roundTrip{machine.NodeID(r.uvarint()), time.Duration(r.uvarint())})
	}
	if r.bad || len(r.p) > maxCounts {
		return nil, errBadMessage
	}
	m.Body = append([]byte(nil), r.p...)
	return m, nil
}

// count reads how many of something follow, each of a byte at least.
func (r *reader) count() uint64 {
	n := r.uvarint()
	if n > uint64(len(r.p)) {
		r.bad, r.p = true, nil
		return 0
	}
	return n
}
