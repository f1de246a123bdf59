package etcdapi

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Probes tell whether a member can read: not before it has a state to show.
func TestProbe(t *testing.T) {
	f := (&fake{store: kv.New()}).begin(t, watch.Config{}, kv.View{})
	s := New(f, Config{})
	if err := s.Probe(t.Context(), true); status.Code(err) != codes.Unavailable {
		t.Errorf("a probe of a member without a state: %v, want Unavailable", err)
	}
	f.publish()
	for _, serializable := range []bool{true, false} {
		if err := s.Probe(t.Context(), serializable); err != nil {
			t.Errorf("a probe, serializable %v: %v", serializable, err)
		}
	}
}

// HTTP and gRPC tell clients the same versions of a member.
func TestVersionsAgree(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := f.serve(t, Config{})
	st, err := pb.NewMaintenanceClient(s.conn).Status(t.Context(), &pb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if v := New(f, Config{}).Versions(); v.Server != st.Version || v.Storage != st.StorageVersion || v.Cluster != "3.7.0" { // of the minor version
		t.Errorf("versions by HTTP %+v, by gRPC %s and %s, want the same, and the cluster's 3.7.0", v, st.Version, st.StorageVersion)
	}
}
