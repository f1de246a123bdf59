package watch

import (
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// An Event is an event of the log together with its wire form, which is made
// when first asked for and shared by all the watchers that get the event.
type Event struct {
	kv.Event
	plain, withPrev atomic.Pointer[[]byte]
}

// eventsField is the number of the field events in etcdserverpb.WatchResponse.
const eventsField = 11

// Wire returns the event as one element of the field events of a WatchResponse, tag and
// length included. Appending it to the encoded fields of a response appends the event to
// the response. Nobody may change it.
func (e *Event) Wire(prev bool) ([]byte, error) {
	cached := &e.plain
	if prev {
		cached = &e.withPrev
	}
	if wire := cached.Load(); wire != nil {
		return *wire, nil
	}
	m := e.Message(prev)
	size := proto.Size(m)
	wire := make([]byte, 0, protowire.SizeTag(eventsField)+protowire.SizeBytes(size))
	wire = protowire.AppendTag(wire, eventsField, protowire.BytesType)
	wire = protowire.AppendVarint(wire, uint64(size))
	wire, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(wire, m)
	if err != nil {
		return nil, err
	}
	cached.Store(&wire)
	return wire, nil
}

// Message returns the event in etcd's form. As etcd, it gives a previous value
// only where there was a key before, and none with a creation: a transaction can
// delete a key and put it anew, in one revision.
func (e *Event) Message(prev bool) *mvccpb.Event {
	m := &mvccpb.Event{Type: e.Type, Kv: e.KV}
	if prev && !e.IsCreate() {
		m.PrevKv = e.Prev()
	}
	return m
}

// size is about the memory that the event holds while it is queued.
func (e *Event) size() int { return len(e.KV.Key) + len(e.KV.Value) + eventOverhead }

// eventOverhead is about what an Event and its KeyValue take beside key and value.
const eventOverhead = 128
