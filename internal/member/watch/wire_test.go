package watch

import (
	"bytes"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

func TestWire(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	w.put("a", "a")
	w.del("a")
	create(t, s, watch("a", "", 1))
	next(t, s)
	r := response(t, s)
	for _, prev := range []bool{false, true, false, true} { // whichever was made before
		resp := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: 4}, WatchId: 3}
		got, err := proto.Marshal(resp)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // made, then from the cache
			for _, e := range r.Events {
				resp.Events = append(resp.Events, e.Message(prev))
				wire, err := e.Wire(prev)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, wire...)
			}
		}
		want, err := proto.Marshal(resp)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("prev %v: got % x, want % x", prev, got, want)
		}
	}
	if e := r.Events[2].Message(true); e.Type != mvccpb.Event_DELETE || string(e.PrevKv.GetValue()) != "v3" {
		t.Errorf("deletion %v, want previous value v3", e)
	}
	if e := r.Events[0].Message(true); e.PrevKv != nil {
		t.Errorf("creation %v, want no previous value", e)
	}
	if e := r.Events[1].Message(false); e.PrevKv != nil {
		t.Errorf("%v for those that want no previous values", e)
	}
}

// A transaction may delete all keys from one on and put one of them again, for
// etcd does not see the overlap. The put is a creation, and comes without a
// previous value although there was a key before the transaction.
func TestNoPreviousValueWithACreation(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	w.put("h")
	create(t, s, watch("h", "", 3))
	next(t, s)
	_, err := w.store.Txn(&pb.TxnRequest{Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("f"), RangeEnd: []byte{0}}}},
		{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("h"), Value: []byte("anew")}}},
	}})
	w.check(err)
	w.hub.Publish(w.store.View())
	r := response(t, s)
	e := r.Events[len(r.Events)-1].Message(true)
	if string(e.Kv.Value) != "anew" || e.PrevKv != nil {
		t.Errorf("event %v, want the creation of h without a previous value", e)
	}
}

// All watchers that get an event share its wire form: an event of thousands is encoded once.
func TestTheWireFormIsShared(t *testing.T) {
	w := newWorld(t, Config{})
	s := w.stream()
	w.put("a", "a")
	create(t, s, watch("a", "", 3))
	next(t, s)
	e := response(t, s).Events[0]
	for _, prev := range []bool{false, true} {
		one, err := e.Wire(prev)
		w.check(err)
		two, err := e.Wire(prev)
		w.check(err)
		if &one[0] != &two[0] {
			t.Errorf("previous value %v: an event has been encoded twice", prev)
		}
	}
}
