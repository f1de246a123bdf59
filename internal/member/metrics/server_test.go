package metrics

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"
)

// A server with the options has both its calls and its streams counted.
func TestServersAreCounted(t *testing.T) {
	m := New(Config{Versions: versions})
	s := grpc.NewServer(m.Options()...)
	healthpb.RegisterHealthServer(s, health.NewServer())
	if err := m.Add(member{}, s.GetServiceInfo()); err != nil {
		t.Fatal(err)
	}
	l := bufconn.Listen(1 << 20)
	go s.Serve(l)
	defer s.Stop()
	conn, err := grpc.NewClient("passthrough:member", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := healthpb.NewHealthClient(conn)
	for range 2 {
		if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	watch, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	got := scrape(t, m)
	wantLine(t, got, `grpc_server_handled_total{grpc_code="OK",grpc_method="Check",grpc_service="grpc.health.v1.Health",grpc_type="unary"} 2`)
	wantLine(t, got, `grpc_server_started_total{grpc_method="Watch",grpc_service="grpc.health.v1.Health",grpc_type="server_stream"} 1`)
	wantLine(t, got, `grpc_server_msg_received_total{grpc_method="Watch",grpc_service="grpc.health.v1.Health",grpc_type="server_stream"} 1`)
}
