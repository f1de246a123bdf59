package replica

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"github.com/tenure-lease/tenure/internal/state/keyspan"
	"github.com/tenure-lease/tenure/internal/state/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// applyOne applies an entry with one request, and returns the Applier's report.
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

// Each request is answered at its proposer, in the life that proposed it. Its effects on leases are
// reported once.
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

// A request that is refused is answered with its error, and changes nothing: neither keys, nor leases, nor the
// members, nor how the cluster reads.
func TestWhatARequestIsRefusedWith(t *testing.T) {
	for name, c := range map[string]struct {
		asked proto.Message
		want  error // nil: any
	}{
		"a put with an unknown lease":         {&pb.PutRequest{Key: []byte("k"), Lease: 9}, kv.ErrLeaseNotFound},
		"a put of a part of no key":           {&pb.PutRequest{Key: []byte("none"), IgnoreValue: true}, kv.ErrKeyNotFound},
		"a put without a key":                 {&pb.PutRequest{}, nil},
		"a deletion without a key":            {&pb.DeleteRangeRequest{}, nil},
		"a transaction that cannot be":        {&pb.TxnRequest{Success: []*pb.RequestOp{putOp(&pb.PutRequest{Key: []byte("k"), Lease: 9})}}, kv.ErrLeaseNotFound},
		"a compaction of the future":          {&pb.CompactionRequest{Revision: 99}, kv.ErrFutureRevision},
		"a compaction again":                  {&pb.CompactionRequest{Revision: 2}, kv.ErrCompacted},
		"a lease that there is":               {&pb.LeaseGrantRequest{ID: 5, TTL: 60}, kv.ErrLeaseExists},
		"the end of a lease that is not":      {&pb.LeaseRevokeRequest{ID: 9}, kv.ErrLeaseNotFound},
		"a policy that nobody knows":          {wrapperspb.String("sometimes"), nil},
		"a division of keys that is garbage":  {wrapperspb.Bytes([]byte{0xff}), nil},
		"a division of keys that is a policy": {wrapperspb.Bytes([]byte("all")), nil},
	} {
		a := NewApplier(1, 7)
		a.Found(FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}}))
		for _, m := range []proto.Message{&pb.LeaseGrantRequest{ID: 5, TTL: 60}, &pb.PutRequest{Key: []byte("k")}, &pb.CompactionRequest{Revision: 2}, wrapperspb.Bytes(division(t).Encode())} {
			if _, results := applyOne(t, a, 1, 7, 1, m); results[0].Err != nil {
				t.Fatal(results[0].Err)
			}
		}
		revision, setting := a.Store().Revision(), a.setting
		in, results := applyOne(t, a, 1, 7, 5, c.asked)
		if len(results) != 1 || results[0].ID != 5 || results[0].Index != 6 || results[0].Err == nil || results[0].Response != nil || c.want != nil && !errors.Is(results[0].Err, c.want) {
			t.Errorf("%s is answered %+v, want the error %v and nothing else", name, results, c.want)
		}
		if got := a.Store().Revision(); got != revision || len(in.Leases) > 0 || a.setting != setting || in.ReadCells != setting.cells || len(in.Roster.Members) != 2 {
			t.Errorf("%s leaves revision %d of %d, tells of leases %+v, and reads are by %+v, want %+v", name, got, revision, in.Leases, a.setting, setting)
		}
	}
}

// A state that is read from a snapshot is released as far as the snapshot says, and never beyond its
// own end. Nothing that was applied before the snapshot is reported after it.
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

// The format of a snapshot is on disks and in transfers to other members, so it does not change.
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

// The effects of entries on leases, on the setting and on the members are reported in full. A change
// of a lease that does not exist is not reported.
func TestWhatEntriesHaveDoneIsTold(t *testing.T) {
	a := NewApplier(1, 7)
	a.Found(FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}}))
	cells := division(t)
	own := func(kind byte, ids ...int64) *raftpb.Entry {
		list := listOf(ids)
		for _, c := range list.Checkpoints {
			if kind == kindCheckpoint {
				c.Remaining_TTL = 3000
			}
		}
		return entryOf(a.Index()+1, bodyOf(t, kind, list))
	}
	request := func(m proto.Message) *raftpb.Entry {
		body, err := EncodeRequest(m)
		if err != nil {
			t.Fatal(err)
		}
		return entryOf(a.Index()+1, body)
	}
	for _, c := range []struct {
		name   string
		entry  func() *raftpb.Entry
		leases []leaseChange
	}{
		{"a grant", func() *raftpb.Entry { return request(&pb.LeaseGrantRequest{ID: 5, TTL: 60}) }, []leaseChange{{ID: 5, Kind: leaseGranted, TTL: 60}}},
		{"a grant again", func() *raftpb.Entry { return request(&pb.LeaseGrantRequest{ID: 5, TTL: 90}) }, nil},
		{"another grant", func() *raftpb.Entry { return request(&pb.LeaseGrantRequest{ID: 6, TTL: 30}) }, []leaseChange{{ID: 6, Kind: leaseGranted, TTL: 30}}},
		{"checkpoints", func() *raftpb.Entry { return own(kindCheckpoint, 9, 5) }, []leaseChange{{ID: 5, Kind: leaseCheckpointed, Checkpoint: 3000}}},
		{"expiries", func() *raftpb.Entry { return own(kindExpire, 9, 6) }, []leaseChange{{ID: 6, Kind: leaseGone}}},
		{"a revocation of none", func() *raftpb.Entry { return request(&pb.LeaseRevokeRequest{ID: 6}) }, nil},
		{"a policy", func() *raftpb.Entry { return request(wrapperspb.String("static/key")) }, nil},
		{"a division", func() *raftpb.Entry { return request(wrapperspb.Bytes(cells.Encode())) }, nil},
		{"no such policy", func() *raftpb.Entry { return request(wrapperspb.String("some")) }, nil},
	} {
		if err := a.Apply(c.entry()); err != nil {
			t.Fatal(err)
		}
		if in, _ := a.Take(); !reflect.DeepEqual(in.Leases, c.leases) {
			t.Errorf("%s: of leases it is told %+v, want %+v", c.name, in.Leases, c.leases)
		}
	}
	in, _ := a.Take()
	state := a.Restored()
	for name, got := range map[string]readSetting{"an Applied": {in.ReadPolicy, in.ReadCells}, "a state": {state.ReadPolicy, state.ReadCells}} {
		if got.policy != "static/key" || got.cells == nil || !got.cells.Equal(cells) {
			t.Errorf("%s says that the policy is %q and the holders are %v, want static/key and %v", name, got.policy, got.cells, cells)
		}
	}
	if want := []leaseChange{{ID: 5, Kind: leaseGranted, TTL: 60, Checkpoint: 3000}}; !reflect.DeepEqual(state.Leases, want) {
		t.Errorf("a state has the leases %+v, want %+v", state.Leases, want)
	}
	if in.LeaseKeys == nil || state.LeaseKeys == nil || len(in.Roster.Members) != 2 || len(state.Roster.Members) != 2 {
		t.Errorf("of the keys of leases and the members it is told %+v, and the state has %+v", in, state)
	}
}

// A read that only takes a place in the log has no effect, and its answer is empty. A change of the
// members counts from its own entry on. It is answered in the life that asked for it.
func TestEntriesThatOnlyTakeAPlace(t *testing.T) {
	a := NewApplier(1, 7)
	a.Found(FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}}))
	e := entryOf(2)
	e.Data = (&batch{Term: e.GetTerm(), From: 1, Boot: 7, Seq: 3, Requests: []Propose{{ID: 4, Body: EncodeRead(keyspan.Set{{Key: []byte("k")}})}}}).encode()
	if err := a.Apply(e); err != nil {
		t.Fatal(err)
	}
	if _, results := a.Take(); !reflect.DeepEqual(results, []Result{{ID: 4, Index: 2}}) || a.Store().Revision() != 1 {
		t.Errorf("a read that takes a place in the log is answered %+v at revision %d, want nothing, at 1", results, a.Store().Revision())
	}
	in, results := applyOne(t, a, 1, 6, 5, AddMember(9, []string{"z"}, true))
	if len(results)+len(in.Batches) > 0 {
		t.Errorf("a change that an earlier life has asked for: results %+v, fates %+v", results, in.Batches)
	}
	if in, results = applyOne(t, a, 2, 7, 5, AddMember(8, []string{"y"}, false)); len(results)+len(in.Batches) > 0 {
		t.Errorf("a change that another member has asked for: results %+v, fates %+v", results, in.Batches)
	}
	if now := in.Roster.Memberships.Newest(); now.Index != 4 || len(now.Learners) != 1 {
		t.Errorf("a change by entry 4 makes the membership %+v, want one that counts from 4 on", now)
	}
}

// An entry that this version cannot read, or that would leave a gap, is an error. It changes nothing.
func TestEntriesThatAreNotApplied(t *testing.T) {
	put := entryOf(2, putOf(t, "k"))
	kept := entryOf(2, putOf(t, "k"))
	keep(kept.Data)
	unreadable := AddMember(4, []string{"d"}, true)
	unreadable.Context = append(unreadable.Context, 0)
	next := entryOf(3, putOf(t, "k"))
	for name, c := range map[string]struct {
		e     *raftpb.Entry
		older bool
		ok    bool
	}{
		"a put":                           {put, false, true},
		"a put that is kept":              {kept, false, true},
		"a put, at an earlier version":    {put, true, true},
		"one kept, at an earlier version": {kept, true, false},
		"a first entry":                   {&raftpb.Entry{Index: new(uint64(2)), Term: new(uint64(2))}, true, true},
		"a gap":                           {next, false, false},
		"the entry before":                {&raftpb.Entry{Index: new(uint64(1)), Term: new(uint64(2))}, false, false},
		"a change of many members":        {&raftpb.Entry{Index: new(uint64(2)), Term: new(uint64(2)), Type: raftpb.EntryConfChangeV2.Enum()}, false, false},
		"a change of an unreadable one":   {encodedChange(t, 1, unreadable, unreadable), false, false},
	} {
		a := NewApplier(1, 7)
		a.Found(FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}}))
		if c.older {
			a.Older()
		}
		want := uint64(1)
		if c.ok {
			want = 2
		}
		err := a.Apply(c.e)
		if (err == nil) != c.ok || a.Index() != want || len(a.Roster().Members) != 2 {
			t.Errorf("%s: %v, applied up to %d, want applied: %v", name, err, a.Index(), c.ok)
		}
	}
}

// Two memberships count until the entry of the later one is both applied and released.
func TestMembershipsCountUntilTheyAreApplied(t *testing.T) {
	two := quorumlease.Memberships{{Index: 1, Voters: []machine.NodeID{1}}, {Index: 5, Voters: []machine.NodeID{1, 2}}}
	for _, tt := range []struct {
		index, released uint64
		want            int
	}{{4, 4, 2}, {4, 9, 2}, {5, 4, 2}, {5, 5, 1}, {9, 5, 1}} {
		a := NewApplier(1, 7)
		a.index, a.roster.Memberships = tt.index, two
		if a.Released(tt.released); len(a.roster.Memberships) != tt.want {
			t.Errorf("with entries applied up to %d and released up to %d, %d memberships count, want %d", tt.index, tt.released, len(a.roster.Memberships), tt.want)
		}
	}
}

// A snapshot states its size, and fails if the disk is full. A snapshot that claims too large a size is
// refused. Released entries stay released, unless a snapshot of another state replaces this one: then its
// position and term count.
func TestSnapshotsAsTheyAreWritten(t *testing.T) {
	a := NewApplier(1, 7)
	a.Found(FoundedBy([]*pb.Member{{ID: 1}}))
	for range 3 {
		applyOne(t, a, 1, 7, 5, &pb.PutRequest{Key: []byte("k")})
	}
	a.Released(3)
	if a.Released(2); a.Restored().Released != 3 {
		t.Errorf("released up to 3, then told up to 2: it is %d", a.Restored().Released)
	}
	snap := a.Snapshot()
	defer snap.Release()
	var b bytes.Buffer
	n, err := snap.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Errorf("a snapshot of %d bytes says it has %d, %v", b.Len(), n, err)
	}
	for _, room := range []int{0, 5, b.Len() - 1} {
		full := &fullDisk{room: room}
		if n, err := snap.WriteTo(full); !errors.Is(err, errFull) || n != int64(room) {
			t.Errorf("on a disk with room for %d bytes, %d are written, %v", room, n, err)
		}
	}
	to := NewApplier(1, 7)
	for range 6 {
		applyOne(t, to, 1, 7, 5, &pb.LeaseGrantRequest{ID: int64(to.Index()), TTL: 60})
	}
	to.Released(6)
	if err := to.Restore(bytes.NewReader(b.Bytes()), 4, 9); err != nil {
		t.Fatal(err)
	}
	if got := to.Restored(); got.Index != 4 || got.Term != 9 || got.Released != 3 || len(got.Leases) != 0 {
		t.Errorf("a state that is replaced by one of entry 4 of term 9, released up to 3, is %+v", got)
	}
	if in, _ := to.Take(); in.Index != 4 || in.Term != 9 {
		t.Errorf("behind a snapshot of entry 4 of term 9, entry %d of term %d is told", in.Index, in.Term)
	}
	much := append(binary.BigEndian.AppendUint32(nil, maxSectionBytes+1), make([]byte, maxSectionBytes+1)...)
	if _, err := readSection(bytes.NewReader(much)); err == nil || !strings.Contains(err.Error(), "a section of") {
		t.Errorf("a section of more than %d bytes is read: %v", maxSectionBytes, err)
	}
	if p, err := readSection(bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, 3), "abcd"...))); string(p) != "abc" || err != nil {
		t.Errorf("a section of 3 bytes is %q, %v", p, err)
	}
}

// fullDisk has room for some bytes.
type fullDisk struct{ room int }

var errFull = errors.New("the disk is full")

func (f *fullDisk) Write(p []byte) (int, error) {
	if n := f.room; n < len(p) {
		f.room = 0
		return n, errFull
	}
	f.room -= len(p)
	return len(p), nil
}

// A cluster may begin with a state. Its snapshot is behind Genesis, and all of it may be seen.
func TestAClusterThatBeginsWithAState(t *testing.T) {
	store := kv.New()
	if _, err := store.Put(&pb.PutRequest{Key: []byte("k"), Value: []byte("v")}); err != nil {
		t.Fatal(err)
	}
	snap := FoundingSnapshot(FoundedBy([]*pb.Member{{ID: 1}, {ID: 2}}), store, nil)
	var buf bytes.Buffer
	n, err := snap.WriteTo(&buf)
	if err != nil || n != int64(buf.Len()) {
		t.Fatalf("a snapshot of %d bytes is said to have %d, %v", buf.Len(), n, err)
	}
	a := NewApplier(1, 7)
	if err := a.Restore(&buf, snap.Index, snap.Term); err != nil {
		t.Fatal(err)
	}
	in := a.Restored()
	if in.Index != 2 || in.Term != 1 || in.Released != 2 || len(in.Roster.Members) != 2 || in.UsersUsed || a.Store().Revision() != store.Revision() {
		t.Errorf("a cluster begins with entry %d of term %d, released up to %d, and %d members, at revision %d", in.Index, in.Term, in.Released, len(in.Roster.Members), a.Store().Revision())
	}
	snap.Release()
}

// A batch that is found under another term than it was meant for changes nothing, at any member. Only its sender,
// in the life in which it sent it, hears of its fate.
func TestBatchesOfAnotherTerm(t *testing.T) {
	for _, tt := range []struct {
		name    string
		from    machine.NodeID
		boot    uint64
		term    uint64 // that it was meant for, of 5
		applied bool
		fates   []batchFate
		results int
	}{
		{"its own", 1, 7, 5, true, []batchFate{{Seq: 3}}, 1},
		{"its own, of another term", 1, 7, 4, false, []batchFate{{Seq: 3, Refused: true}}, 0},
		{"of an earlier life", 1, 6, 5, true, nil, 0},
		{"of an earlier life, of another term", 1, 6, 4, false, nil, 0},
		{"another's", 2, 7, 5, true, nil, 0},
		{"another's, of another term", 2, 7, 4, false, nil, 0},
		{"another's, of a later term", 2, 7, 6, false, nil, 0},
	} {
		a := NewApplier(1, 7)
		b := &batch{Term: tt.term, From: tt.from, Boot: tt.boot, Seq: 3, Requests: []Propose{{ID: 1, Body: putOf(t, "k")}}}
		before := a.Store().Revision()
		if err := a.Apply(&raftpb.Entry{Index: new(uint64(2)), Term: new(uint64(5)), Data: b.encode()}); err != nil {
			t.Fatal(err)
		}
		in, results := a.Take()
		if applied := a.Store().Revision() > before; applied != tt.applied || !reflect.DeepEqual(in.Batches, tt.fates) || len(results) != tt.results || in.Index != 2 || in.Term != 5 {
			t.Errorf("a batch %s is applied: %v, with the fates %+v and %d results; want %v, %+v, %d", tt.name, applied, in.Batches, len(results), tt.applied, tt.fates, tt.results)
		}
	}
}

// The end of a snapshot is told to the store, which holds its keys until then.
func TestASnapshotIsReleased(t *testing.T) {
	n := 0
	if (Snapshot{release: func() { n++ }}).Release(); n != 1 {
		t.Errorf("the store is told %d times that a snapshot is done with", n)
	}
}
