package replica

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tenure-lease/tenure/keyspan"
	"github.com/tenure-lease/tenure/machine"
	"github.com/tenure-lease/tenure/placement"
	"github.com/tenure-lease/tenure/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// Who holds which keys is forgotten with the entry that said so, when another takes its
// place: once that place is committed, nobody may go by what stood there first.
func TestADivisionIsReplacedWithItsEntry(t *testing.T) {
	conf := func(holders placement.Set) *placement.Configuration {
		c, err := placement.New([]machine.NodeID{1, 2}, holders, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	body, err := EncodeRequest(wrapperspb.Bytes(conf(3).Encode()))
	if err != nil {
		t.Fatal(err)
	}
	term, next, at := uint64(2), uint64(3), uint64(6)
	var k keyOrder
	k.start(5, 5, readSetting{quorumlease.Static, conf(1)}, nil)
	k.append(&raftpb.Entry{Term: &term, Index: &at, Data: (&batch{Term: term, From: 1, Requests: []Propose{{Body: body}}}).encode()})
	if got := k.latest().cells; !got.Equal(conf(3)) {
		t.Fatalf("the entry divides nothing: %v", got)
	}
	k.truncate(at, at)
	if len(k.fences) > 0 {
		t.Errorf("everybody must have the entries %d still, and none of them is there", k.fences)
	}
	k.append(&raftpb.Entry{Term: &next, Index: &at})
	if got := k.latest().cells; !got.Equal(conf(1)) {
		t.Errorf("a division that was replaced is the latest: %v", got)
	}
	if all := []byte("k"); k.holds(2, keyspan.Set{{Key: all}}, at) {
		t.Error("member 2 holds a key by a division that was replaced")
	}
}

// A lease that ends behind a snapshot ends the keys that it has in the snapshot, and not those
// that it had before: a reader of one of them would not wait for it.
func TestKeysOfALeaseAreTheSnapshots(t *testing.T) {
	keysAre := func(key string) func(int64) [][]byte {
		return func(int64) [][]byte { return [][]byte{[]byte(key)} }
	}
	m := newStage(t).members[0]
	rl := &m.r.reads
	rl.keys.leaseKeys = keysAre("before")
	in := m.a.Restored()
	in.Index, in.Term, in.ReadPolicy, in.LeaseKeys = 10, 2, quorumlease.Static, keysAre("since")
	revoke := entryOf(11, bodyOf(t, kindRevoke, &pb.LeaseRevokeRequest{ID: 7}))
	rl.tail = []*raftpb.Entry{revoke}
	rl.restored(m.r, in)
	if log := rl.keys.log.Keys(); log.LastTouch(key("since")) != 11 || log.LastTouch(key("before")) == 11 {
		t.Errorf("the end of the lease touches the keys that it had before the snapshot")
	}
}
