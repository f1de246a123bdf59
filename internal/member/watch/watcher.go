package watch

import (
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// The reasons, in etcd's words, for which a watch is refused.
var (
	// errEmptyRange refuses a range that ends before it starts.
	errEmptyRange = errors.New("mvcc: watcher range is empty")
	// errDuplicateID refuses an id that another watcher of the stream has.
	errDuplicateID = errors.New("mvcc: duplicate watch ID provided on the WatchStream")
)

// A span is a key, or the keys in [start, end), where end "" is above all.
type span struct {
	start, end string
	single     bool
}

// spanOf reads a range in etcd's notation: no end is a single key, the end
// "\x00" is above all, and no key is the first key of all.
func spanOf(key, end []byte) (span, error) {
	s := span{start: string(key), end: string(end), single: len(end) == 0}
	if s.start == "" {
		s.start = "\x00"
	}
	if s.end == "\x00" {
		s.end = ""
	}
	if s.end != "" && s.start >= s.end {
		return s, errEmptyRange
	}
	return s, nil
}

// A watcher is one watch of a stream.
type watcher struct {
	stream *Stream
	id     int64
	span   span
	start  int64 // as asked

	prevKV, fragment, progress, noPut, noDelete bool

	// next is the first revision that it is still to get. While the watcher is
	// synced the hub reads it, while it is late the stream's reader owns it.
	next int64
	// batch is staged by the hub or, while the watcher is late, by the reader.
	batch []*Event

	slot int // its place in its index's group

	// Guarded by the hub's mu.
	synced   bool  // in the hub's index; otherwise behind, unless gone
	gone     bool  // canceled, by the client or by compaction
	size     int   // bytes of batch
	first    int64 // its first revision
	overflow bool  // it outgrew the queue; batch was dropped

	late bool // of the stream's reader: in the index of the late

	// Guarded by the stream's mu.
	active bool // it got events since the last progress report
}

// set takes the options of a request.
func (w *watcher) set(r *pb.WatchCreateRequest) {
	w.start = r.StartRevision
	w.prevKV, w.fragment, w.progress = r.PrevKv, r.Fragment, r.ProgressNotify
	for _, f := range r.Filters {
		switch f {
		case pb.WatchCreateRequest_NOPUT:
			w.noPut = true
		case pb.WatchCreateRequest_NODELETE:
			w.noDelete = true
		}
	}
}

func (w *watcher) wants(e *kv.Event) bool {
	if e.KV.ModRevision < w.next {
		return false
	}
	if e.Type == mvccpb.Event_DELETE {
		return !w.noDelete
	}
	return !w.noPut
}

// stage adds an event to the batch and reports whether it is the first.
func (w *watcher) stage(e *Event, c *Config) (first bool) {
	if first = w.first == 0; first {
		w.first = e.KV.ModRevision
	}
	if w.overflow {
		return first
	}
	w.batch = append(w.batch, e)
	w.size += e.size()
	if len(w.batch) > c.MaxStreamEvents || w.size > c.MaxStreamBytes {
		w.batch, w.overflow = nil, true // no use to go on: no queue takes it
	}
	return first
}
