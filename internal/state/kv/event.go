package kv

import (
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Event is one change of one key. Its revision is KV.ModRevision.
type Event struct {
	// KV is the key-value after the change; of a deletion only the key and the
	// revision. It is the stored one and must not be changed.
	KV *mvccpb.KeyValue
	// Type is the kind of change: a put or a deletion.
	Type mvccpb.Event_EventType

	version *version
	compact int64         // of the View
	floor   *atomic.Int64 // of the Store, see View
}

func newEvent(v *version, compact int64, floor *atomic.Int64) Event {
	e := Event{KV: &v.kv, version: v, compact: compact, floor: floor}
	if v.dead() {
		e.Type = mvccpb.Event_DELETE
	}
	return e
}

// Prev is the key-value at the revision before the event. It is nil if the key did not
// exist then or if that revision is compacted. The compaction may be one that came after
// the View. Read the value in good time.
func (e Event) Prev() *mvccpb.KeyValue {
	before := e.KV.ModRevision - 1
	if before < e.compact {
		return nil
	}
	v := e.version
	for v != nil && v.kv.ModRevision > before {
		v = v.prev.Load()
	}
	if v == nil || v.dead() || e.floor.Load() > before {
		return nil
	}
	return &v.kv
}

// IsCreate reports whether the event made a key that did not exist.
func (e Event) IsCreate() bool {
	return e.Type == mvccpb.Event_PUT && e.KV.CreateRevision == e.KV.ModRevision
}
