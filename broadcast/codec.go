package broadcast

import (
	"encoding/binary"
	"fmt"

	"github.com/tenure-lease/tenure/abcast"
	"github.com/tenure-lease/tenure/asynclease"
	"github.com/tenure-lease/tenure/fastct"
	"github.com/tenure-lease/tenure/machine"
)

// Kinds of messages and of records: the first byte, and a record's kind in the log.
// Numbers are never used for something else.
const (
	kindLease byte = iota + 1
	kindLeaseAck
	kindLeaseNack
	kindGive
	kindEstimate
	kindNewEstimate
	kindAck
	kindNack
	kindAbort
	kindCall
	kindDecide
	kindCounts
	kindTrimmed
	kindSubmit
	kindStatus
	kindFetch
	kindTransfer

	kindLife
	kindBegin // what follows up to kindEnd stands in place of all before
	kindEnd
	kindLeaseIdentity
	kindPermitted
	kindCut
	kindFloor
	kindIdentity
	kindEntered
	kindAdopted
	kindSettled
	kindGone
	kindBase
)

// life is the record of a start.
type life struct{ N uint64 }

// writer appends fields: integers as uvarints, a round that may be -1 as a varint,
// bytes after their length.
type writer []byte

func (w *writer) u(values ...uint64) {
	for _, v := range values {
		*w = binary.AppendUvarint(*w, v)
	}
}
func (w *writer) i(values ...int64) {
	for _, v := range values {
		*w = binary.AppendVarint(*w, v)
	}
}
func (w *writer) bytes(b []byte) { w.u(uint64(len(b))); *w = append(*w, b...) }
func (w *writer) flag(f bool) {
	if f {
		w.u(1)
		return
	}
	w.u(0)
}
func (w *writer) request(r asynclease.Request) { w.u(uint64(r.Node), r.Life, r.Seq) }
func (w *writer) members(ids []machine.NodeID) {
	w.u(uint64(len(ids)))
	for _, id := range ids {
		w.u(uint64(id))
	}
}
func (w *writer) state(s abcast.State) {
	w.u(s.Instance, s.Position, uint64(len(s.Sessions)))
	for _, x := range s.Sessions {
		*w = append(*w, x.Client[:]...)
		w.u(x.Upto)
	}
}

func (w *writer) base(b abcast.Base) {
	w.state(b.Order)
	w.u(b.Position)
	w.bytes(b.App)
}

// encode returns a message or record as its kind and what follows.
func encode(body any) (kind byte, payload []byte) {
	var w writer
	switch b := body.(type) {
	case asynclease.Lease:
		kind = kindLease
		w.request(b.Request)
		w.u(b.Interval.First, b.Interval.Last, b.Open)
	case asynclease.Ack:
		kind = kindLeaseAck
		w.request(b.Request)
	case asynclease.Nack:
		kind = kindLeaseNack
		w.request(b.Request)
		w.u(b.Until)
	case asynclease.Give:
		kind = kindGive
		w.request(b.Request)
		w.u(b.From)
	case fastct.Estimate:
		kind = kindEstimate
		w.u(b.CN)
		w.i(b.Round, b.TS)
		w.flag(b.Again)
		w.bytes(b.Value)
	case fastct.NewEstimate:
		kind = kindNewEstimate
		w.u(b.CN)
		w.i(b.Round)
		w.flag(b.Again)
		w.bytes(b.Value)
	case fastct.Ack:
		kind = kindAck
		w.u(b.CN)
		w.i(b.Round)
		w.flag(b.Again)
	case fastct.Nack:
		kind = kindNack
		w.u(b.CN)
		w.i(b.Round)
	case fastct.Abort:
		kind = kindAbort
		w.u(b.CN)
		w.i(b.Round)
	case fastct.Call:
		kind = kindCall
		w.u(b.CN)
		w.i(b.Round)
	case fastct.Decide:
		kind = kindDecide
		w.u(b.CN)
		w.i(b.Round)
		w.flag(b.Whole)
		w.bytes(b.Value)
	case fastct.Counts:
		kind = kindCounts
		w.u(uint64(len(b.Counts)))
		w.u(b.Counts...)
	case fastct.Trimmed:
		kind = kindTrimmed
		w.u(b.Below)
	case abcast.Submit:
		kind = kindSubmit
		w.u(uint64(len(b.Messages)))
		for _, m := range b.Messages {
			w = append(w, m.Client[:]...)
			w.u(m.Seq)
			w.bytes(m.Payload)
		}
	case abcast.Status:
		kind = kindStatus
		w.u(b.Delivered)
	case abcast.Fetch:
		kind = kindFetch
		w.u(b.From)
	case abcast.Transfer:
		kind = kindTransfer
		w.base(b.Base)
	case life:
		kind = kindLife
		w.u(b.N)
	case asynclease.Identity:
		kind = kindLeaseIdentity
		w.u(uint64(b.Node))
		w.members(b.Members)
	case asynclease.Permitted:
		kind = kindPermitted
		w.request(b.Request)
		w.u(b.Interval.First, b.Interval.Last)
	case asynclease.Cut:
		kind = kindCut
		w.request(b.Request)
		w.u(b.From)
	case asynclease.Floor:
		kind = kindFloor
		w.u(b.Below)
	case fastct.Identity:
		kind = kindIdentity
		w.u(uint64(b.Node))
		w.members(b.Members)
		w.flag(b.Plain)
		w.flag(b.Spread)
	case fastct.Entered:
		kind = kindEntered
		w.u(b.CN)
		w.i(b.Round)
	case fastct.Adopted:
		kind = kindAdopted
		w.u(b.CN)
		w.i(b.Round)
		w.bytes(b.Value)
	case fastct.Settled:
		kind = kindSettled
		w.u(b.CN)
		w.flag(b.Adopted)
		w.bytes(b.Value)
	case fastct.Gone:
		kind = kindGone
		w.u(b.Below)
	case abcast.Base:
		kind = kindBase
		w.base(b)
	default:
		panic(fmt.Sprintf("broadcast: a %T has no form on the wire", body))
	}
	return kind, w
}

// reader takes fields off; after the first that is missing all are zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) u() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}
func (r *reader) i() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}
func (r *reader) flag() bool { return r.u() != 0 }

// take returns the next n bytes, a part of what is read.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}
func (r *reader) bytes() []byte { return r.take(r.u()) }

// count is the number of things that follow, each of which takes a byte at least.
func (r *reader) count() uint64 {
	n := r.u()
	if n > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return n
}
func (r *reader) client() (id machine.ID) { copy(id[:], r.take(uint64(len(id)))); return id }
func (r *reader) request() asynclease.Request {
	return asynclease.Request{Node: machine.NodeID(r.u()), Life: r.u(), Seq: r.u()}
}
func (r *reader) members() (ids []machine.NodeID) {
	for range r.count() {
		ids = append(ids, machine.NodeID(r.u()))
	}
	return ids
}
func (r *reader) state() abcast.State {
	s := abcast.State{Instance: r.u(), Position: r.u()}
	for range r.count() {
		s.Sessions = append(s.Sessions, abcast.Session{Client: r.client(), Upto: r.u()})
	}
	return s
}

func (r *reader) base() abcast.Base {
	return abcast.Base{Order: r.state(), Position: r.u(), App: r.bytes()}
}

// decode is the inverse of encode. What it returns has parts of payload in it.
func decode(kind byte, payload []byte) (body any, err error) {
	r := &reader{b: payload}
	switch kind {
	case kindLease:
		body = asynclease.Lease{Request: r.request(), Interval: asynclease.Interval{First: r.u(), Last: r.u()}, Open: r.u()}
	case kindLeaseAck:
		body = asynclease.Ack{Request: r.request()}
	case kindLeaseNack:
		body = asynclease.Nack{Request: r.request(), Until: r.u()}
	case kindGive:
		body = asynclease.Give{Request: r.request(), From: r.u()}
	case kindEstimate:
		body = fastct.Estimate{CN: r.u(), Round: r.i(), TS: r.i(), Again: r.flag(), Value: r.bytes()}
	case kindNewEstimate:
		body = fastct.NewEstimate{CN: r.u(), Round: r.i(), Again: r.flag(), Value: r.bytes()}
	case kindAck:
		body = fastct.Ack{CN: r.u(), Round: r.i(), Again: r.flag()}
	case kindNack:
		body = fastct.Nack{CN: r.u(), Round: r.i()}
	case kindAbort:
		body = fastct.Abort{CN: r.u(), Round: r.i()}
	case kindCall:
		body = fastct.Call{CN: r.u(), Round: r.i()}
	case kindDecide:
		body = fastct.Decide{CN: r.u(), Round: r.i(), Whole: r.flag(), Value: r.bytes()}
	case kindCounts:
		var c fastct.Counts
		for range r.count() {
			c.Counts = append(c.Counts, r.u())
		}
		body = c
	case kindTrimmed:
		body = fastct.Trimmed{Below: r.u()}
	case kindSubmit:
		var s abcast.Submit
		for range r.count() {
			s.Messages = append(s.Messages, abcast.Message{Client: r.client(), Seq: r.u(), Payload: r.bytes()})
		}
		body = s
	case kindStatus:
		body = abcast.Status{Delivered: r.u()}
	case kindFetch:
		body = abcast.Fetch{From: r.u()}
	case kindTransfer:
		body = abcast.Transfer{Base: r.base()}
	case kindLife:
		body = life{r.u()}
	case kindLeaseIdentity:
		body = asynclease.Identity{Node: machine.NodeID(r.u()), Members: r.members()}
	case kindPermitted:
		body = asynclease.Permitted{Request: r.request(), Interval: asynclease.Interval{First: r.u(), Last: r.u()}}
	case kindCut:
		body = asynclease.Cut{Request: r.request(), From: r.u()}
	case kindFloor:
		body = asynclease.Floor{Below: r.u()}
	case kindIdentity:
		body = fastct.Identity{Node: machine.NodeID(r.u()), Members: r.members(), Plain: r.flag(), Spread: r.flag()}
	case kindEntered:
		body = fastct.Entered{CN: r.u(), Round: r.i()}
	case kindAdopted:
		body = fastct.Adopted{CN: r.u(), Round: r.i(), Value: r.bytes()}
	case kindSettled:
		body = fastct.Settled{CN: r.u(), Adopted: r.flag(), Value: r.bytes()}
	case kindGone:
		body = fastct.Gone{Below: r.u()}
	case kindBase:
		body = r.base()
	default:
		return nil, fmt.Errorf("broadcast: a message or record of kind %d, which this version does not know", kind)
	}
	if r.bad || len(r.b) > 0 {
		return nil, fmt.Errorf("broadcast: a message or record of kind %d is damaged", kind)
	}
	return body, nil
}
