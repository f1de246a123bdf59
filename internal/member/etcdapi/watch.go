package etcdapi

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// noStatePause is how long a watch is not refused for which there is no state yet.
const noStatePause = 100 * time.Millisecond

type watchServer struct {
	*Server
	pb.UnsafeWatchServer
}

// Watch serves the watches of one stream: this goroutine sends, another receives.
func (s *watchServer) Watch(stream pb.Watch_WatchServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	ws := s.backend.Watches().NewStream(s.config.progressInterval())
	defer ws.Close()
	rights := newWatchRights(s.Server, ws)
	go func() {
		// A client that only closes its side still wants its events.
		if err := receive(ctx, stream, ws, rights); !errors.Is(err, io.EOF) {
			cancel(err)
		}
	}()
	limit := s.config.MaxRequestBytes + WireOverhead
	for {
		r, err := ws.Next(ctx)
		if errors.Is(err, context.Canceled) {
			return rpctypes.ErrGRPCWatchCanceled
		}
		if err != nil {
			return toStatus(err)
		}
		if !rights.show(&r) {
			continue
		}
		frames, err := s.frames(&r, limit)
		if err != nil {
			return toStatus(err)
		}
		for i := range frames {
			if err := stream.SendMsg(&frames[i]); err != nil {
				return err
			}
		}
	}
}

// receive takes the client's requests until it sends no more, which is io.EOF.
func receive(ctx context.Context, stream pb.Watch_WatchServer, ws *watch.Stream, rights *watchRights) error {
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		switch r := req.RequestUnion.(type) {
		case *pb.WatchRequest_CreateRequest:
			if r.CreateRequest != nil {
				err = rights.create(ctx, r.CreateRequest)
			}
			if errors.Is(err, kv.ErrNoState) {
				select { // clients try again at once
				case <-time.After(noStatePause):
				case <-ctx.Done():
				}
			}
		case *pb.WatchRequest_CancelRequest:
			if r.CancelRequest != nil {
				err = ws.Cancel(ctx, r.CancelRequest.WatchId)
			}
		case *pb.WatchRequest_ProgressRequest:
			if r.ProgressRequest != nil {
				err = ws.Progress(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}
