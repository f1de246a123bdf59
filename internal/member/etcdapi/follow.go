package etcdapi

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

// Lock and Election are built as the recipes of etcd's client: a contender puts the key
// NAME/LEASE with its lease, and the contender whose key under NAME/ was created first is
// the holder. Here they run beside the state, so that waiting costs no calls.

// contenders is the range of the keys under NAME/.
func contenders(name []byte) (key, end []byte) {
	key = append(append(make([]byte, 0, len(name)+1), name...), '/')
	end = append(append(make([]byte, 0, len(name)+1), name...), '/'+1)
	return key, end
}

// holderOf is the request for the contender that was first.
func holderOf(name []byte) *pb.RangeRequest {
	key, end := contenders(name)
	return &pb.RangeRequest{
		Key: key, RangeEnd: end, Limit: 1,
		SortTarget: pb.RangeRequest_CREATE, SortOrder: pb.RangeRequest_ASCEND,
	}
}

// lookup reads the published state, for a call that may have begun long ago.
func (s *Server) lookup(ctx context.Context, r *pb.RangeRequest) (kvs []*mvccpb.KeyValue, revision int64, err error) {
	for {
		view, err := s.backend.ViewFor(s.asNow(ctx), r)
		if err != nil {
			return nil, 0, err
		}
		resp, err := view.Range(r)
		if errors.Is(err, kv.ErrStaleView) {
			continue // compacted while we read
		}
		if err != nil {
			return nil, 0, err
		}
		return resp.Kvs, resp.Header.Revision, nil
	}
}

// awaitTurn returns when no contender that was created before revision mine
// exists any more, and the revision at which that is so. It returns gone if the
// contender's own key, created at mine, disappears meanwhile.
func (s *Server) awaitTurn(ctx context.Context, name, key []byte, mine int64, gone error) (revision int64, err error) {
	if s.backend.View().Revision() < mine { // in key order a write may be answered before
		// The published state may wait for holders of other keys. These keys can be read.
		resp, err := s.read(ctx, holderOf(name))
		if err != nil {
			return 0, err
		}
		if len(resp.Kvs) > 0 && string(resp.Kvs[0].Key) == string(key) && resp.Kvs[0].CreateRevision == mine {
			return max(mine, resp.Header.Revision), nil
		}
		if err := s.backend.Barrier(ctx); err != nil {
			return 0, err
		}
	}
	if !s.lines.has(name) { // the first one looks before it waits: the name may be free
		kvs, revision, err := s.lookup(ctx, holderOf(name))
		if err != nil {
			return 0, err
		}
		if len(kvs) > 0 && string(kvs[0].Key) == string(key) && kvs[0].CreateRevision == mine {
			return revision, nil
		}
	}
	t, err := s.lines.wait(ctx, name, key, mine)
	switch {
	case err == nil && t.gone:
		err = gone
	case err == nil: // after a wait the caller may have no rights any more
		err = s.permit(s.asNow(ctx), holderOf(name))
	}
	return t.revision, err
}
