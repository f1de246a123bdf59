package etcd

import (
	"errors"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// granting is a server that answers each keep-alive with a TTL.
type granting struct {
	pb.UnimplementedLeaseServer
	ttl int64
}

func (g granting) LeaseKeepAlive(s pb.Lease_LeaseKeepAliveServer) error {
	r, err := s.Recv()
	if err != nil {
		return err
	}
	return s.Send(&pb.LeaseKeepAliveResponse{ID: r.ID, TTL: g.ttl})
}

// TestRenew: an answer without time says that the server does not know the lease.
func TestRenew(t *testing.T) {
	for ttl, want := range map[int64]error{3: nil, 0: errUnknownLease, -1: errUnknownLease} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := grpc.NewServer()
		pb.RegisterLeaseServer(s, granting{ttl: ttl})
		go s.Serve(l)
		defer s.Stop()
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Addr().String()}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		got, err := (&keepAlives{client: client, id: 7}).renew(t.Context())
		if !errors.Is(err, want) || err == nil && got != time.Duration(ttl)*time.Second {
			t.Errorf("the server answers with %d s, and the renewal with %v, %v; want %v", ttl, got, err, want)
		}
	}
}
