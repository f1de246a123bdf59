package etcdapi

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// TestNothingToShow asks a member that has no state to publish yet.
func TestNothingToShow(t *testing.T) {
	f := &fake{store: kv.New()}
	if _, err := f.store.Put(&pb.PutRequest{Key: []byte("a"), Value: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	s := f.begin(t, watch.Config{}, kv.View{}).serve(t, Config{})
	ctx, get := t.Context(), &pb.RangeRequest{Key: []byte("a"), Serializable: true}
	if resp, err := s.kv().Range(ctx, get); status.Code(err) != codes.Unavailable {
		t.Errorf("a serializable get: %v, %v", resp, err)
	}
	if resp, err := s.kv().Txn(ctx, &pb.TxnRequest{Success: []*pb.RequestOp{rangeOp(get)}}); status.Code(err) != codes.Unavailable {
		t.Errorf("a serializable txn: %v, %v", resp, err)
	}
	w := s.watch(t)
	w.create(&pb.WatchCreateRequest{Key: []byte("a")})
	if resp, err := w.stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("a watch: %v, %v", resp, err)
	}
	if resp, err := pb.NewMaintenanceClient(s.conn).Status(ctx, &pb.StatusRequest{}); err != nil || resp.Header.Revision != 0 {
		t.Errorf("status: %v, %v, want it, and no revision", resp, err)
	}
	if resp, err := pb.NewClusterClient(s.conn).MemberList(ctx, &pb.MemberListRequest{}); err != nil || resp.Header.Revision != 0 || len(resp.Members) != 1 {
		t.Errorf("members: %v, %v, want them, and no revision", resp, err)
	}
	h := grpc_health_v1.NewHealthClient(s.conn)
	wantHealth := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got, err := h.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err != nil || got.Status != want {
			t.Errorf("health: %v, %v, want %v", got, err, want)
		}
		if got, err := h.List(ctx, &grpc_health_v1.HealthListRequest{}); err != nil || got.Statuses[""].GetStatus() != want {
			t.Errorf("health, as listed: %v, %v, want %v", got, err, want)
		}
	}
	wantHealth(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	changes, err := h.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := changes.Recv(); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health, watched: %v, %v, want not serving", got, err)
	}
	// Etcd's own client tries again until there is one, and then watches from there.
	c := s.client()
	watches := make(chan clientv3.WatchChan, 1)
	go func() { watches <- c.Watch(ctx, "a", clientv3.WithCreatedNotify()) }()
	read := make(chan error, 1)
	go func() {
		_, err := c.Get(ctx, "a", clientv3.WithSerializable())
		read <- err
	}()
	s.publish()
	wantHealth(grpc_health_v1.HealthCheckResponse_SERVING)
	if got, err := changes.Recv(); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health, watched: %v, %v, want serving", got, err)
	}
	events := <-watches
	if r, ok := <-events; !ok || !r.Created || r.Header.Revision != 2 {
		t.Errorf("the watch: %+v", r)
	}
	if err := <-read; err != nil {
		t.Errorf("the get: %v", err)
	}
	s.put("a", "2")
	if r := <-events; len(r.Events) != 1 || string(r.Events[0].Kv.Value) != "2" {
		t.Errorf("the watch: %+v, want what came after it", r)
	}
}
