package etcdapi

import (
	"context"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// BenchmarkFrame encodes a response of eight events of 256 bytes, as one of many
// watchers gets it: from the shared wire form, and by gRPC's own codec.
func BenchmarkFrame(b *testing.B) {
	f := newFake(b, watch.Config{})
	s := New(f, Config{})
	for range 8 {
		if _, err := f.Propose(context.Background(), &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 256)}); err != nil {
			b.Fatal(err)
		}
	}
	ws := f.hub.NewStream(0)
	defer ws.Close()
	if err := ws.Create(context.Background(), &pb.WatchCreateRequest{Key: []byte("a"), StartRevision: 2}); err != nil {
		b.Fatal(err)
	}
	var r watch.Response
	for len(r.Events) == 0 {
		var err error
		if r, err = ws.Next(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("shared", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			frames, err := s.frames(&r, 1<<20)
			if err != nil {
				b.Fatal(err)
			}
			for i := range frames {
				data, err := codec{}.Marshal(&frames[i])
				if err != nil {
					b.Fatal(err)
				}
				data.Free()
			}
		}
	})
	b.Run("standard", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			m := &pb.WatchResponse{Header: s.headerAt(r.Revision), Events: make([]*mvccpb.Event, len(r.Events))}
			for i, e := range r.Events {
				m.Events[i] = e.Message(false)
			}
			data, err := codec{}.Marshal(m)
			if err != nil {
				b.Fatal(err)
			}
			data.Free()
		}
	})
}
