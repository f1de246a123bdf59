package etcdapi

import (
	"context"
	"errors"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/tenure-lease/tenure/kv"
	"github.com/tenure-lease/tenure/watch"
)

// Lock and Election are built as the recipes of etcd's client: a contender puts
// the key NAME/LEASE with its lease, and whose key under NAME/ was created first
// is the holder. Here they run beside the state, so that waiting costs no calls.

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

// lookup reads the published state.
func (s *Server) lookup(r *pb.RangeRequest) (kvs []*mvccpb.KeyValue, revision int64, err error) {
	for {
		resp, err := s.backend.View().Range(r)
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
		if err := s.backend.Barrier(ctx); err != nil {
			return 0, err
		}
	}
	ws := s.backend.Watches().NewStream(0)
	defer ws.Close()
	ahead := holderOf(name)
	ahead.SortOrder = pb.RangeRequest_DESCEND // only the next before us matters
	ahead.MaxCreateRevision = mine - 1
	var after int64 // our own key is watched from here on
	for {
		kvs, revision, err := s.lookup(ahead)
		if err != nil {
			return 0, err
		}
		own, now, err := s.lookup(&pb.RangeRequest{Key: key})
		if err != nil {
			return 0, err
		}
		if len(own) == 0 || own[0].CreateRevision != mine {
			return 0, gone
		}
		if len(kvs) == 0 {
			return now, nil
		}
		if after == 0 {
			after = now + 1
			if err := ws.Create(ctx, deletion(key, after)); err != nil {
				return 0, err
			}
		}
		if err := ws.Create(ctx, deletion(kvs[0].Key, revision+1)); err != nil {
			return 0, err
		}
		if err := awaitEvent(ctx, ws); err != nil {
			return 0, err
		}
	}
}

// deletion is the request to watch for the end of a key.
func deletion(key []byte, from int64) *pb.WatchCreateRequest {
	return &pb.WatchCreateRequest{
		Key: key, StartRevision: from,
		Filters: []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT},
	}
}

// awaitEvent returns when something happened that the stream watches for, or
// when a watch ended by compaction, after which it takes another look.
func awaitEvent(ctx context.Context, ws *watch.Stream) error {
	for {
		r, err := ws.Next(ctx)
		if err != nil {
			return err
		}
		if len(r.Events) > 0 || r.Canceled {
			return nil
		}
	}
}
