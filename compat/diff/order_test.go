package diff

import (
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestLeaseOrder shows the one order of a list that differs: etcd's leader lists leases by when they end, and
// Tenure by their IDs. See docs/etcd.md.
func TestLeaseOrder(t *testing.T) {
	ctx := t.Context()
	etcd, tenure := sites(t, ctx)
	for _, of := range []struct {
		*site
		want []int64
	}{{etcd, []int64{5, 3, 9}}, {tenure, []int64{3, 5, 9}}} {
		leases := pb.NewLeaseClient(of.conns[0])
		for i, id := range []int64{9, 3, 5} {
			if _, err := leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: id, TTL: int64(9000 - 1000*i)}); err != nil {
				t.Fatal(err)
			}
		}
		list, err := leases.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, l := range list.Leases {
			got = append(got, l.ID)
		}
		if !slices.Equal(got, of.want) {
			t.Errorf("%s lists %v, not %v", of.Name, got, of.want)
		}
	}
}
