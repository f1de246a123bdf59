package etcdapi

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// A frame is a WatchResponse in its wire form: the fields but the events, then
// the events, which are encoded once for all the watchers that get them.
type frame struct {
	head   []byte
	events [][]byte
	size   int // of both
}

// copyBelow is the size in bytes up to which a frame is put together in one
// buffer; the events of a larger one are sent from where they are.
const copyBelow = 64 << 10

func (f *frame) buffers() mem.BufferSlice {
	if len(f.events) == 0 {
		return mem.BufferSlice{mem.SliceBuffer(f.head)}
	}
	if mem.IsBelowBufferPoolingThreshold(f.size) {
		return mem.BufferSlice{mem.SliceBuffer(f.appendTo(make([]byte, 0, f.size)))}
	}
	if f.size <= copyBelow {
		pool := mem.DefaultBufferPool()
		buf := pool.Get(f.size)
		*buf = f.appendTo((*buf)[:0])
		return mem.BufferSlice{mem.NewBuffer(buf, pool)}
	}
	slices := make(mem.BufferSlice, 0, 1+len(f.events))
	slices = append(slices, mem.SliceBuffer(f.head))
	for _, e := range f.events {
		slices = append(slices, mem.SliceBuffer(e))
	}
	return slices
}

func (f *frame) appendTo(buf []byte) []byte {
	buf = append(buf, f.head...)
	for _, e := range f.events {
		buf = append(buf, e...)
	}
	return buf
}

// frames encodes a response, in several frames if it has reached the limit and
// its watcher can do with fragments. As in etcd each fragment has one event at
// least, and all but the last say that more follow.
func (s *Server) frames(r *watch.Response, limit int) ([]frame, error) {
	head := &pb.WatchResponse{
		Header:          s.headerAt(r.Revision),
		WatchId:         r.WatchID,
		Created:         r.Created,
		Canceled:        r.Canceled,
		CompactRevision: r.CompactRevision,
		CancelReason:    r.CancelReason,
	}
	last, err := proto.Marshal(head)
	if err != nil {
		return nil, err
	}
	whole := frame{head: last, size: len(last), events: make([][]byte, len(r.Events))}
	for i, e := range r.Events {
		if whole.events[i], err = e.Wire(r.PrevKV); err != nil {
			return nil, err
		}
		whole.size += len(whole.events[i])
	}
	if !r.Fragment || whole.size < limit || len(r.Events) < 2 {
		return []frame{whole}, nil
	}
	head.Fragment = true
	part, err := proto.Marshal(head)
	if err != nil {
		return nil, err
	}
	var frames []frame
	for rest := whole.events; len(rest) > 0; {
		f := frame{head: part, size: len(part) + len(rest[0])}
		n := 1
		for n < len(rest) && f.size+len(rest[n]) < limit {
			f.size += len(rest[n])
			n++
		}
		f.events, rest = rest[:n], rest[n:]
		if len(rest) == 0 {
			f.size += len(last) - len(part)
			f.head = last
		}
		frames = append(frames, f)
	}
	return frames, nil
}
