package replica

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/wire"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// readSetting is what a cluster has decided about read leases.
type readSetting struct {
	policy quorumlease.Policy       // empty until one is set
	cells  *placement.Configuration // the holders of keys; nil: each member with promises holds all
}

// with returns the setting after a request.
func (s readSetting) with(m proto.Message) (readSetting, error) {
	switch m := m.(type) {
	case *wrapperspb.StringValue:
		policy, err := quorumlease.ParsePolicy(m.Value)
		if err != nil {
			return s, err
		}
		s.policy = policy
		if !policy.Placed() {
			s.cells = nil
		}
	case *wrapperspb.BytesValue:
		cells, err := placement.Decode(m.Value)
		if err != nil {
			return s, err
		}
		s.cells = cells
		if !s.policy.Placed() {
			s.policy = quorumlease.Static
		}
	}
	return s, nil
}

// after returns the setting after the requests of an entry that change it, and tells
// whether there are any.
func (s readSetting) after(b *batch) (next readSetting, ok bool) {
	for _, req := range b.Requests {
		if len(req.Body) == 0 || req.Body[0] != kindReadPolicy && req.Body[0] != kindReadCells {
			continue
		}
		_, m, err := decodeRequest(req.Body)
		if err != nil {
			continue
		}
		if next, err := s.with(m); err == nil {
			s, ok = next, true
		}
	}
	return s, ok
}

// holdsAny reports whether a member may hold any of some keys.
func (s readSetting) holdsAny(id machine.NodeID, keys keyspan.Set) bool {
	if s.cells == nil {
		return true
	}
	place := s.cells.Place(id)
	return place >= 0 && slices.ContainsFunc(keys, func(key keyspan.Span) bool {
		_, some := s.cells.HoldersOfRange(key.Key, key.End)
		return some.Has(place)
	})
}

// setsReads reports whether an entry has a request after which a holder may not hold all
// keys. Another policy of strict order is none: it lets no lease lapse (R12).
func setsReads(e *raftpb.Entry) bool {
	sets := false
	glance(e, func(body []byte) {
		sets = sets || body[0] == kindReadCells || body[0] == kindReadPolicy && bytes.HasSuffix(body, []byte("/key"))
	})
	return sets
}

// setsPolicy reports whether an entry has a request that sets the policy, or the holders of keys.
func setsPolicy(e *raftpb.Entry) bool {
	sets := false
	glance(e, func(body []byte) { sets = sets || body[0] == kindReadPolicy || body[0] == kindReadCells })
	return sets
}

// glance looks at the encoded requests of an entry, as far as it can be read, and returns
// its sender, and whether that keeps it.
func glance(e *raftpb.Entry, each func(body []byte)) (from machine.NodeID, kept bool) {
	p := e.GetData()
	if !isBatch(p) {
		return 0, false
	}
	r := reader{wire.Reader{Rest: p[1:]}}
	r.Uvarint() // term
	from = machine.NodeID(r.Uvarint())
	r.Uvarint() // boot
	r.Uvarint() // seq
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		r.Uvarint() // ID
		skipCaller(&r.Reader, p)
		if body := r.Bytes(); len(body) > 0 {
			each(body)
		}
	}
	return from, isKept(p)
}

func (s readSetting) encodeCells() []byte {
	if s.cells == nil {
		return nil
	}
	return s.cells.Encode()
}

func decodeSetting(policy string, cells []byte) (s readSetting, err error) {
	if policy != "" {
		if s.policy, err = quorumlease.ParsePolicy(policy); err != nil {
			return s, err
		}
	}
	if len(cells) > 0 {
		if s.cells, err = placement.Decode(cells); err != nil {
			return s, fmt.Errorf("holders of keys: %w", err)
		}
	}
	return s, nil
}
