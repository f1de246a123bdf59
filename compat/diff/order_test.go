package diff

import (
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestLeaseOrder shows the one order of a list that differs: etcd's leader lists leases by when they end and its followers
// in no order, and every member of Tenure by their IDs. See docs/etcd.md.
func TestLeaseOrder(t *testing.T) {
	ctx := t.Context()
	etcd, tenure := sites(t, ctx, 3)
	ids := []int64{9, 3, 5, 1 << 40, -7, 8}
	byEnd, byID := slices.Clone(ids), slices.Sorted(slices.Values(ids))
	slices.Reverse(byEnd)
	for _, of := range []*site{etcd, tenure} {
		for i, id := range ids {
			if _, err := pb.NewLeaseClient(of.conns[0]).LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: int64(9000 - 1000*i)}); err != nil {
				t.Fatal(err)
			}
		}
		for i, conn := range of.conns {
			if err := of.turn(ctx, i); err != nil {
				t.Fatal(err)
			}
			list, err := pb.NewLeaseClient(conn).LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
			if err != nil {
				t.Fatal(err)
			}
			var got []int64
			for _, l := range list.Leases {
				got = append(got, l.ID)
			}
			want := byID
			switch {
			case of == etcd && i == 0:
				want = byEnd
			case of == etcd:
				slices.Sort(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("member %d of %s lists %v, want %v", i, of.Name, got, want)
			}
		}
	}
}
