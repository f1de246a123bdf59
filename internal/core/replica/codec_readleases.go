package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/wire"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// encodeReadLeases encodes what has to do with read leases.
func encodeReadLeases(body any) ([]byte, bool) {
	switch m := body.(type) {
	case reported:
		w := make(wire.Writer, 0, 64+proto.Size(m.Message))
		w.Byte(wireReported)
		writeReport(&w, m.Report)
		return appendRaft(w, m.Message), true
	case announced:
		w := make(wire.Writer, 0, 32+proto.Size(m.Message))
		w.Byte(wireAnnounced)
		writeNews(&w, m.News)
		return appendRaft(w, m.Message), true
	case quorumlease.Request:
		return numbers(wireRequest, m.Boot, m.Seq), true
	case quorumlease.Promise:
		return numbers(wirePromise, m.Boot, m.Seq, uint64(m.TTL), m.Stamp.Term, m.Stamp.Index), true
	case quorumlease.Return:
		return numbers(wireReturn, m.Boot, m.Seq), true
	case quorumlease.Report:
		w := numbers(wireReport)
		writeReport(&w, m)
		return w, true
	case quorumlease.News:
		w := numbers(wireNews)
		writeNews(&w, m)
		return w, true
	case counts:
		w := numbers(wireCounts, m.Boot, m.Seq)
		w.Count(len(m.Trips))
		for _, t := range m.Trips {
			writeNumbers(&w, uint64(t.Member), uint64(t.Time))
		}
		w.Put(m.Body)
		return w, true
	}
	return nil, false
}

func appendRaft(p []byte, m *raftpb.Message) []byte {
	p, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(p, m)
	if err != nil {
		panic(err) // a message of raft's always encodes
	}
	return p
}

func writeReport(w *wire.Writer, m quorumlease.Report) {
	writeNumbers(w, m.Boot, m.Term, m.Durable, m.Received)
	writeFlag(w, m.Everyone)
	w.Count(len(m.Holders))
	for _, h := range m.Holders {
		writeNumbers(w, uint64(h.Member), h.Boot)
	}
}

func writeNews(w *wire.Writer, m quorumlease.News) {
	writeNumbers(w, m.Term, m.Released, m.Horizon)
	w.Count(len(m.Held))
	writeNumbers(w, m.Held...)
	writeMembers(w, m.Stalled)
}

func writeMembers(w *wire.Writer, list []machine.NodeID) {
	w.Count(len(list))
	for _, id := range list {
		w.Uvarint(uint64(id))
	}
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
		body = quorumlease.Request{Boot: r.Uvarint(), Seq: r.Uvarint()}
	case wirePromise:
		body = quorumlease.Promise{
			Boot: r.Uvarint(), Seq: r.Uvarint(), TTL: time.Duration(r.Uvarint()),
			Stamp: quorumlease.Stamp{Term: r.Uvarint(), Index: r.Uvarint()},
		}
	case wireReturn:
		body = quorumlease.Return{Boot: r.Uvarint(), Seq: r.Uvarint()}
	case wireReport:
		body = r.report()
	case wireNews:
		body = r.news()
	case wireCounts:
		return r.counts()
	default:
		return nil, fmt.Errorf("%w: unknown kind %d", errBadMessage, kind)
	}
	if !r.Done() {
		return nil, errBadMessage
	}
	return body, nil
}

// rest decodes a message of raft's at the end, of one of the types that come there.
func rest(r *reader, with func(*raftpb.Message) any, types ...raftpb.MessageType) (any, error) {
	m := new(raftpb.Message)
	if r.Bad || proto.Unmarshal(r.Rest, m) != nil || !slices.Contains(types, m.GetType()) {
		return nil, errBadMessage
	}
	return with(m), nil
}

// reader takes what a message is made of off it.
type reader struct{ wire.Reader }

// members takes what writeMembers wrote.
func (r *reader) members() (list []machine.NodeID) {
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		list = append(list, machine.NodeID(r.Uvarint()))
	}
	return list
}

// flag takes a byte that is 0 or 1. Another one says what this version does not know: what is
// more than a renewal must not be taken for less.
func (r *reader) flag() bool {
	b := r.Byte()
	r.Bad = r.Bad || b > 1
	return b == 1
}

func (r *reader) report() quorumlease.Report {
	m := quorumlease.Report{
		Boot: r.Uvarint(), Term: r.Uvarint(), Durable: r.Uvarint(), Received: r.Uvarint(), Everyone: r.flag(),
	}
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		m.Holders = append(m.Holders, quorumlease.Lifetime{Member: machine.NodeID(r.Uvarint()), Boot: r.Uvarint()})
	}
	return m
}

func (r *reader) news() quorumlease.News {
	m := quorumlease.News{Term: r.Uvarint(), Released: r.Uvarint(), Horizon: r.Uvarint()}
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		m.Held = append(m.Held, r.Uvarint())
	}
	m.Stalled = r.members()
	return m
}

func (r *reader) counts() (any, error) {
	m := counts{Boot: r.Uvarint(), Seq: r.Uvarint()}
	for n := r.Count(); n > 0 && !r.Bad; n-- {
		m.Trips = append(m.Trips, roundTrip{machine.NodeID(r.Uvarint()), time.Duration(r.Uvarint())})
	}
	if r.Bad || len(r.Rest) > maxCounts {
		return nil, errBadMessage
	}
	m.Body = append([]byte(nil), r.Rest...)
	return m, nil
}
