package replica

import (
	"slices"
	"testing"

	"github.com/tenure-lease/tenure/internal/core/placement"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Keys of different requests do not count as written together if they only share an entry.
func TestRequestsOfAnEntryAreCountedByThemselves(t *testing.T) {
	var requests []Propose
	for _, key := range []string{"a", "b"} {
		body, err := EncodeRequest(&pb.PutRequest{Key: []byte(key)})
		if err != nil {
			t.Fatal(err)
		}
		requests = append(requests, Propose{Body: body})
	}
	rl := &readLeases{plans: plans{counter: placement.NewCounter(16)}}
	term, index := uint64(2), uint64(0)
	for range 100 {
		index++
		e := &raftpb.Entry{Term: &term, Index: new(index), Data: (&batch{Term: term, From: 1, Requests: requests}).encode()}
		touch := rl.keys.log.Add(e, nil)
		rl.wrote(e, 1, touch)
	}
	counts := rl.plans.counter.Take()
	if got := counts.Of([]byte("a")).Writes; len(got) != 1 || got[0] != 100 {
		t.Errorf("writes of a by origin: got %v, want [100]", got)
	}
	if len(counts.Pairs) > 0 {
		t.Errorf("keys of requests that share an entry count as written together: %v", counts.Pairs)
	}
}

// A lease that was published to readers is never modified.
func TestInvisibleKeysAreNeverWrittenTwice(t *testing.T) {
	var u invisible
	var table keyspan.Table
	add := func(i uint64, key string) {
		set := keyspan.Set{{Key: []byte(key)}}
		table.Add(i, set, nil)
		u.add(i, set)
	}
	for i, key := range []string{"a", "b", "c", "d", "e"} {
		add(uint64(i+1), key)
	}
	given := u
	want := slices.Clone(u.keys)
	table.Truncate(3)
	u.truncate(3)
	add(3, "x")
	add(4, "y")
	if !slices.Equal(given.keys, want) {
		t.Errorf("what was given out has changed")
	}
	for i, key := range []string{"a", "b", "x", "y"} {
		if !u.meets(keyspan.Set{{Key: []byte(key)}}, false) {
			t.Errorf("entry %d, of %s, is not among them", i+1, key)
		}
	}
	table.ReleaseThrough(4)
	u.tidy(&table)
	if len(u.keys) != 4 {
		t.Errorf("%d keys are left of what is released and not in the state, want 4", len(u.keys))
	}
	table.Forget(4)
	if u.tidy(&table); len(u.keys) > 0 {
		t.Errorf("%d keys are left of what is in the state", len(u.keys))
	}
}

// An entry that is held for long does not keep later entries from being forgotten.
func TestInvisibleKeysAreForgottenBehindWhatIsHeld(t *testing.T) {
	var u invisible
	var table keyspan.Table
	for i := uint64(1); i <= 10*maxInvisible; i++ {
		set := keyspan.Set{{Key: []byte{byte(i), byte(i >> 8)}}}
		table.Add(i, set, nil)
		u.add(i, set)
		if i > 1 {
			table.Release(i)
			table.Forget(i)
		}
		if u.tidy(&table); !u.fits() {
			t.Fatalf("entry %d: %d keys are kept, one is held", i, len(u.keys))
		}
	}
	if !u.meets(keyspan.Set{{Key: []byte{1, 0}}}, false) {
		t.Error("the one that is held is forgotten")
	}
}

// In key order requests share a batch that wait for the same holders and are released alike. A request that may have
// to wait for more has a batch to itself.
func TestWhichRequestsKeepCompany(t *testing.T) {
	put := func(keys ...string) []byte {
		txn := &pb.TxnRequest{}
		for _, k := range keys {
			txn.Success = append(txn.Success, putOp(&pb.PutRequest{Key: []byte(k)}))
		}
		return bodyOf(t, kindTxn, txn)
	}
	guarded := bodyOf(t, kindTxn, &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("g")}}, Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: []byte("a")})}})
	// Member 1 holds keys before m, and member 2 all. What the log has is not released: an end of lease 7, a grant of
	// lease 8, and a transaction that reads g.
	for _, tt := range []struct {
		name  string
		body  []byte
		leads bool
		want  company
	}{
		{"a put", putOf(t, "a"), false, "w\x01\x02"},
		{"a put of another's key", putOf(t, "x"), false, "w\x02"},
		{"a put that a leader may keep", putOf(t, "a"), true, "k\x01\x02"},
		{"a put of several keys", put("b", "x"), false, "w\x01\x02"},
		{"a deletion of a range", bodyOf(t, kindDeleteRange, &pb.DeleteRangeRequest{Key: []byte("h"), RangeEnd: []byte("z")}), false, "w\x01\x02"},
		{"a deletion of a range in which an entry reads", bodyOf(t, kindDeleteRange, &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("z")}), false, apart},
		{"a read in the log", EncodeRead(key("x")), false, "r\x02"},
		{"a read in the log at the leader", EncodeRead(key("x")), true, "r\x02"},
		{"a guarded put", bodyOf(t, kindTxn, &pb.TxnRequest{Compare: []*pb.Compare{{Key: []byte("a")}}, Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: []byte("x")})}}), false, "w\x01\x02"},
		{"a grant", bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 9, TTL: 5}), false, "w"},
		{"a put with a lease", bodyOf(t, kindPut, &pb.PutRequest{Key: []byte("a"), Lease: 9}), false, "w\x01\x02"},
		{"a put with a lease that is being granted", bodyOf(t, kindPut, &pb.PutRequest{Key: []byte("a"), Lease: 8}), false, apart},
		{"a grant of a lease that is being ended", bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 7, TTL: 5}), false, apart},
		{"a put of what an entry reads", putOf(t, "g"), false, apart},
		{"another read of what an entry reads", guarded, false, "w\x01\x02"},
		{"the end of a lease", bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 9}), false, apart},
		{"a division", bodyOf(t, kindReadCells, wrapperspb.Bytes(division(t).Encode())), false, apart},
		{"a policy", bodyOf(t, kindReadPolicy, wrapperspb.String("all")), true, apart},
		{"a compaction", bodyOf(t, kindCompact, &pb.CompactionRequest{Revision: 3}), false, apart},
		{"a member", bodyOf(t, kindMember, &pb.Member{ID: 1}), false, apart},
		{"one of a newer version", []byte{200, 1}, false, apart},
		{"garbage", []byte{kindPut, 0xff}, false, apart},
		{"nothing", nil, false, apart},
	} {
		r := keyReader(9)
		k := &r.reads.keys
		k.confs = []conf{{9, readSetting{quorumlease.Static, division(t)}}}
		for i, body := range [][]byte{bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7}), bodyOf(t, kindGrant, &pb.LeaseGrantRequest{ID: 8}), guarded} {
			k.leaseKeys = func(int64) [][]byte { return nil }
			k.appended(entryOf(uint64(10+i), body))
		}
		if got := r.reads.companyOf(tt.leads, tt.body); got != tt.want {
			t.Errorf("%s is in the company %q, want %q", tt.name, got, tt.want)
		}
	}
	r := keyReader(9) // without a division all members hold all keys
	if got := r.reads.companyOf(false, putOf(t, "a")); got != "w*" {
		t.Errorf("where all hold all, a put is in the company %q, want %q", got, "w*")
	}
}

// A lane waits since its first request came, whatever comes later.
func TestSinceWhenALaneWaits(t *testing.T) {
	var p proposals
	for _, now := range []machine.Mono{5, 7} {
		if p.file(now, Propose{ID: uint64(now)}, "a"); p.lanes[0].since != 5 {
			t.Errorf("a request comes at %v, and the lane waits since %v, want 5", now, p.lanes[0].since)
		}
	}
	p.lanes[0].open = nil
	if p.file(9, Propose{ID: 9}, "a"); p.lanes[0].since != 9 || len(p.lanes) != 1 {
		t.Errorf("an empty lane gets a request at 9, and waits since %v", p.lanes[0].since)
	}
}
