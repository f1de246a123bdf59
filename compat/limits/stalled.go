package limits

import (
	"context"
	"net"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A stalled client is one that sends a call and does not read its answer.
type stalled struct {
	conn *grpc.ClientConn
	stop atomic.Bool
	ends chan struct{}
}

// connect connects, and makes one call that is read, so that nothing but the answer comes later.
func connect(ctx context.Context, endpoint string) (*stalled, error) {
	s := &stalled{ends: make(chan struct{})}
	conn, err := grpc.NewClient("passthrough:///"+endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)), grpc.WithInitialWindowSize(1<<30), grpc.WithInitialConnWindowSize(1<<30),
		grpc.WithContextDialer(func(ctx context.Context, at string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", at)
			return &silent{c, s}, err
		}))
	if err != nil {
		return nil, err
	}
	s.conn = conn
	_, err = pb.NewKVClient(conn).Range(ctx, &pb.RangeRequest{Key: []byte("a"), CountOnly: true})
	return s, err
}

// close lets go of the connection.
func (s *stalled) close() {
	close(s.ends)
	s.conn.Close()
}

// silent is a connection that is not read any more once its client stops.
type silent struct {
	net.Conn
	of *stalled
}

func (c *silent) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.of.stop.Load() {
		<-c.of.ends
	}
	return n, err
}
