package etcdapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

func TestMaintenance(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	s.put("a", "1")
	m, ctx := pb.NewMaintenanceClient(s.conn), t.Context()
	want := &pb.StatusResponse{
		Header: header(2), Version: "3.7.3", StorageVersion: "3.7.0",
		Leader: 11, RaftTerm: 33, RaftIndex: 44, RaftAppliedIndex: 43,
		DbSize: 1000, DbSizeInUse: 900, IsLearner: true, Errors: []string{"odd"}, DowngradeInfo: &pb.DowngradeInfo{},
	}
	got, err := m.Status(ctx, &pb.StatusRequest{})
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("status: %v, %v\nwant %v", got, err, want)
	}
	s.loseLeader(0)
	got, err = m.Status(ctx, &pb.StatusRequest{})
	if err != nil || got.Leader != 0 || len(got.Errors) != 2 || got.Errors[0] != "etcdserver: no leader" {
		t.Errorf("status without leader: %v, %v", got, err)
	}
	if d, err := m.Defragment(ctx, &pb.DefragmentRequest{}); err != nil || d.Header.Revision != 2 {
		t.Errorf("defragment: %v, %v, want it to do nothing", d, err)
	}
	if a, err := m.Alarm(ctx, &pb.AlarmRequest{}); err != nil || len(a.Alarms) != 0 {
		t.Errorf("alarms: %v, %v, want none", a, err)
	}
}

func TestMemberList(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	for i, linearizable := range []bool{false, true} {
		got, err := pb.NewClusterClient(s.conn).MemberList(t.Context(), &pb.MemberListRequest{Linearizable: linearizable})
		want := &pb.MemberListResponse{Header: header(1), Members: s.Members()}
		if err != nil || !proto.Equal(got, want) || s.barriers.Load() != int64(i) {
			t.Errorf("members: %v, %v after %d barriers\nwant %v after %d", got, err, s.barriers.Load(), want, i)
		}
	}
}

func TestMembersComeAndGo(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	c, ctx := pb.NewClusterClient(s.conn), t.Context()
	list := func() []*pb.Member { return s.Members() }
	add, err := c.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{"http://p2"}, IsLearner: true})
	want := &pb.MemberAddResponse{Header: header(1), Member: &pb.Member{ID: 12, PeerURLs: []string{"http://p2"}, IsLearner: true}, Members: list()}
	if err != nil || !proto.Equal(add, want) || len(want.Members) != 2 {
		t.Errorf("add: %v, %v\nwant %v", add, err, want)
	}
	promote, err := c.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: 12})
	if want := (&pb.MemberPromoteResponse{Header: header(1), Members: list()}); err != nil || !proto.Equal(promote, want) || want.Members[1].IsLearner {
		t.Errorf("promote: %v, %v\nwant %v", promote, err, want)
	}
	update, err := c.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: 12, PeerURLs: []string{"http://p3"}})
	if want := (&pb.MemberUpdateResponse{Header: header(1), Members: list()}); err != nil || !proto.Equal(update, want) || !slices.Equal(want.Members[1].PeerURLs, []string{"http://p3"}) {
		t.Errorf("update: %v, %v\nwant %v", update, err, want)
	}
	remove, err := c.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 12})
	if want := (&pb.MemberRemoveResponse{Header: header(1), Members: list()}); err != nil || !proto.Equal(remove, want) || len(want.Members) != 1 {
		t.Errorf("remove: %v, %v\nwant %v", remove, err, want)
	}
	if _, err := c.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 12}); !errors.Is(rpctypes.Error(err), rpctypes.ErrMemberNotFound) {
		t.Errorf("removed again: %v", err)
	}
}

// moving is a cluster in which something is written whenever its members change.
type moving struct {
	*fake
	t *testing.T
}

func (b moving) write() {
	if _, err := b.Propose(b.t.Context(), &pb.PutRequest{Key: []byte("k")}); err != nil {
		b.t.Error(err)
	}
}

func (b moving) AddMember(ctx context.Context, peerURLs []string, learner bool) (*pb.Member, []*pb.Member, error) {
	b.write()
	return b.fake.AddMember(ctx, peerURLs, learner)
}

func (b moving) RemoveMember(ctx context.Context, id uint64) ([]*pb.Member, error) {
	b.write()
	return b.fake.RemoveMember(ctx, id)
}

func (b moving) PromoteMember(ctx context.Context, id uint64) ([]*pb.Member, error) {
	b.write()
	return b.fake.PromoteMember(ctx, id)
}

func (b moving) UpdateMember(ctx context.Context, id uint64, peerURLs []string) ([]*pb.Member, error) {
	b.write()
	return b.fake.UpdateMember(ctx, id, peerURLs)
}

func (b moving) Barrier(context.Context) error { b.write(); return nil }

// ofMembers is an answer about members.
type ofMembers interface {
	GetHeader() *pb.ResponseHeader
	GetMembers() []*pb.Member
}

// Members are others by the time that a change is answered.
func (b moving) Members() []*pb.Member { return []*pb.Member{{ID: 99, Name: "later"}} }

// The header of an answer about members has the revision at which the change is in force, and the
// list of members the one of its barrier.
func TestMembersAreToldAtTheRevisionOfTheChange(t *testing.T) {
	f := newFake(t, watch.Config{})
	s, ctx := &clusterServer{Server: New(moving{f, t}, Config{})}, t.Context()
	for _, c := range []struct {
		name string
		call func() (ofMembers, error)
	}{
		{"add", func() (ofMembers, error) {
			return s.MemberAdd(ctx, &pb.MemberAddRequest{IsLearner: true})
		}},
		{"promote", func() (ofMembers, error) {
			return s.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: 12})
		}},
		{"update", func() (ofMembers, error) {
			return s.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: 12})
		}},
		{"remove", func() (ofMembers, error) {
			return s.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: 12})
		}},
		{"list", func() (ofMembers, error) {
			return s.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
		}},
	} {
		before := f.View().Revision()
		got, err := c.call()
		if err != nil || got.GetHeader().GetRevision() != before+1 || !proto.Equal(got.GetHeader(), header(before+1)) {
			t.Errorf("%s: %v, %v; want it at revision %d, of the change", c.name, got, err, before+1)
		}
		later := slices.ContainsFunc(got.GetMembers(), func(m *pb.Member) bool { return m.ID == 99 })
		if len(got.GetMembers()) == 0 || later != (c.name == "list") {
			t.Errorf("%s: it tells the members %v, want those that the change has left", c.name, got.GetMembers())
		}
	}
}

func TestHealthAndReflection(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	h := grpc_health_v1.NewHealthClient(s.conn)
	got, err := h.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v, want serving", got, err)
	}
	s.server.Shutdown()
	got, err = h.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || got.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health after shutdown: %v, %v, want not serving", got, err)
	}
	r, err := grpc_reflection_v1.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := &grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}
	if err := r.Send(list); err != nil {
		t.Fatal(err)
	}
	services, err := r.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"etcdserverpb.KV", "etcdserverpb.Watch", "etcdserverpb.Lease", "etcdserverpb.Cluster", "etcdserverpb.Maintenance",
		"etcdserverpb.Auth", "grpc.health.v1.Health", "v3lockpb.Lock", "v3electionpb.Election", "tenure.readlease.v1.ReadLease"} {
		if !strings.Contains(services.String(), want) {
			t.Errorf("reflection lists %v, want %s too", services, want)
		}
	}
	if err := r.CloseSend(); err != nil {
		t.Fatal(err)
	}
}
