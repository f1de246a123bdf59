package broadcast

import (
	"fmt"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/asynclease"
	"github.com/tenure-lease/tenure/internal/protocol/fastct"
	"github.com/tenure-lease/tenure/internal/wire"
)

// reader takes fields off a message or record.
type reader struct{ wire.Reader }

func (r *reader) flag() bool { return r.Uvarint() != 0 }

func (r *reader) client() (id machine.ID) { copy(id[:], r.Take(uint64(len(id)))); return id }
func (r *reader) request() asynclease.Request {
	return asynclease.Request{Node: machine.NodeID(r.Uvarint()), Life: r.Uvarint(), Seq: r.Uvarint()}
}
func (r *reader) members() (ids []machine.NodeID) {
	for range r.Count() {
		ids = append(ids, machine.NodeID(r.Uvarint()))
	}
	return ids
}
func (r *reader) message() abcast.Message {
	return abcast.Message{Client: r.client(), Seq: r.Uvarint(), Change: r.flag(), Payload: r.Bytes()}
}
func (r *reader) group() (list []abcast.Member) {
	for range r.Count() {
		list = append(list, abcast.Member{ID: machine.NodeID(r.Uvarint()), Address: string(r.Bytes())})
	}
	return list
}
func (r *reader) state() abcast.State {
	s := abcast.State{Group: abcast.Group{First: r.Uvarint(), Members: r.group(), Removed: r.group(), Configured: r.members()}}
	s.Instance, s.Position, s.Digest, s.Horizon, s.Clients = r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint(), int(r.Uvarint())
	for range r.Count() {
		s.Sessions = append(s.Sessions, abcast.Session{Client: r.client(), Upto: r.Uvarint(), Position: r.Uvarint()})
	}
	return s
}

func (r *reader) note() note {
	return note{machine.NodeID(r.Uvarint()), r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()}
}

func (r *reader) notes() (list []note) {
	for range r.Count() {
		list = append(list, r.note())
	}
	return list
}

func (r *reader) births() (list []birth) {
	for range r.Count() {
		list = append(list, birth{r.Uvarint(), r.Uvarint()})
	}
	return list
}

func (r *reader) base() abcast.Base {
	return abcast.Base{Order: r.state(), Position: r.Uvarint()}
}

// decode is the inverse of encode. The result shares memory with payload.
func decode(kind byte, payload []byte) (body any, err error) {
	r := &reader{wire.Reader{Rest: payload}}
	switch kind {
	case kindLease:
		body = asynclease.Lease{Request: r.request(), Interval: asynclease.Interval{First: r.Uvarint(), Last: r.Uvarint()}, Open: r.Uvarint()}
	case kindLeaseAck:
		body = asynclease.Ack{Request: r.request()}
	case kindLeaseNack:
		body = asynclease.Nack{Request: r.request(), Until: r.Uvarint()}
	case kindGive:
		body = asynclease.Give{Request: r.request(), From: r.Uvarint()}
	case kindEstimate:
		body = fastct.Estimate{CN: r.Uvarint(), Round: r.Varint(), TS: r.Varint(), Again: r.flag(), Value: r.Bytes()}
	case kindNewEstimate:
		body = fastct.NewEstimate{CN: r.Uvarint(), Round: r.Varint(), Again: r.flag(), Value: r.Bytes()}
	case kindAck:
		body = fastct.Ack{CN: r.Uvarint(), Round: r.Varint(), Again: r.flag()}
	case kindNack:
		body = fastct.Nack{CN: r.Uvarint(), Round: r.Varint()}
	case kindAbort:
		body = fastct.Abort{CN: r.Uvarint(), Round: r.Varint()}
	case kindCall:
		body = fastct.Call{CN: r.Uvarint(), Round: r.Varint()}
	case kindDecide:
		body = fastct.Decide{CN: r.Uvarint(), Round: r.Varint(), Whole: r.flag(), Value: r.Bytes()}
	case kindCounts:
		var c fastct.Counts
		for range r.Count() {
			c.Counts = append(c.Counts, r.Uvarint())
		}
		body = c
	case kindTrimmed:
		body = fastct.Trimmed{Below: r.Uvarint()}
	case kindSubmit:
		var s abcast.Submit
		for range r.Count() {
			s.Messages = append(s.Messages, r.message())
		}
		body = s
	case kindStatus:
		body = abcast.Status{Delivered: r.Uvarint(), Began: r.Uvarint(), Position: r.Uvarint(), Digest: r.Uvarint()}
	case kindFetch:
		body = abcast.Fetch{From: r.Uvarint()}
	case kindTransfer:
		body = abcast.Transfer{Base: r.base()}
	case kindLife:
		body = life{N: r.Uvarint(), Dir: r.Uvarint(), Lives: r.births()}
	case kindLeaseIdentity:
		body = asynclease.Identity{Node: machine.NodeID(r.Uvarint()), Members: r.members()}
	case kindPermitted:
		body = asynclease.Permitted{Request: r.request(), Interval: asynclease.Interval{First: r.Uvarint(), Last: r.Uvarint()}}
	case kindCut:
		body = asynclease.Cut{Request: r.request(), From: r.Uvarint()}
	case kindFloor:
		body = asynclease.Floor{Below: r.Uvarint()}
	case kindIdentity:
		body = fastct.Identity{Node: machine.NodeID(r.Uvarint()), Members: r.members(), Plain: r.flag(), Spread: r.flag()}
	case kindEntered:
		body = fastct.Entered{CN: r.Uvarint(), Round: r.Varint()}
	case kindAdopted:
		body = fastct.Adopted{CN: r.Uvarint(), Round: r.Varint(), Value: r.Bytes()}
	case kindSettled:
		body = fastct.Settled{CN: r.Uvarint(), Adopted: r.flag(), Value: r.Bytes()}
	case kindGone:
		body = fastct.Gone{Below: r.Uvarint()}
	case kindBase:
		body = r.base()
	case kindIn:
		in := abcast.In{Epoch: r.Uvarint()}
		within := r.Take(1)
		if r.Bad || within[0] == kindIn {
			r.Fail() // also if nothing follows
			break
		}
		if in.Body, err = decode(within[0], r.Rest); err != nil {
			return nil, err
		}
		r.Rest = nil
		return in, nil
	case kindDecisions:
		d := abcast.Decisions{From: r.Uvarint()}
		for range r.Count() {
			d.Values = append(d.Values, r.Bytes())
		}
		body = d
	case kindLearned:
		body = abcast.Learned{CN: r.Uvarint(), Value: r.Bytes()}
	case kindStarted:
		body = abcast.Started{Epoch: r.Uvarint()}
	case kindWant:
		body = want{Position(r.Uvarint())}
	case kindIntroduction:
		body = introduction{To: r.Uvarint(), Dir: r.Uvarint(), Life: r.Uvarint(), Mark: r.Uvarint(), Lives: r.births(), Notes: r.notes()}
	case kindMet:
		body = met{r.Uvarint(), r.Uvarint()}
	case kindForgot:
		body = forgot{r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()}
	case kindNote:
		body = r.note()
	case kindCounted:
		body = counted{}
	default:
		return nil, fmt.Errorf("broadcast: a message or record of kind %d, which this version does not know", kind)
	}
	if !r.Done() {
		return nil, fmt.Errorf("broadcast: a message or record of kind %d is damaged", kind)
	}
	return body, nil
}
