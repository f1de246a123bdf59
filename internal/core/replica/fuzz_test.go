package replica

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// Anything may arrive or be found on disk: decoding it ends in a value that encodes
// to the same again, or in an error.

func FuzzDecodeBatch(f *testing.F) {
	body, err := EncodeRequest(&pb.PutRequest{Key: []byte("k"), Value: []byte("v")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add((&batch{Term: 7, From: 3, Boot: 1 << 63, Seq: 9, Requests: []Propose{{ID: 4, Body: body}, {Body: body}}}).encode())
	f.Add((&batch{}).encode())
	f.Add([]byte{entryVersion, 1, 1, 1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := decodeBatch(p)
		if err != nil {
			return
		}
		again, err := decodeBatch(b.encode())
		if err != nil || !reflect.DeepEqual(again, b) {
			t.Errorf("%+v came back as %+v, %v", b, again, err)
		}
		for _, r := range b.Requests {
			if r.size() < len(r.Body) {
				t.Errorf("a body of %d bytes is said to take %d", len(r.Body), r.size())
			}
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	for _, m := range []proto.Message{
		&pb.PutRequest{Key: []byte("k"), Value: []byte("v"), Lease: 5},
		&pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("k")}}},
		&pb.LeaseGrantRequest{ID: 7, TTL: 60},
		&pb.Member{ID: 1, Name: "a", ClientURLs: []string{"http://a:2379"}},
	} {
		body, err := EncodeRequest(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte{kindExpire, 10, 2, 8, 1})
	f.Fuzz(func(t *testing.T, p []byte) {
		kind, m, err := decodeRequest(p)
		if err != nil {
			return
		}
		body, err := encodeRequest(kind, m)
		if err != nil {
			return // a string that is not UTF-8 is read but not written
		}
		kind2, again, err := decodeRequest(body)
		if err != nil || kind2 != kind || !proto.Equal(again, m) {
			t.Errorf("kind %d %v came back as kind %d %v, %v", kind, m, kind2, again, err)
		}
	})
}

func FuzzDecodeBody(f *testing.F) {
	bodies := []any{readAsk{Boot: 5, Round: 300}, leaseAsks{Boot: 5, Asks: []leaseAsk{{ID: 2}}}, quorumlease.News{Term: 3, Released: 8},
		counts{Boot: 5, Seq: 6, Body: placement.NewCounter(16).Take().Encode()}}
	for _, c := range toldBodies() {
		bodies = append(bodies, c.body)
	}
	for _, body := range bodies {
		p, err := EncodeBody(body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		body, err := DecodeBody(p)
		if err != nil {
			return
		}
		q, err := EncodeBody(body)
		if err != nil {
			t.Fatalf("%+v cannot be encoded: %v", body, err)
		}
		again, err := DecodeBody(q)
		if err != nil {
			t.Fatalf("%+v came back as an error: %v", body, err)
		}
		if m, ok := body.(proto.Message); ok {
			if !proto.Equal(m, again.(proto.Message)) || !reflect.DeepEqual(leaseOf(body), leaseOf(again)) {
				t.Errorf("%v came back as %v", m, again)
			}
		} else if !reflect.DeepEqual(again, body) {
			t.Errorf("%+v came back as %+v", body, again)
		}
	})
}

// leaseOf returns the part about read leases that accompanies a message of raft's.
func leaseOf(body any) any {
	switch m := body.(type) {
	case reported:
		return m.Report
	case announced:
		return m.News
	}
	return nil
}

func FuzzRestore(f *testing.F) {
	a := NewApplier(1, 1)
	f.Add(snapshotOf(f, a))
	a.Found(FoundedBy([]*pb.Member{{ID: 2}, {ID: 1}, {ID: 3, IsLearner: true}}))
	a.roster = a.roster.told(&pb.Member{ID: 2, Name: "b"})
	for _, m := range []proto.Message{
		&pb.LeaseGrantRequest{ID: 7, TTL: 60}, &pb.PutRequest{Key: []byte("k"), Value: []byte("v"), Lease: 7},
	} {
		if _, err := a.request(0, m); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(snapshotOf(f, a))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		a := NewApplier(1, 1)
		before := a.Store()
		if err := a.Restore(bytes.NewReader(p), 10, 2); err != nil {
			if a.Store() != before || a.Index() != 1 {
				t.Errorf("a snapshot that was refused has changed the state: %v", err)
			}
			return
		}
		first := snapshotOf(t, a)
		b := NewApplier(2, 2)
		if err := b.Restore(bytes.NewReader(first), 10, 2); err != nil {
			t.Fatalf("its own snapshot was refused: %v", err)
		}
		if again := snapshotOf(t, b); !bytes.Equal(again, first) {
			t.Errorf("two snapshots of one state differ: %d and %d bytes", len(first), len(again))
		}
	})
}

func snapshotOf(t testing.TB, a *Applier) []byte {
	t.Helper()
	var b bytes.Buffer
	s := a.Snapshot()
	defer s.Release()
	if _, err := s.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
