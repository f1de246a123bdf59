package kv

import (
	"fmt"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"pgregory.net/rapid"
)

func putOp(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key)}}}
}

func deleteOp(key, end string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
		RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key), RangeEnd: []byte(end)},
	}}
}

func rangeOp(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func txnOp(r *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}
}

// then is a transaction that always succeeds.
func then(ops ...*pb.RequestOp) *pb.TxnRequest { return &pb.TxnRequest{Success: ops} }

// either may take one of two branches.
func either(success, failure []*pb.RequestOp) *pb.RequestOp {
	return txnOp(&pb.TxnRequest{Success: success, Failure: failure})
}

type ops = []*pb.RequestOp

func TestCheckTxnOverlaps(t *testing.T) {
	tests := []struct {
		name string
		ops  ops
		want error
	}{
		{"nothing", nil, nil},
		{"two keys", ops{putOp("a"), putOp("b")}, nil},
		{"one key twice", ops{putOp("a"), putOp("b"), putOp("a")}, ErrDuplicateKey},
		{"put and delete", ops{putOp("a"), deleteOp("a", "")}, ErrDuplicateKey},
		{"delete and put", ops{deleteOp("a", ""), putOp("a")}, ErrDuplicateKey},
		{"delete beside", ops{deleteOp("a", ""), putOp("a\x00")}, nil},
		{"delete around", ops{deleteOp("a", "c"), putOp("b")}, ErrDuplicateKey},
		{"delete up to", ops{deleteOp("a", "b"), putOp("b")}, nil},
		{"delete backwards", ops{deleteOp("c", "a"), putOp("b")}, nil},
		{"deletes may overlap", ops{deleteOp("a", "c"), deleteOp("b", "d"), deleteOp("b", "")}, nil},
		{"two deletes around", ops{deleteOp("a", "b"), deleteOp("b", "d"), putOp("c")}, ErrDuplicateKey},
		{"delete without end", ops{deleteOp("a", "\x00"), putOp("b")}, nil},
		{"nested put twice", ops{txnOp(then(putOp("a"))), putOp("a")}, ErrDuplicateKey},
		{"nested puts of siblings", ops{txnOp(then(putOp("a"))), txnOp(then(putOp("a")))}, ErrDuplicateKey},
		{"put in both branches", ops{either(ops{putOp("a")}, ops{putOp("a")})}, nil},
		{"put in both branches and again", ops{either(ops{putOp("a")}, ops{putOp("a")}), putOp("a")}, ErrDuplicateKey},
		{"failure branch against sibling", ops{txnOp(then(putOp("a"))), either(nil, ops{putOp("a")})}, ErrDuplicateKey},
		{"nested put under delete", ops{deleteOp("a", "c"), txnOp(then(putOp("b")))}, ErrDuplicateKey},
		{"nested put under delete, failure branch", ops{deleteOp("a", "c"), either(nil, ops{putOp("b")})}, ErrDuplicateKey},
		{"nested delete over put", ops{putOp("b"), txnOp(then(deleteOp("a", "c")))}, ErrDuplicateKey},
		{"nested delete, then nested put", ops{txnOp(then(deleteOp("a", "c"))), txnOp(then(putOp("b")))}, ErrDuplicateKey},
		{"several nested deletes, then nested puts", ops{txnOp(then(deleteOp("a", "b"), deleteOp("c", "d"), deleteOp("e", "f"))), txnOp(then(putOp("e")))}, ErrDuplicateKey},
		{"nested deletes around, then a nested put", ops{txnOp(then(deleteOp("a", "b"), deleteOp("c", "d"))), txnOp(then(putOp("b")))}, nil},
		{"nested delete of the other branch, then nested put", ops{either(nil, ops{deleteOp("a", "c")}), txnOp(then(putOp("b")))}, ErrDuplicateKey},
		{"put beside a nested delete of the other branch", ops{either(nil, ops{deleteOp("a", "c")}), putOp("b")}, ErrDuplicateKey},
		{"nested put, then nested delete", ops{txnOp(then(putOp("b"))), txnOp(then(deleteOp("a", "c")))}, nil},
		{"put in one branch, delete in the other", ops{either(ops{putOp("b")}, ops{deleteOp("a", "c")})}, nil},
		{"first branch against sibling, and a put in the other", ops{txnOp(then(putOp("a"))), either(ops{putOp("a")}, ops{putOp("b")})}, ErrDuplicateKey},
		{"twice in the other branch, and a put in the first", ops{either(ops{putOp("b")}, ops{putOp("a"), putOp("a")})}, ErrDuplicateKey},
		{"deep in a branch", ops{either(nil, ops{either(nil, ops{putOp("a"), putOp("a")})})}, ErrDuplicateKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for branch, r := range map[string]*pb.TxnRequest{"success": {Success: tt.ops}, "failure": {Failure: tt.ops}} {
				if got := CheckTxn(r, DefaultMaxTxnOps); got != tt.want {
					t.Errorf("%s branch: error %v, want %v", branch, got, tt.want)
				}
			}
			if _, err := New().Txn(&pb.TxnRequest{Success: tt.ops}); err != tt.want {
				t.Errorf("applied: error %v, want %v", err, tt.want)
			}
		})
	}
}

// TestIntervals compares the merged intervals with the deletions themselves.
func TestIntervals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letter := rapid.StringMatching("[a-d]{1,2}")
		var merged intervals
		var dels [][2]string
		for range rapid.IntRange(0, 12).Draw(t, "deletions") {
			key, end := letter.Draw(t, "key"), rapid.OneOf(rapid.Just(""), rapid.Just("\x00"), letter).Draw(t, "end")
			merged.add(key, end)
			dels = append(dels, [2]string{key, end})
			for range 10 {
				k := letter.Draw(t, "probe")
				want := false
				for _, d := range dels {
					want = want || reaches(k, d[0], d[1])
				}
				if got := merged.contains(k); got != want {
					t.Fatalf("%q deletes %q: %v, want %v", dels, k, got, want)
				}
			}
		}
	})
}

func TestCheckTxnLimit(t *testing.T) {
	puts := func(n int) (all ops) {
		for i := range n {
			all = append(all, putOp(fmt.Sprint(i)))
		}
		return all
	}
	compares := make([]*pb.Compare, 5)
	for i := range compares {
		compares[i] = &pb.Compare{Key: []byte("k")}
	}
	tests := []struct {
		name string
		txn  *pb.TxnRequest
		want error
	}{
		{"at the limit", &pb.TxnRequest{Success: puts(4), Failure: puts(4)}, nil},
		{"success branch", &pb.TxnRequest{Success: puts(5)}, ErrTooManyOps},
		{"failure branch", &pb.TxnRequest{Failure: puts(5)}, ErrTooManyOps},
		{"comparisons", &pb.TxnRequest{Compare: compares}, ErrTooManyOps},
		{"nested has what is left", then(txnOp(then(puts(3)...))), nil},
		{"nested has no more", then(txnOp(then(puts(4)...))), ErrTooManyOps},
		{"nested on failure has what is left", &pb.TxnRequest{Failure: ops{txnOp(then(puts(3)...))}}, nil},
		{"nested on failure has no more", &pb.TxnRequest{Failure: ops{txnOp(then(puts(4)...))}}, ErrTooManyOps},
		{"failures nested have no more", then(txnOp(&pb.TxnRequest{Failure: puts(4)})), ErrTooManyOps},
		{"the longest list counts", &pb.TxnRequest{Compare: compares[:3], Success: ops{txnOp(then(puts(2)...))}}, ErrTooManyOps},
		{"too many before empty key", &pb.TxnRequest{Compare: []*pb.Compare{{}}, Success: puts(5)}, ErrTooManyOps},
	}
	for _, tt := range tests {
		if got := CheckTxn(tt.txn, 4); got != tt.want {
			t.Errorf("%s: error %v, want %v", tt.name, got, tt.want)
		}
	}
	// Members with different limits must still apply the same.
	if _, err := New().Txn(then(puts(200)...)); err != nil {
		t.Errorf("applied: error %v", err)
	}
}

func TestCheckShapes(t *testing.T) {
	k := []byte("k")
	tests := []struct {
		name string
		op   *pb.RequestOp
		want error
	}{
		{"range", rangeOp(&pb.RangeRequest{Key: k}), nil},
		{"range without key", rangeOp(&pb.RangeRequest{RangeEnd: k}), ErrEmptyKey},
		{"range with unknown order", rangeOp(&pb.RangeRequest{Key: k, SortOrder: 3}), ErrInvalidSort},
		{"range with negative order", rangeOp(&pb.RangeRequest{Key: k, SortOrder: -1}), ErrInvalidSort},
		{"range with unknown target", rangeOp(&pb.RangeRequest{Key: k, SortTarget: 5}), ErrInvalidSort},
		{"range with negative target", rangeOp(&pb.RangeRequest{Key: k, SortTarget: -1}), ErrInvalidSort},
		{"put", putOp("k"), nil},
		{"put without key", putOp(""), ErrEmptyKey},
		{"put value and ignore", &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: k, Value: k, IgnoreValue: true}}}, ErrValueProvided},
		{"put lease and ignore", &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: k, Lease: 1, IgnoreLease: true}}}, ErrLeaseProvided},
		{"delete", deleteOp("k", ""), nil},
		{"delete without key", deleteOp("", "k"), ErrEmptyKey},
		{"nothing", &pb.RequestOp{}, ErrKeyNotFound},
		{"no operation", nil, ErrKeyNotFound},
		{"no nested transaction", &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{}}, ErrKeyNotFound},
		{"no put", &pb.RequestOp{Request: &pb.RequestOp_RequestPut{}}, ErrEmptyKey},
		{"comparison without key", txnOp(&pb.TxnRequest{Compare: []*pb.Compare{{RangeEnd: k}}}), ErrEmptyKey},
	}
	for _, tt := range tests {
		for where, r := range map[string]*pb.TxnRequest{
			"success": then(tt.op),
			"failure": {Failure: ops{tt.op}},
			"nested":  then(txnOp(then(tt.op))),
		} {
			if got := CheckTxn(r, DefaultMaxTxnOps); got != tt.want {
				t.Errorf("%s in %s: error %v, want %v", tt.name, where, got, tt.want)
			}
		}
	}
}

func TestReadOnlyAndSerializable(t *testing.T) {
	k := []byte("k")
	read, local := rangeOp(&pb.RangeRequest{Key: k}), rangeOp(&pb.RangeRequest{Key: k, Serializable: true})
	tests := []struct {
		name                   string
		txn                    *pb.TxnRequest
		readOnly, serializable bool
	}{
		{"empty", then(), true, true},
		{"linearizable read", then(local, read), true, false},
		{"serializable read", then(local), true, true},
		{"write in failure branch", &pb.TxnRequest{Success: ops{local}, Failure: ops{putOp("k")}}, false, false},
		{"delete", then(deleteOp("k", "")), false, false},
		{"nested read", then(txnOp(then(local))), true, false},
		{"nested write", then(txnOp(then(local, putOp("k")))), false, false},
		{"nested write in failure branch", then(either(nil, ops{putOp("k")})), false, false},
	}
	for _, tt := range tests {
		if got := ReadOnly(tt.txn); got != tt.readOnly {
			t.Errorf("%s: ReadOnly %v, want %v", tt.name, got, tt.readOnly)
		}
		if got := Serializable(tt.txn); got != tt.serializable {
			t.Errorf("%s: Serializable %v, want %v", tt.name, got, tt.serializable)
		}
	}
}
