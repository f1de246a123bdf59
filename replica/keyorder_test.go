package replica

import (
	"testing"

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
	k.append(&raftpb.Entry{Term: &next, Index: &at})
	if got := k.latest().cells; !got.Equal(conf(1)) {
		t.Errorf("a division that was replaced is the latest: %v", got)
	}
	if all := []byte("k"); k.holds(2, keyspan.Set{{Key: all}}, at) {
		t.Error("member 2 holds a key by a division that was replaced")
	}
}
