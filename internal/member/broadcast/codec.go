package broadcast

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
	"github.com/tenure-lease/tenure/internal/wire"
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
	_ // a Status without a digest, of an older version
	kindFetch
	_ // a Transfer without one, of an older version

	_         // a life without a number, of an older version
	kindBegin // the records up to kindEnd replace all before
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
	_ // a Base without a digest, of an older version

	kindIn // of an epoch behind the first; the kind within follows
	kindDecisions
	kindLearned
	kindStarted
	kindWant
	kindStatus
	kindTransfer
	kindLife
	kindBase
	kindIntroduction
	kindMet
	kindForgot
	kindNote
	kindCounted
)

// life is the record of a start: how many there were, the directory's number, and those of the
// last lives.
type life struct {
	N, Dir uint64
	Lives  []birth
}

// writer appends fields. A number is a uvarint, a round, which may be -1, a varint.
type writer struct{ wire.Writer }

func (w *writer) uvarints(values ...uint64) {
	for _, v := range values {
		w.Uvarint(v)
	}
}
func (w *writer) flag(f bool) {
	if f {
		w.Uvarint(1)
		return
	}
	w.Uvarint(0)
}
func (w *writer) request(r asynclease.Request) { w.uvarints(uint64(r.Node), r.Life, r.Seq) }
func (w *writer) members(ids []machine.NodeID) {
	w.Count(len(ids))
	for _, id := range ids {
		w.Uvarint(uint64(id))
	}
}
func (w *writer) message(m abcast.Message) {
	w.Put(m.Client[:])
	w.Uvarint(m.Seq)
	w.flag(m.Change)
	w.Bytes(m.Payload)
}
func (w *writer) group(list []abcast.Member) {
	w.Count(len(list))
	for _, m := range list {
		w.Uvarint(uint64(m.ID))
		w.Text(m.Address)
	}
}
func (w *writer) state(s abcast.State) {
	w.Uvarint(s.Group.First)
	w.group(s.Group.Members)
	w.group(s.Group.Removed)
	w.members(s.Group.Configured)
	w.uvarints(s.Instance, s.Position, s.Digest, s.Horizon, uint64(s.Clients), uint64(len(s.Sessions)))
	for _, x := range s.Sessions {
		w.Put(x.Client[:])
		w.uvarints(x.Upto, x.Position)
	}
}

func (w *writer) note(n note) { w.uvarints(uint64(n.Node), n.Dir, n.Life, n.Number, n.Mark) }
func (w *writer) births(list []birth) {
	w.Count(len(list))
	for _, b := range list {
		w.uvarints(b.Number, b.At)
	}
}

func (w *writer) base(b abcast.Base) {
	w.state(b.Order)
	w.Uvarint(b.Position)
}

// encode returns a message or record as its kind and the fields of that kind.
func encode(body any) []byte {
	w := writer{make(wire.Writer, 0, 48+carried(body))}
	w.body(body)
	return w.Writer
}

// body appends a message or record. It begins with its kind.
func (w *writer) body(body any) {
	at := len(w.Writer)
	w.Byte(0)
	var kind byte
	switch b := body.(type) {
	case asynclease.Lease:
		kind = kindLease
		w.request(b.Request)
		w.uvarints(b.Interval.First, b.Interval.Last, b.Open)
	case asynclease.Ack:
		kind = kindLeaseAck
		w.request(b.Request)
	case asynclease.Nack:
		kind = kindLeaseNack
		w.request(b.Request)
		w.Uvarint(b.Until)
	case asynclease.Give:
		kind = kindGive
		w.request(b.Request)
		w.Uvarint(b.From)
	case fastct.Estimate:
		kind = kindEstimate
		w.Uvarint(b.CN)
		w.Varint(b.Round)
		w.Varint(b.TS)
		w.flag(b.Again)
		w.Bytes(b.Value)
	case fastct.NewEstimate:
		kind = kindNewEstimate
		w.Uvarint(b.CN)
		w.Varint(b.Round)
		w.flag(b.Again)
		w.Bytes(b.Value)
	case fastct.Ack:
		kind = kindAck
		w.Uvarint(b.CN)
		w.Varint(b.Round)
		w.flag(b.Again)
	case fastct.Nack:
		kind = kindNack
		w.Uvarint(b.CN)
		w.Varint(b.Round)
	case fastct.Abort:
		kind = kindAbort
		w.Uvarint(b.CN)
		w.Varint(b.Round)
	case fastct.Call:
		kind = kindCall
		w.Uvarint(b.CN)
		w.Varint(b.Round)
	case fastct.Decide:
		kind = kindDecide
		w.Uvarint(b.CN)
		w.Varint(b.Round)
		w.flag(b.Whole)
		w.Bytes(b.Value)
	case fastct.Counts:
		kind = kindCounts
		w.Count(len(b.Counts))
		w.uvarints(b.Counts...)
	case fastct.Trimmed:
		kind = kindTrimmed
		w.Uvarint(b.Below)
	case abcast.Submit:
		kind = kindSubmit
		w.Count(len(b.Messages))
		for _, m := range b.Messages {
			w.message(m)
		}
	case abcast.Status:
		kind = kindStatus
		w.uvarints(b.Delivered, b.Began, b.Position, b.Digest)
	case abcast.Fetch:
		kind = kindFetch
		w.Uvarint(b.From)
	case abcast.Transfer:
		kind = kindTransfer
		w.base(b.Base)
	case life:
		kind = kindLife
		w.uvarints(b.N, b.Dir)
		w.births(b.Lives)
	case asynclease.Identity:
		kind = kindLeaseIdentity
		w.Uvarint(uint64(b.Node))
		w.members(b.Members)
	case asynclease.Permitted:
		kind = kindPermitted
		w.request(b.Request)
		w.uvarints(b.Interval.First, b.Interval.Last)
	case asynclease.Cut:
		kind = kindCut
		w.request(b.Request)
		w.Uvarint(b.From)
	case asynclease.Floor:
		kind = kindFloor
		w.Uvarint(b.Below)
	case fastct.Identity:
		kind = kindIdentity
		w.Uvarint(uint64(b.Node))
		w.members(b.Members)
		w.flag(b.Plain)
		w.flag(b.Spread)
	case fastct.Entered:
		kind = kindEntered
		w.Uvarint(b.CN)
		w.Varint(b.Round)
	case fastct.Adopted:
		kind = kindAdopted
		w.Uvarint(b.CN)
		w.Varint(b.Round)
		w.Bytes(b.Value)
	case fastct.Settled:
		kind = kindSettled
		w.Uvarint(b.CN)
		w.flag(b.Adopted)
		w.Bytes(b.Value)
	case fastct.Gone:
		kind = kindGone
		w.Uvarint(b.Below)
	case abcast.Base:
		kind = kindBase
		w.base(b)
	case abcast.In:
		kind = kindIn
		w.Uvarint(b.Epoch)
		w.body(b.Body)
	case abcast.Decisions:
		kind = kindDecisions
		w.uvarints(b.From, uint64(len(b.Values)))
		for _, v := range b.Values {
			w.Bytes(v)
		}
	case abcast.Learned:
		kind = kindLearned
		w.Uvarint(b.CN)
		w.Bytes(b.Value)
	case abcast.Started:
		kind = kindStarted
		w.Uvarint(b.Epoch)
	case want:
		kind = kindWant
		w.Uvarint(uint64(b.From))
	case introduction:
		kind = kindIntroduction
		w.uvarints(b.To, b.Dir, b.Life, b.Mark)
		w.births(b.Lives)
		w.Count(len(b.Notes))
		for _, n := range b.Notes {
			w.note(n)
		}
	case met:
		kind = kindMet
		w.uvarints(b.Life, b.Mark)
	case forgot:
		kind = kindForgot
		w.uvarints(b.Life, b.Dir, b.Lives, b.Mark)
	case note:
		kind = kindNote
		w.note(b)
	case counted:
		kind = kindCounted
	default:
		panic(fmt.Sprintf("broadcast: a %T has no form on the wire", body))
	}
	w.Writer[at] = kind
}

// carried is about how many bytes an often sent message or record carries.
func carried(body any) int {
	switch b := body.(type) {
	case fastct.NewEstimate:
		return len(b.Value)
	case fastct.Adopted:
		return len(b.Value)
	case abcast.Submit:
		size := 0
		for _, m := range b.Messages {
			size += len(m.Payload) + 32
		}
		return size
	case abcast.Base:
		return 26 * len(b.Order.Sessions)
	case abcast.Transfer:
		return 26 * len(b.Base.Order.Sessions)
	case abcast.In:
		return carried(b.Body)
	}
	return 0
}
