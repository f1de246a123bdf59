package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// failingStream is one whose messages end with an error.
type failingStream struct {
	grpc.ServerStream
	ctx context.Context
	err error
}

func (s failingStream) SendMsg(any) error        { return s.err }
func (s failingStream) RecvMsg(any) error        { return s.err }
func (s failingStream) Context() context.Context { return s.ctx }

// Of the streams of watches and of renewals failed messages are counted, each way. A client that leaves fails in nothing.
func TestFailuresOfStreamsAreCounted(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	services := map[string]grpc.ServiceInfo{
		"etcdserverpb.Watch": {Methods: []grpc.MethodInfo{{Name: "Watch", IsClientStream: true, IsServerStream: true}}},
		"etcdserverpb.Lease": {Methods: []grpc.MethodInfo{{Name: "LeaseKeepAlive", IsClientStream: true, IsServerStream: true}}},
		"etcdserverpb.KV":    {Methods: []grpc.MethodInfo{{Name: "RangeStream", IsServerStream: true}}},
	}
	m := New(Config{Versions: versions})
	if err := m.Add(member{}, services); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{t.Context(), nil, 0}, {t.Context(), io.EOF, 0}, {t.Context(), status.Error(codes.Canceled, ""), 0}, {t.Context(), status.Error(codes.DeadlineExceeded, ""), 0},
		{gone, errors.New("the connection is broken"), 0}, {t.Context(), errors.New("the connection is broken"), 1}, {t.Context(), status.Error(codes.Unavailable, ""), 2},
	} {
		for i, method := range []string{"/etcdserverpb.Watch/Watch", "/etcdserverpb.Lease/LeaseKeepAlive", "/etcdserverpb.KV/RangeStream"} {
			m.calls.stream(nil, failingStream{ctx: tt.ctx, err: tt.err}, &grpc.StreamServerInfo{FullMethod: method}, func(_ any, s grpc.ServerStream) error {
				for range i + 1 {
					s.SendMsg(nil)
				}
				return s.RecvMsg(nil)
			})
		}
		got := scrape(t, m)
		for i, api := range []string{"watch", "lease-keepalive"} {
			wantLine(t, got, fmt.Sprintf(`etcd_network_server_stream_failures_total{API="%s",Type="send"} %d`, api, (i+1)*tt.want))
			wantLine(t, got, fmt.Sprintf(`etcd_network_server_stream_failures_total{API="%s",Type="receive"} %d`, api, tt.want))
		}
	}
}
