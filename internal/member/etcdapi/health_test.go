package etcdapi

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// There is one service to ask for: any other is unknown, while a member has no state to show and
// later. A balancer that asks for a wrong name should hear so, and not that the member is down.
func TestHealthOfAnUnknownService(t *testing.T) {
	f := (&fake{store: kv.New()}).begin(t, watch.Config{}, kv.View{})
	h := grpc_health_v1.NewHealthClient(f.serve(t, Config{}).conn)
	unknown := &grpc_health_v1.HealthCheckRequest{Service: "etcdserverpb.KV"}
	for _, when := range []string{"early", "later"} {
		if got, err := h.Check(t.Context(), unknown); status.Code(err) != codes.NotFound {
			t.Errorf("%s, an unknown service: %v, %v, want NotFound", when, got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		changes, err := h.Watch(ctx, unknown)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := changes.Recv(); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
			t.Errorf("%s, an unknown service, watched: %v, %v, want that it is unknown", when, got, err)
		}
		cancel()
		f.publish()
	}
}

// sending is a stream of which only what it is sent counts.
type sending struct {
	contextOnly
	err error
}

func (s sending) Send(*grpc_health_v1.HealthCheckResponse) error { return s.err }

// A client that watches the health of a member without a visible state, and leaves, is
// forgotten.
func TestHealthWatchedEarlyEnds(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	h := &healthServer{shown: make(chan struct{})}
	for what, stream := range map[string]sending{
		"has left":      {contextOnly: contextOnly{ctx: gone}},
		"hears nothing": {contextOnly: contextOnly{ctx: t.Context()}, err: status.Error(codes.Canceled, "lost")},
	} {
		err := wantReturn(t, "the health of a watcher that "+what, func() error { return h.Watch(&grpc_health_v1.HealthCheckRequest{}, stream) })
		if status.Code(err) != codes.Canceled {
			t.Errorf("a watcher that %s: %v, want Canceled", what, err)
		}
	}
}

// The first that a watch of a serving member's health hears is that it serves, and not that it is down.
func TestHealthWatchedLater(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes, err := grpc_health_v1.NewHealthClient(serve(t, Config{}, watch.Config{}).conn).Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := changes.Recv(); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("the health of a member that serves: %v, %v, want that it serves", got, err)
	}
}
