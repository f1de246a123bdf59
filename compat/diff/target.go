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

// Target is one of the two servers: one member or several.
type Target struct {
	Name    string
	conns   []*grpc.ClientConn // to each member
	granted []int64            // leases whose ID the server chose, in order

	compacted int64 // revision of the last compaction made through this target
}

// callTimeout is far more than any call takes; a server that hangs differs.
const callTimeout = 10 * time.Second

// Dial connects to the members of a server, each at host:port, the leader first.
// Options may interpose on the calls.
func Dial(name string, endpoints []string, options ...grpc.DialOption) (*Target, error) {
	options = append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	t := &Target{Name: name}
	for _, endpoint := range endpoints {
		conn, err := grpc.NewClient(endpoint, options...)
		if err != nil {
			t.Close()
			return nil, err
		}
		t.conns = append(t.conns, conn)
	}
	return t, nil
}

// Close closes the connections.
func (t *Target) Close() {
	for _, conn := range t.conns {
		conn.Close()
	}
}

// conn is the connection to a member, by the number that a step gives.
func (t *Target) conn(member int) *grpc.ClientConn { return t.conns[member%len(t.conns)] }

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

func (r reply) equal(o reply) bool {
	return r.err == o.err && (proto.Equal(r.msg, o.msg) || sameTime(r.msg, o.msg))
}

// call makes a call of any kind but Watch, at a store of the given revision.
func (t *Target) call(ctx context.Context, s Step, revision int64) reply {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := resolve(s.Req, revision, t.granted)
	msg := newReply(s.Method)
	conn := t.conn(s.Member)
	var err error
	if local(req) {
		err = t.catchUp(ctx, s.Member)
	}
	switch {
	case err != nil:
	case s.Method == methodRangeStream:
		err = rangeStream(ctx, conn, req, msg.(*pb.RangeResponse))
	case s.Method == methodKeepAlive:
		err = keepAlive(ctx, conn, req, msg)
	default:
		err = conn.Invoke(ctx, s.Method, req, msg)
	}
	if err != nil {
		st := status.Convert(err)
		return reply{err: fmt.Sprintf("%s: %s", st.Code(), st.Message())}
	}
	if grant, ok := req.(*pb.LeaseGrantRequest); ok && grant.ID == 0 {
		t.granted = append(t.granted, msg.(*pb.LeaseGrantResponse).ID)
	}
	normalize(msg, t.granted)
	if len(t.conns) > 1 {
		normalizeLag(msg, revision)
	}
	return reply{msg: msg}
}

// rangeStream joins the chunks into one response.
func rangeStream(ctx context.Context, conn *grpc.ClientConn, req proto.Message, joined *pb.RangeResponse) error {
	stream, err := pb.NewKVClient(conn).RangeStream(ctx, req.(*pb.RangeRequest))
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
func keepAlive(ctx context.Context, conn *grpc.ClientConn, req, msg proto.Message) error {
	stream, err := pb.NewLeaseClient(conn).LeaseKeepAlive(ctx)
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
