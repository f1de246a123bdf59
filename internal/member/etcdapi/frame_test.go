package etcdapi

import (
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// A response goes out as it is, in whatever pieces of memory and however many frames. Each frame
// says its own size, all but the last say that more follow, and none reaches the limit that
// could be cut.
func TestFramesOfAResponse(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	for _, c := range []struct{ events, value, limit, frames int }{
		{0, 0, 1000, 1},
		{3, 10, 1000, 1},       // copied into one small piece
		{20, 1000, 1 << 20, 1}, // copied into one of the pool
		{20, 5000, 1 << 20, 1}, // sent as it lies
		{20, 1000, 5000, 5},
		{5, 1000, 100, 5}, // an event is never cut
	} {
		t.Run(fmt.Sprintf("%d of %d bytes below %d", c.events, c.value, c.limit), func(t *testing.T) {
			ws := s.hub.NewStream(0)
			defer ws.Close()
			if err := ws.Create(t.Context(), &pb.WatchCreateRequest{Key: []byte("k"), RangeEnd: []byte("l"), Fragment: true, PrevKv: true}); err != nil {
				t.Fatal(err)
			}
			r, err := ws.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ops := make([]*pb.RequestOp, c.events)
			for i := range ops {
				ops[i] = putOp(fmt.Appendf(nil, "k%d/%02d", c.limit+c.value, i), []byte(strings.Repeat("v", c.value)), 0)
			}
			if len(ops) > 0 {
				if _, err := s.Propose(t.Context(), &pb.TxnRequest{Success: ops}); err != nil {
					t.Fatal(err)
				}
				if r, err = ws.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			want := &pb.WatchResponse{Header: header(r.Revision), WatchId: r.WatchID, Created: r.Created}
			for _, e := range r.Events {
				want.Events = append(want.Events, e.Message(true))
			}
			frames, err := s.server.frames(&r, c.limit)
			if err != nil || len(frames) != c.frames {
				t.Errorf("%d frames, %v, want %d", len(frames), err, c.frames)
			}
			got := new(pb.WatchResponse)
			for i := range frames {
				raw := frames[i].buffers()
				part := new(pb.WatchResponse)
				if err := proto.Unmarshal(raw.Materialize(), part); err != nil {
					t.Fatalf("frame %d is no response: %v", i, err)
				}
				if frames[i].size != raw.Len() {
					t.Errorf("frame %d of %d bytes says that it has %d", i, raw.Len(), frames[i].size)
				}
				if len(frames) > 1 && len(part.Events) > 1 && raw.Len() >= c.limit {
					t.Errorf("frame %d has %d bytes, the limit is %d", i, raw.Len(), c.limit)
				}
				if more := i < len(frames)-1; part.Fragment != more {
					t.Errorf("frame %d of %d says that more follow: %v", i+1, len(frames), part.Fragment)
				}
				part.Fragment = false
				events := append(got.Events, part.Events...)
				got, part.Events = part, nil
				if !proto.Equal(part, &pb.WatchResponse{Header: want.Header, WatchId: want.WatchId, Created: want.Created}) {
					t.Errorf("frame %d has %v beside its events", i, part)
				}
				got.Events = events
				raw.Free()
			}
			if !proto.Equal(got, want) {
				t.Errorf("frames make up %v\nwant %v", got, want)
			}
		})
	}
}

// A response of just the limit is cut, as in etcd, and one that is smaller by a byte is not.
func TestResponseAtTheLimit(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	ws := s.hub.NewStream(0)
	defer ws.Close()
	if err := ws.Create(t.Context(), &pb.WatchCreateRequest{Key: []byte("k"), RangeEnd: []byte("l"), Fragment: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Propose(t.Context(), &pb.TxnRequest{Success: []*pb.RequestOp{putOp([]byte("k1"), []byte("v"), 0), putOp([]byte("k2"), []byte("v"), 0)}}); err != nil {
		t.Fatal(err)
	}
	r, err := ws.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	whole, err := s.server.frames(&r, 1<<20)
	if err != nil || len(whole) != 1 {
		t.Fatalf("%d frames, %v, want one below a large limit", len(whole), err)
	}
	for limit, want := range map[int]int{whole[0].size: 2, whole[0].size + 1: 1} {
		if frames, err := s.server.frames(&r, limit); err != nil || len(frames) != want {
			t.Errorf("%d frames of a response of %d bytes with a limit of %d, %v; want %d", len(frames), whole[0].size, limit, err, want)
		}
	}
}

// With any limit, no fragment of several events reaches it, and each fragment has at least
// one event.
func TestFragmentsStayBelowTheLimit(t *testing.T) {
	s := New(newFake(t, watch.Config{}), Config{})
	r := &watch.Response{Revision: 2, Fragment: true}
	for _, key := range []string{"k1", "k2", "k3"} {
		r.Events = append(r.Events, &watch.Event{Event: kv.Event{Type: mvccpb.Event_PUT, KV: &mvccpb.KeyValue{Key: []byte(key), CreateRevision: 2, ModRevision: 2}}})
	}
	for limit := range 200 {
		frames, err := s.frames(r, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			if len(f.events) == 0 || len(f.events) > 1 && f.size >= limit {
				t.Errorf("a fragment of %d events has %d bytes, and the limit is %d", len(f.events), f.size, limit)
			}
		}
	}
}
