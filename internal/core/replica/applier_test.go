package replica

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// applyOne has an Applier apply an entry with one request, and takes what it tells of it.
func applyOne(t *testing.T, a *Applier, from machine.NodeID, boot, id uint64, m proto.Message) (Applied, []Result) {
	t.Helper()
	body, err := EncodeRequest(m)
	if err != nil {
		t.Fatal(err)
	}
	index, term := a.Index()+1, uint64(2)
	e := &raftpb.Entry{Index: &index, Term: &term}
	e.Data = (&batch{Term: term, From: from, Boot: boot, Seq: index, Requests: []Propose{{ID: id, Body: body}}}).encode()
	if cc, ok := m.(*raftpb.ConfChange); ok {
		p, err := proto.Marshal(&raftpb.ConfChange{Type: cc.Type, NodeId: cc.NodeId, Context: e.Data})
		if err != nil {
			t.Fatal(err)
		}
		e.Type, e.Data = raftpb.EntryConfChange.Enum(), p
	}
	if err := a.Apply(e); err != nil {
		t.Fatal(err)
	}
	return a.Take()
}

// Each request has its answer, at its proposer, in the life that proposed it, and what it did to
// leases is told once.
func TestWhatARequestIsAnswered(t *testing.T) {
	a := NewApplier(1, 7)
	a.Found(FoundedBy([]*pb.Member{{ID: 1, PeerURLs: []string{"a"}}, {ID: 2, PeerURLs: []string{"b"}}}))
	head := func(rev int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: rev} }
	named := &pb.Member{ID: 2, Name: "two", ClientURLs: []string{"c"}}
	for i, c := range []struct {
		asked  proto.Message
		answer proto.Message
		leases []leaseChange
	}{
		{&pb.LeaseGrantRequest{ID: 5, TTL: 60}, &pb.LeaseGrantResponse{Header: head(1), ID: 5, TTL: 60}, []leaseChange{{ID: 5, Kind: leaseGranted, TTL: 60}}},
		{&pb.PutRequest{Key: []byte("k"), Value: []byte("v"), Lease: 5}, &pb.PutResponse{Header: head(2)}, nil},
		{&pb.PutRequest{Key: []byte("l")}, &pb.PutResponse{Header: head(3)}, nil},
		{&pb.DeleteRangeRequest{Key: []byte("l")}, &pb.DeleteRangeResponse{Header: head(4), Deleted: 1}, nil},
		{&pb.TxnRequest{}, &pb.TxnResponse{Header: head(4), Succeeded: true}, nil},
		{&pb.CompactionRequest{Revision: 3}, &pb.CompactionResponse{Header: head(4)}, nil},
		{&pb.LeaseRevokeRequest{ID: 5}, &pb.LeaseRevokeResponse{Header: head(5)}, []leaseChange{{ID: 5, Kind: leaseGone}}},
		{named, named, nil},
		{wrapperspb.String("all"), wrapperspb.String("all"), nil},
		{AddMember(9, []string{"z"}, true), &pb.MemberListResponse{Header: head(5), Members: []*pb.Member{
			{ID: 1, PeerURLs: []string{"a"}}, {ID: 2, Name: "two", PeerURLs: []string{"b"}, ClientURLs: []string{"c"}}, {ID: 9, PeerURLs: []string{"z"}, IsLearner: true},
		}}, nil},
		{AddMember(8, []string{"y"}, false), &pb.MemberListResponse{Header: head(5), Members: []*pb.Member{
			{ID: 1, PeerURLs: []string{"a"}}, {ID: 2, Name: "two", PeerURLs: []string{"b"}, ClientURLs: []string{"c"}}, {ID: 8, PeerURLs: []string{"y"}}, {ID: 9, PeerURLs: []string{"z"}, IsLearner: true},
		}}, nil},
	} {
		in, results := applyOne(t, a, 1, 7, uint64(100+i), c.asked)
		if len(results) != 1 || results[0].ID != uint64(100+i) || results[0].Index != uint64(2+i) || results[0].Err != nil || !proto.Equal(results[0].Response, c.answer) {
			t.Errorf("%T is answered %+v, want %v of entry %d", c.asked, results, c.answer, 2+i)
		}
		if !reflect.DeepEqual(in.Leases, c.leases) || in.Index != uint64(2+i) || in.Term != 2 || !reflect.DeepEqual(in.Batches, []batchFate{{Seq: uint64(2 + i)}}) {
			t.Errorf("%T: %+v is told, want %+v of entry %d", c.asked, in, c.leases, 2+i)
		}
	}
	put := &pb.PutRequest{Key: []byte("k")}
	for name, c := range map[string]struct {
		from     machine.NodeID
		boot, id uint64
		fates    int
	}{"another member's": {2, 7, 5, 0}, "an earlier life's": {1, 6, 5, 0}, "the leader's own": {1, 7, 0, 1}} {
		if in, results := applyOne(t, a, c.from, c.boot, c.id, put); len(results) > 0 || len(in.Batches) != c.fates {
			t.Errorf("%s request: results %+v, fates %+v", name, results, in.Batches)
		}
	}
	if in, results := a.Take(); len(in.Leases)+len(in.Batches)+len(results) > 0 {
		t.Errorf("%+v and %+v are told twice", in, results)
	}
}

// A state that is read from a snapshot is released as far as the snapshot says, which is never more
// than it holds; and nothing that was applied before is told behind it.
func TestASnapshotSaysWhatIsReleased(t *testing.T) {
	a := NewApplier(1, 7)
	a.Found(FoundedBy([]*pb.Member{{ID: 1, PeerURLs: []string{"a"}}}))
	for _, c := range []struct{ released, want uint64 }{{1, 1}, {2, 2}, {50, 4}} {
		applyOne(t, a, 1, 7, 5, &pb.PutRequest{Key: []byte("k")})
		a.Released(c.released)
		if got := a.Restored().Released; got != c.want {
			t.Errorf("at %d, with %d released: a state that is released up to %d, want %d", a.Index(), c.released, got, c.want)
		}
		var b bytes.Buffer
		snap := a.Snapshot()
		if _, err := snap.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		snap.Release()
		if snap.released != c.want {
			t.Errorf("at %d, with %d released: a snapshot says that %d are, want %d: what comes behind it is not", a.Index(), c.released, snap.released, c.want)
		}
		to := NewApplier(1, 7)
		index, term := uint64(2), uint64(2)
		body, err := EncodeRequest(&pb.LeaseGrantRequest{ID: 5, TTL: 60})
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Apply(&raftpb.Entry{Index: &index, Term: &term, Data: (&batch{Term: 2, From: 1, Boot: 7, Seq: 1, Requests: []Propose{{ID: 9, Body: body}}}).encode()}); err != nil {
			t.Fatal(err)
		}
		to.Store().Pause = func() {}
		if err := to.Restore(&b, snap.Index, snap.Term); err != nil {
			t.Fatal(err)
		}
		if to.Store().Pause == nil {
			t.Error("behind a snapshot long work pauses for nobody, as heartbeats need it to")
		}
		if got := to.Restored(); got.Released != c.want || got.Index != a.Index() || got.Term != 2 {
			t.Errorf("a snapshot of %d, with %d released: read as one of %d that is released up to %d, want %d", a.Index(), c.released, got.Index, got.Released, c.want)
		}
		if in, results := to.Take(); len(in.Leases)+len(in.Batches)+len(results) > 0 {
			t.Errorf("behind a snapshot %+v and %+v are told, of a state before it", in, results)
		}
	}
}

// These bytes are on disks, and on their way to other members.
func TestBytesOfASnapshot(t *testing.T) {
	a := NewApplier(1, 7)
	a.Found(FoundedBy([]*pb.Member{{ID: 1, PeerURLs: []string{"a"}}}))
	a.roster.Removed = []uint64{300}
	applyOne(t, a, 1, 7, 5, wrapperspb.String("all"))
	a.Released(2)
	snap := a.Snapshot()
	defer snap.Release()
	var b bytes.Buffer
	if _, err := snap.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	want := "00000007" + "1205" + "0801" + "1a0161" + // the members
		"00000003" + "616c6c" + // the policy
		"00000000" + // the keys' holders
		"00000001" + "02" + // up to where it is released
		"00000008" + "01ac02" + "01" + "01" + "0101" + "00" // the removed, and the memberships
	if got := hex.EncodeToString(b.Bytes()); !strings.HasPrefix(got, want) {
		t.Errorf("a snapshot begins with\n%s, want\n%s", got[:min(len(got), len(want))], want)
	}
}
