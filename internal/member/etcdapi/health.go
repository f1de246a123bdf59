package etcdapi

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthServer says that a member serves from when it has a state to show. Until then it
// refuses what it can, and a balancer should pass it over; etcd takes no connections so
// early. A missing leader does not count, as with etcd: others would have none either, and
// serializable reads are answered.
type healthServer struct {
	*health.Server
	shown <-chan struct{}
}

var notServing = &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}

func (h *healthServer) early() bool {
	select {
	case <-h.shown:
		return false
	default:
		return true
	}
}

func (h *healthServer) Check(ctx context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	resp, err := h.Server.Check(ctx, r)
	if err == nil && h.early() {
		return notServing, nil
	}
	return resp, err
}

func (h *healthServer) List(ctx context.Context, r *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	resp, err := h.Server.List(ctx, r)
	if err == nil && h.early() {
		for service := range resp.Statuses {
			resp.Statuses[service] = notServing
		}
	}
	return resp, err
}

func (h *healthServer) Watch(r *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	if h.early() && r.Service == "" { // there is no other
		if err := stream.Send(notServing); err != nil {
			return err
		}
		select {
		case <-h.shown:
		case <-stream.Context().Done():
			return status.Error(codes.Canceled, "the stream has ended")
		}
	}
	return h.Server.Watch(r, stream)
}
