package diff

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// local reports whether a member may answer the request from its own state, so that one
// which lags answers out of the past. Watches are such, too.
func local(req proto.Message) bool {
	switch r := req.(type) {
	case *pb.RangeRequest:
		return r.Serializable
	case *pb.TxnRequest:
		for _, branch := range [][]*pb.RequestOp{r.Success, r.Failure} {
			for _, op := range branch {
				if !op.GetRequestRange().GetSerializable() {
					return false
				}
			}
		}
		return true
	case *pb.LeaseLeasesRequest:
		return true
	}
	return false
}

// catchUp waits until one of several members has applied what any of them has
// answered, which a linearizable read is for.
func (t *Target) catchUp(ctx context.Context, member int) error {
	if len(t.conns) == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := pb.NewKVClient(t.conn(member)).Range(ctx, &pb.RangeRequest{Key: []byte("a"), CountOnly: true})
	return err
}

// overtake does so by a call that anybody may make, although there are users. It costs etcd an entry of its log.
func (t *Target) overtake(ctx context.Context, member int) error {
	if len(t.conns) == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := pb.NewAuthClient(t.conn(member)).AuthStatus(ctx, &pb.AuthStatusRequest{})
	return err
}

// catchUp has the members of both streams catch up.
func (p *pair) catchUp(ctx context.Context) string {
	for _, s := range []*stream{p.a, p.b} {
		if err := s.target.catchUp(ctx, s.member); err != nil {
			return fmt.Sprintf("%s: %v", s.target.Name, err)
		}
	}
	return ""
}

// normalizeLag undoes, in place, that a member which forwards a call answers it
// under its own revision: it may be behind a store that is at the given one.
func normalizeLag(reply proto.Message, revision int64) {
	switch r := reply.(type) {
	case *pb.LeaseTimeToLiveResponse:
		r.Header.Revision = max(r.Header.Revision, revision)
	case *pb.LeaseKeepAliveResponse:
		r.Header.Revision = max(r.Header.Revision, revision)
	}
}
