package kv

import (
	"errors"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

func mustPut(t testing.TB, s *Store, key, value string, lease int64) {
	t.Helper()
	if _, err := s.Put(&pb.PutRequest{Key: []byte(key), Value: []byte(value), Lease: lease}); err != nil {
		t.Fatal(err)
	}
}

// TestTxnHeaders: operations tell the revision at their point of the transaction,
// nested transactions tell none.
func TestTxnHeaders(t *testing.T) {
	s := New()
	mustPut(t, s, "a", "1", 0) // revision 2
	look := rangeOp(&pb.RangeRequest{Key: []byte("a")})
	resp, err := s.Txn(then(
		look, deleteOp("none", ""), txnOp(then(look, putOp("b"), look)), deleteOp("none", ""), look,
	))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Responses) != 5 || len(resp.Responses[2].GetResponseTxn().GetResponses()) != 3 {
		t.Fatalf("answers %v, want five, and three of the third", resp)
	}
	nested := resp.Responses[2].GetResponseTxn()
	got := []int64{
		resp.Responses[0].GetResponseRange().GetHeader().GetRevision(),
		resp.Responses[1].GetResponseDeleteRange().GetHeader().GetRevision(),
		nested.GetHeader().GetRevision(),
		nested.Responses[0].GetResponseRange().GetHeader().GetRevision(),
		nested.Responses[1].GetResponsePut().GetHeader().GetRevision(),
		nested.Responses[2].GetResponseRange().GetHeader().GetRevision(),
		resp.Responses[3].GetResponseDeleteRange().GetHeader().GetRevision(),
		resp.Responses[4].GetResponseRange().GetHeader().GetRevision(),
		resp.GetHeader().GetRevision(),
	}
	if want := []int64{2, 2, 0, 2, 3, 3, 3, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("revisions in headers %v, want %v", got, want)
	}
}

// TestTxnNestedComparesSeeTheStateBefore: not what earlier operations changed.
func TestTxnNestedComparesSeeTheStateBefore(t *testing.T) {
	s := New()
	absent := &pb.Compare{Key: []byte("k"), Target: pb.Compare_VERSION}
	resp, err := s.Txn(then(putOp("k"), txnOp(&pb.TxnRequest{
		Compare: []*pb.Compare{absent},
		Success: ops{putOp("was absent")},
		Failure: ops{putOp("was there")},
	})))
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Responses) != 2 || !resp.Responses[1].GetResponseTxn().GetSucceeded() {
		t.Error("the nested comparison saw the put before it")
	}
}

// TestTxnChecksBeforeItChanges: a branch that fails at its end leaves nothing.
func TestTxnChecksBeforeItChanges(t *testing.T) {
	tests := []struct {
		name string
		last *pb.RequestOp
		want error
	}{
		{"lease", &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("x"), Lease: 9}}}, ErrLeaseNotFound},
		{"ignore_value", &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("x"), IgnoreValue: true}}}, ErrKeyNotFound},
		{"ignore_lease", &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("x"), IgnoreLease: true}}}, ErrKeyNotFound},
		{"own revision", rangeOp(&pb.RangeRequest{Key: []byte("x"), Revision: 4}), ErrFutureRevision},
		{"compacted", rangeOp(&pb.RangeRequest{Key: []byte("x"), Revision: 2}), ErrCompacted},
		{"negative revision after a compaction", rangeOp(&pb.RangeRequest{Key: []byte("x"), Revision: -1}), ErrCompacted},
		{"nested", txnOp(then(rangeOp(&pb.RangeRequest{Key: []byte("x"), Revision: 4}))), ErrFutureRevision},
		{"empty key", putOp(""), ErrEmptyKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := New()
			mustPut(t, s, "a", "1", 0)
			mustPut(t, s, "a", "2", 0)
			if err := s.Compact(3); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, s.View())
			if _, err := s.Txn(then(putOp("b"), deleteOp("a", ""), tt.last)); err != tt.want {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if after := snapshot(t, s.View()); !slices.Equal(after, before) {
				t.Errorf("the state changed:\n%x\n%x", before, after)
			}
		})
	}
}

// TestTxnNegativeRevision: below -1 it counts as compacted even in a store that
// never was, but only in a transaction.
func TestTxnNegativeRevision(t *testing.T) {
	for rev, want := range map[int64]error{-1: nil, -2: ErrCompacted} {
		q := &pb.RangeRequest{Key: []byte("k"), Revision: rev}
		if _, err := New().Txn(then(rangeOp(q))); err != want {
			t.Errorf("revision %d in a transaction: error %v, want %v", rev, err, want)
		}
		if _, err := New().View().Range(q); err != nil {
			t.Errorf("revision %d: error %v", rev, err)
		}
	}
}

// TestCompareUnknowns: results that do not exist hold, targets that do not exist
// are equal to all.
func TestCompareUnknowns(t *testing.T) {
	tests := []struct {
		name string
		c    *pb.Compare
		want bool
	}{
		{"result", &pb.Compare{Result: 7, Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: 5}}, true},
		{"target equal", &pb.Compare{Target: 7}, true},
		{"target not equal", &pb.Compare{Target: 7, Result: pb.Compare_NOT_EQUAL}, false},
		{"union of another target", &pb.Compare{Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Lease{Lease: 1}}, false},
		{"no union", &pb.Compare{Target: pb.Compare_LEASE}, true},
	}
	s := New()
	mustPut(t, s, "k", "v", 0)
	for _, tt := range tests {
		tt.c.Key = []byte("k")
		resp, err := s.View().Txn(&pb.TxnRequest{Compare: []*pb.Compare{tt.c}})
		if err != nil || resp.Succeeded != tt.want {
			t.Errorf("%s: %v %v, want %v", tt.name, resp.GetSucceeded(), err, tt.want)
		}
	}
}

// Keys that a transaction deletes are gone before its puts, whichever deletion reaches
// furthest: a put that is to keep a value finds none.
func TestPutOfWhatTheTransactionDeletes(t *testing.T) {
	del := func(key string) *pb.RequestOp {
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte{0}}}}
	}
	for name, deletions := range map[string][]*pb.RequestOp{
		"from the key itself":      {del("b")},
		"from before it":           {del("a")},
		"from behind, then before": {del("c"), del("a")},
		"from before, then behind": {del("a"), del("c")},
	} {
		t.Run(name, func(t *testing.T) {
			s := New()
			for _, key := range []string{"a", "b", "c"} {
				if _, err := s.Put(&pb.PutRequest{Key: []byte(key), Value: []byte("v")}); err != nil {
					t.Fatal(err)
				}
			}
			keep := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("b"), IgnoreValue: true}}}
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("to keep a value that is deleted: %v, want %v", p, ErrKeyNotFound)
				}
			}()
			if _, err := s.Txn(&pb.TxnRequest{Success: append(deletions, keep)}); !errors.Is(err, ErrKeyNotFound) || s.Revision() != 4 {
				t.Errorf("to keep a value that is deleted: %v at revision %d, want %v and no change", err, s.Revision(), ErrKeyNotFound)
			}
		})
	}
}

// A part of a key that is to be kept has to be there. A deleted key has no parts, in a put
// of its own and in a transaction, though its deletion is not compacted.
func TestNothingIsKeptOfADeletedKey(t *testing.T) {
	for name, r := range map[string]*pb.PutRequest{
		"its value": {Key: []byte("k"), IgnoreValue: true},
		"its lease": {Key: []byte("k"), Value: []byte("v"), IgnoreLease: true},
	} {
		s := New()
		mustPut(t, s, "k", "1", 0)
		if _, err := s.DeleteRange(&pb.DeleteRangeRequest{Key: []byte("k")}); err != nil {
			t.Fatal(err)
		}
		_, err := s.Put(clone(r))
		_, txnErr := s.Txn(then(&pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: clone(r)}}))
		if !errors.Is(err, ErrKeyNotFound) || !errors.Is(txnErr, ErrKeyNotFound) || s.Revision() != 3 {
			t.Errorf("a put that keeps %s of a deleted key: %v, and in a transaction %v, at revision %d: want %v twice, at 3", name, err, txnErr, s.Revision(), ErrKeyNotFound)
		}
	}
}
