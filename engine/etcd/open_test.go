package etcd_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/engine/etcd"
)

// TestOpenGivesUp: where nothing listens, where nobody answers, and where the answer is no. What
// is wrong differs, and so does for how long it makes sense to wait.
func TestOpenGivesUp(t *testing.T) {
	t.Parallel()
	listen := func(t *testing.T) net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	for name, tt := range map[string]struct {
		serve func(t *testing.T, l net.Listener)
		says  string
	}{
		"nothing listens": {func(_ *testing.T, l net.Listener) { l.Close() }, "cannot reach"},
		"nobody answers":  {func(*testing.T, net.Listener) {}, "no answer from"},
		"the answer is no": {func(t *testing.T, l net.Listener) {
			s := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
				return status.Error(codes.PermissionDenied, "not you")
			}))
			go s.Serve(l)
			t.Cleanup(s.Stop)
		}, "answers with an error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t)
			tt.serve(t, l)
			ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
			defer cancel()
			leaser, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{l.Addr().String()}})
			if err == nil {
				leaser.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want an error that says %q", err, tt.says)
			}
			if ctx.Err() != nil {
				t.Error("Open waited until its caller gave up, want five seconds at most")
			}
		})
	}
}
