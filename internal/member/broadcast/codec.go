package broadcast

import (
	"encoding/binary"
	"fmt"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
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
func (w *writer) message(m abcast.Message) {
	*w = append(*w, m.Client[:]...)
	w.u(m.Seq)
	w.flag(m.Change)
	w.bytes(m.Payload)
}
func (w *writer) group(list []abcast.Member) {
	w.u(uint64(len(list)))
	for _, m := range list {
		w.u(uint64(m.ID))
		w.bytes([]byte(m.Address))
	}
}
func (w *writer) state(s abcast.State) {
	w.u(s.Group.First)
	w.group(s.Group.Members)
	w.group(s.Group.Removed)
	w.members(s.Group.Configured)
	w.u(s.Instance, s.Position, s.Digest, s.Horizon, uint64(s.Clients), uint64(len(s.Sessions)))
	for _, x := range s.Sessions {
		*w = append(*w, x.Client[:]...)
		w.u(x.Upto, x.Position)
	}
}

func (w *writer) note(n note) { w.u(uint64(n.Node), n.Dir, n.Life, n.Number, n.Mark) }
func (w *writer) births(list []birth) {
	w.u(uint64(len(list)))
	for _, b := range list {
		w.u(b.Number, b.At)
	}
}

func (w *writer) base(b abcast.Base) {
	w.state(b.Order)
	w.u(b.Position)
}

// encode returns a message or record as its kind and what follows.
func encode(body any) []byte { return appendBody(make(writer, 0, 48+carried(body)), body) }

func appendBody(w writer, body any) writer {
	at := len(w)
	w = append(w, 0)
	var kind byte
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
			w.message(m)
		}
	case abcast.Status:
		kind = kindStatus
		w.u(b.Delivered, b.Began, b.Position, b.Digest)
	case abcast.Fetch:
		kind = kindFetch
		w.u(b.From)
	case abcast.Transfer:
		kind = kindTransfer
		w.base(b.Base)
	case life:
		kind = kindLife
		w.u(b.N, b.Dir)
		w.births(b.Lives)
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
	case abcast.In:
		kind = kindIn
		w.u(b.Epoch)
		w = appendBody(w, b.Body)
	case abcast.Decisions:
		kind = kindDecisions
		w.u(b.From, uint64(len(b.Values)))
		for _, v := range b.Values {
			w.bytes(v)
		}
	case abcast.Learned:
		kind = kindLearned
		w.u(b.CN)
		w.bytes(b.Value)
	case abcast.Started:
		kind = kindStarted
		w.u(b.Epoch)
	case want:
		kind = kindWant
		w.u(uint64(b.From))
	case introduction:
		kind = kindIntroduction
		w.u(b.To, b.Dir, b.Life, b.Mark)
		w.births(b.Lives)
		w.u(uint64(len(b.Notes)))
		for _, n := range b.Notes {
			w.note(n)
		}
	case met:
		kind = kindMet
		w.u(b.Life, b.Mark)
	case forgot:
		kind = kindForgot
		w.u(b.Life, b.Dir, b.Lives, b.Mark)
	case note:
		kind = kindNote
		w.note(b)
	case counted:
		kind = kindCounted
	default:
		panic(fmt.Sprintf("broadcast: a %T has no form on the wire", body))
	}
	w[at] = kind
	return w
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
