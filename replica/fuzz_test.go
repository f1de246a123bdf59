package replica

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/keyspan"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/placement"
	"github.com/tenure-lease/tenure/quorumlease"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Whatever arrives or is found on disk, decoding it ends in a value that encodes
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
	term, index := uint64(3), uint64(9)
	for _, body := range []any{
		&raftpb.Message{Type: raftpb.MsgApp.Enum(), Term: &term, Entries: []*raftpb.Entry{{Term: &term, Index: &index, Data: []byte("d")}}},
		forward{Term: 3, Seq: 4, Entry: []byte("e")},
		refused{Boot: 1 << 60, Term: 3, Seq: 4},
		readAsk{Boot: 5, Round: 300},
		readAsk{Boot: 5, Round: 300, Keys: keyspan.Set{{Key: []byte("k"), End: []byte("l")}, {Key: []byte("m"), End: []byte{}}}},
		readAnswer{Boot: 5, Round: 300, Index: 70000},
		leaseAsks{Boot: 5, Asks: []leaseAsk{{ID: 1, Lease: -7, Renew: true}, {ID: 2}}},
		leaseAnswers{Boot: 5, Answers: []AnswerLease{{ID: 1, Lease: 7, TTL: 5000, Remaining: 10}}},
		reported{&raftpb.Message{Type: raftpb.MsgAppResp.Enum(), Term: &term, Index: &index}, quorumlease.Report{
			Boot: 5, Term: 3, Durable: 9, Received: 300, Holders: []quorumlease.Lifetime{{Member: 2, Boot: 1 << 40}},
		}},
		rejected{Boot: 4, Term: 3, Seq: 2, Why: unhealthy},
		announced{&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), Term: &term}, quorumlease.News{Term: 3, Released: 8, Stalled: []machine.NodeID{2}}},
		quorumlease.Request{Boot: 5, Seq: 6},
		quorumlease.Promise{Boot: 5, Seq: 6, TTL: time.Second, Stamp: quorumlease.Stamp{Term: 3, Index: 9}},
		quorumlease.Return{Boot: 5, Seq: 6},
		quorumlease.Report{Boot: 5, Everyone: true},
		quorumlease.News{Term: 3, Released: 8},
		counts{Boot: 5, Seq: 6, Trips: []roundTrip{{Member: 2, Time: 120 * time.Millisecond}}, Body: placement.NewCounter(16).Take().Encode()},
		quorumlease.Guard{Boot: 5, Seq: 6},
		quorumlease.GuardAck{Boot: 5, To: 1 << 40, Seq: 6},
		quorumlease.Pushed{
			Boot: 5, To: 7, Seq: 6, Acked: 4, Since: time.Second, Guard: 2 * time.Second, Lease: 2 * time.Second,
			Stamp: quorumlease.Stamp{Term: 3, Index: 9},
		},
		quorumlease.PromiseReply{Boot: 5, To: 7, Seq: 6},
		suspicion{Members: []machine.NodeID{2, 300}},
	} {
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

// leaseOf is what goes with a message of raft's.
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
