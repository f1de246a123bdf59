package replica

import (
	"fmt"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// Kinds of messages that go between members under Controls only.
const (
	wireGuard        = 32
	wireGuardAck     = 33
	wirePushed       = 34
	wirePromiseReply = 35
	wireSuspicion    = 36
)

// encodeControls encodes what has to do with Controls.
func encodeControls(body any) ([]byte, bool) {
	switch m := body.(type) {
	case quorumlease.Guard:
		return appendUvarints([]byte{wireGuard}, m.Boot, m.Seq), true
	case quorumlease.GuardAck:
		return appendUvarints([]byte{wireGuardAck}, m.Boot, m.To, m.Seq), true
	case quorumlease.Pushed:
		return appendUvarints([]byte{wirePushed}, m.Boot, m.To, m.Seq, m.Acked,
			uint64(m.Since), uint64(m.Guard), uint64(m.Lease), m.Stamp.Term, m.Stamp.Index), true
	case quorumlease.PromiseReply:
		return appendUvarints([]byte{wirePromiseReply}, m.Boot, m.To, m.Seq), true
	case suspicion:
		p := appendUvarints([]byte{wireSuspicion}, uint64(len(m.Members)))
		for _, id := range m.Members {
			p = appendUvarints(p, uint64(id))
		}
		return p, true
	}
	return nil, false
}

// decodeControls decodes what encodeControls made, behind the kind.
func decodeControls(kind byte, r *reader) (body any, err error) {
	switch kind {
	case wireGuard:
		body = quorumlease.Guard{Boot: r.Uvarint(), Seq: r.Uvarint()}
	case wireGuardAck:
		body = quorumlease.GuardAck{Boot: r.Uvarint(), To: r.Uvarint(), Seq: r.Uvarint()}
	case wirePushed:
		body = quorumlease.Pushed{
			Boot: r.Uvarint(), To: r.Uvarint(), Seq: r.Uvarint(), Acked: r.Uvarint(),
			Since: time.Duration(r.Uvarint()), Guard: time.Duration(r.Uvarint()), Lease: time.Duration(r.Uvarint()),
			Stamp: quorumlease.Stamp{Term: r.Uvarint(), Index: r.Uvarint()},
		}
	case wirePromiseReply:
		body = quorumlease.PromiseReply{Boot: r.Uvarint(), To: r.Uvarint(), Seq: r.Uvarint()}
	case wireSuspicion:
		m := suspicion{}
		for n := r.Count(); n > 0 && !r.Bad; n-- {
			m.Members = append(m.Members, machine.NodeID(r.Uvarint()))
		}
		body = m
	default:
		return nil, fmt.Errorf("%w: unknown kind %d", errBadMessage, kind)
	}
	if !r.Done() {
		return nil, errBadMessage
	}
	return body, nil
}
