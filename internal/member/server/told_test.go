package server

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/etcdapi"
	"github.com/tenure-lease/tenure/internal/member/node"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// What is told of read leases is what the replica knows, and of the member's own promises what it
// knows itself: a report that reached the leader may be older.
func TestToldOfReadLeases(t *testing.T) {
	life := func(member machine.NodeID, boot uint64) quorumlease.Lifetime {
		return quorumlease.Lifetime{Member: member, Boot: boot}
	}
	for name, c := range map[string]struct {
		leases node.ReadLeaseStatus
		want   etcdapi.ReadLeaseStatus
	}{
		"no policy yet": {want: etcdapi.ReadLeaseStatus{Policy: "off", Order: "strict"}},
		"alone": {
			leases: node.ReadLeaseStatus{Policy: quorumlease.All, Left: -1},
			want: etcdapi.ReadLeaseStatus{Policy: "all", Order: "strict", Left: math.MaxInt64,
				Holders: []etcdapi.ReadLeaseHolder{{Member: 1}}},
		},
		"held up": {
			leases: node.ReadLeaseStatus{Policy: quorumlease.Static, TTL: 3, Left: 2, Released: 7, Held: 4, HeldFor: time.Second,
				WaitsFor: []machine.NodeID{3}, Stalled: []machine.NodeID{2, 3}},
			want: etcdapi.ReadLeaseStatus{Policy: "static/key", Order: "key", TTL: 3, Left: 2, Released: 7, HeldUp: 4, Waiting: time.Second,
				WaitsFor: []uint64{3}, Stalled: []uint64{2, 3}, Holders: []etcdapi.ReadLeaseHolder{{Member: 1}}},
		},
		"its own, as others report": {
			leases: node.ReadLeaseStatus{Policy: quorumlease.All, Left: 2,
				Holdings: []quorumlease.Holding{{Lifetime: life(1, 4), Has: 6, Grantors: []machine.NodeID{2}}}},
			want: etcdapi.ReadLeaseStatus{Policy: "all", Order: "strict", Left: 2, Holders: []etcdapi.ReadLeaseHolder{
				{Member: 1, Boot: 4, Has: 6, Grantors: []uint64{2}},
			}},
		},
		"of others": {
			leases: node.ReadLeaseStatus{Policy: quorumlease.All,
				Holdings: []quorumlease.Holding{
					{Lifetime: life(2, 5), Has: 6, Grantors: []machine.NodeID{3, 2}},
					{Lifetime: life(3, 8), Has: 9, Grantors: []machine.NodeID{2, 1}}, // this member is no longer bound to it
					{Lifetime: life(3, 7), Has: math.MaxUint64, Grantors: []machine.NodeID{2}},
				},
				// Member 3 has started anew, and this member is bound to its new life only.
				Bound: []quorumlease.Lifetime{life(2, 5), life(3, 9), life(4, 1), life(5, 5)}},
			want: etcdapi.ReadLeaseStatus{Policy: "all", Order: "strict", Holders: []etcdapi.ReadLeaseHolder{
				{Member: 2, Boot: 5, Has: 6, Grantors: []uint64{1, 2, 3}},
				{Member: 3, Boot: 8, Has: 9, Grantors: []uint64{2}},
				{Member: 3, Boot: 9, Grantors: []uint64{1}},
				{Member: 4, Boot: 1, Grantors: []uint64{1}},
				{Member: 5, Boot: 5, Grantors: []uint64{1}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Committed = 11
			if got := told(node.Status{Commit: 11, ReadLeases: c.leases}, 1); !reflect.DeepEqual(got, c.want) {
				t.Errorf("told %+v\nwant %+v", got, c.want)
			}
		})
	}
}
