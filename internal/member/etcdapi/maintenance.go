package etcdapi

import (
	"context"
	"errors"
	"runtime/debug"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/state/kv"
)

type maintenanceServer struct {
	*Server
	pb.UnsafeMaintenanceServer
}

// version is the version of etcd whose API this is. Clients derive from it what
// they may use.
const version = "3.7.3"

// storageVersion is what etcd reports of its data's format.
const storageVersion = "3.7.0"

// shortOfMemory is what Status says then. It ends by itself, unlike an alarm.
const shortOfMemory = "tenure: memory is short: this member refuses writes and large reads for now"

// Status describes this member.
func (s *maintenanceServer) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	st := s.backend.Status()
	leader, term, _ := s.backend.Leader()
	resp := &pb.StatusResponse{
		Header:           s.header(),
		Version:          version,
		Leader:           leader,
		RaftIndex:        st.CommittedIndex,
		RaftAppliedIndex: st.AppliedIndex,
		RaftTerm:         term,
		DbSize:           st.Size,
		DbSizeInUse:      st.SizeInUse,
		DbSizeQuota:      s.config.QuotaBytes,
		IsLearner:        st.IsLearner,
		StorageVersion:   storageVersion,
		DowngradeInfo:    &pb.DowngradeInfo{},
	}
	if leader == 0 {
		resp.Errors = append(resp.Errors, rpctypes.ErrNoLeader.Error())
	}
	resp.Errors = append(resp.Errors, s.alarmErrors()...)
	if s.config.Short() {
		resp.Errors = append(resp.Errors, shortOfMemory)
	}
	resp.Errors = append(resp.Errors, st.Errors...)
	return resp, nil
}

// Defragment waits until the history that was compacted is given back, which takes time behind the
// answer to Compact, and gives free memory back to the system. It takes turns with other long work.
func (s *maintenanceServer) Defragment(ctx context.Context, _ *pb.DefragmentRequest) (*pb.DefragmentResponse, error) {
	if err := s.scans.Acquire(ctx, 1); err != nil {
		return nil, toStatus(err)
	}
	defer s.scans.Release(1)
	if err := s.backend.Reclaimed(ctx); err != nil {
		return nil, toStatus(err)
	}
	debug.FreeOSMemory()
	return &pb.DefragmentResponse{Header: s.header()}, nil
}

// Hash sums up this member's whole state. Members that have applied the same entries agree.
func (s *maintenanceServer) Hash(ctx context.Context, r *pb.HashRequest) (*pb.HashResponse, error) {
	var sum uint32
	view, err := s.summed(ctx, r, func(v kv.View) (err error) {
		sum, err = v.HashAll()
		return err
	})
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.HashResponse{Header: s.headerAt(view.Revision()), Hash: sum}, nil
}

// HashKV sums up the keys and their history up to a revision, 0 for the newest. Members with the same
// compact revision agree.
func (s *maintenanceServer) HashKV(ctx context.Context, r *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	resp := new(pb.HashKVResponse)
	view, err := s.summed(ctx, r, func(v kv.View) (err error) {
		resp.Hash, resp.HashRevision, err = v.Hash(r.Revision)
		return err
	})
	if err != nil {
		return nil, toStatus(err)
	}
	resp.Header, resp.CompactRevision = s.headerAt(view.Revision()), view.CompactRevision()
	return resp, nil
}

// summed has a view summed up, in a turn of its own, for it takes as long as the state is large. A view whose
// history is reclaimed meanwhile is replaced by a newer one.
func (s *maintenanceServer) summed(ctx context.Context, r proto.Message, sum func(kv.View) error) (kv.View, error) {
	if err := s.scans.Acquire(ctx, 1); err != nil {
		return kv.View{}, err
	}
	defer s.scans.Release(1)
	for {
		view, err := s.backend.ViewFor(s.asNow(ctx), r)
		if err == nil {
			err = sum(view)
		}
		if !errors.Is(err, kv.ErrStaleView) {
			return view, err
		}
		if ctx.Err() != nil {
			return view, ctx.Err()
		}
	}
}

// moveTimeouts is for how many election timeouts leadership may be on its way. Writes wait
// meanwhile, so a target that does not answer must not be tried for as long as a client waits.
const moveTimeouts = 3

// MoveLeader passes leadership from this member to another one. It fails with etcd's timeout if the
// other does not take it.
func (s *maintenanceServer) MoveLeader(ctx context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	moving, cancel := context.WithTimeout(ctx, moveTimeouts*s.config.ElectionTimeout)
	defer cancel()
	err := s.backend.MoveLeader(moving, r.TargetID)
	if err != nil && ctx.Err() == nil && moving.Err() != nil {
		err = rpctypes.ErrGRPCTimeout
	}
	if err != nil {
		return nil, toStatus(err)
	}
	return &pb.MoveLeaderResponse{Header: s.header()}, nil
}
