package etcdapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// However many renewals a client sends on a stream, 64 of them are under way.
func TestRenewalsOfAStreamAreBounded(t *testing.T) {
	f := newFake(t, watch.Config{})
	var begun atomic.Int32
	f.keepAlive = func() func(context.Context) {
		begun.Add(1)
		return func(ctx context.Context) { <-ctx.Done() }
	}
	s := f.serve(t, Config{})
	stream, err := pb.NewLeaseClient(s.conn).LeaseKeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(5 * time.Second); begun.Load() < 64 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // for more, if they may
	if n := begun.Load(); n != 64 {
		t.Errorf("%d renewals of one stream are under way, want 64", n)
	}
}

// A client that pings without a pause loses its connection, also while a call is under way.
func TestPingsAreBounded(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	conn, err := s.listen.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const headers, settings, ping, endHeaders = 1, 4, 6, 4
	var out []byte
	frame := func(kind, flags byte, stream uint32, body []byte) {
		out = append(out, 0, byte(len(body)>>8), byte(len(body)), kind, flags)
		out = append(binary.BigEndian.AppendUint32(out, stream), body...)
	}
	var call []byte
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/grpc.health.v1.Health/Watch"}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		for i, text := range h {
			if i == 0 {
				call = append(call, 0) // a literal
			}
			call = append(append(call, byte(len(text))), text...)
		}
	}
	out = append(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"...)
	frame(settings, 0, 0, nil)
	frame(headers, endHeaders, 1, call) // whose request never comes
	for range 20 {
		frame(ping, 0, 0, make([]byte, 8))
	}
	if _, err := conn.Write(out); err != nil {
		t.Fatal(err)
	}
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	var in []byte
	for buf := make([]byte, 1<<10); ; {
		n, err := conn.Read(buf)
		in = append(in, buf[:n]...)
		if bytes.Contains(in, []byte("too_many_pings")) {
			return
		}
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) || n == 0 {
				t.Fatalf("a client that pings without a pause goes on: %v", err)
			}
		}
	}
}
