package diff

import (
	"context"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Target is one of the two servers.
type Target struct {
	Name    string
	conn    *grpc.ClientConn
	granted []int64 // leases whose ID the server chose, in order

	compacted int64 // revision of the last compaction made through this target
}

// callTimeout is far more than any call takes; a server that hangs differs.
const callTimeout = 10 * time.Second

// Dial connects to a server at host:port. Options may interpose on the calls.
func Dial(name, endpoint string, options ...grpc.DialOption) (*Target, error) {
	options = append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	conn, err := grpc.NewClient(endpoint, options...)
	if err != nil {
		return nil, err
	}
	return &Target{Name: name, conn: conn}, nil
}

// Close closes the connection.
func (t *Target) Close() { t.conn.Close() }

// reply is what a call gave, normalized; Msg is nil after an error.
type reply struct {
	msg proto.Message
	err string // code and text, empty for none
}

func (r reply) String() string {
	if r.err != "" {
		return r.err
	}
	return show(r.msg)
}

func (r reply) equal(o reply) bool { return r.err == o.err && proto.Equal(r.msg, o.msg) }

// call makes a call of any kind but Watch, at a store of the given revision.
func (t *Target) call(ctx context.Context, s Step, revision int64) reply {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := resolve(s.Req, revision, t.granted)
	msg := newReply(s.Method)
	var err error
	switch s.Method {
	case methodRangeStream:
		err = t.rangeStream(ctx, req, msg.(*pb.RangeResponse))
	case methodKeepAlive:
		err = t.keepAlive(ctx, req, msg)
	default:
		err = t.conn.Invoke(ctx, s.Method, req, msg)
	}
	if err != nil {
		st := status.Convert(err)
		return reply{err: fmt.Sprintf("%s: %s", st.Code(), st.Message())}
	}
	if grant, ok := req.(*pb.LeaseGrantRequest); ok && grant.ID == 0 {
		t.granted = append(t.granted, msg.(*pb.LeaseGrantResponse).ID)
	}
	normalize(msg, t.granted)
	return reply{msg: msg}
}

// rangeStream joins the chunks into one response.
func (t *Target) rangeStream(ctx context.Context, req proto.Message, joined *pb.RangeResponse) error {
	stream, err := pb.NewKVClient(t.conn).RangeStream(ctx, req.(*pb.RangeRequest))
	if err != nil {
		return err
	}
	for {
		chunk, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		proto.Merge(joined, chunk.GetRangeResponse())
	}
}

// keepAlive is a stream of one request.
func (t *Target) keepAlive(ctx context.Context, req, msg proto.Message) error {
	stream, err := pb.NewLeaseClient(t.conn).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(req.(*pb.LeaseKeepAliveRequest)); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return stream.RecvMsg(msg)
}
