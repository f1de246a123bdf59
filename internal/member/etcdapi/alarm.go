package etcdapi

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/state/alarm"
)

// Alarm lists alarms behind a barrier, or raises or disarms one.
func (s *maintenanceServer) Alarm(ctx context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	if r.Action != pb.AlarmRequest_GET {
		return propose[*pb.AlarmResponse](ctx, s.Server, r)
	}
	if err := s.backend.Barrier(ctx); err != nil {
		return nil, toStatus(err)
	}
	return &pb.AlarmResponse{Header: s.header(), Alarms: s.backend.Alarms().List(r.Alarm)}, nil
}

// Alarms are those that keep the cluster from serving all requests, each kind once.
func (s *Server) Alarms() (kinds []pb.AlarmType) {
	alarms := s.backend.Alarms()
	for _, a := range []pb.AlarmType{pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT} {
		if alarms.Has(a) {
			kinds = append(kinds, a)
		}
	}
	return kinds
}

// alarmErrors are the alarms as Maintenance.Status tells them, in etcd's words.
func (s *Server) alarmErrors() (list []string) {
	for _, a := range s.backend.Alarms().List(pb.AlarmType_NONE) {
		list = append(list, fmt.Sprintf("memberID:%d alarm:%v", a.MemberID, a.Alarm))
	}
	return list
}

// room refuses a request that may make the state larger if there is no room for it. Beyond the quota
// it raises the alarm, too.
func (s *Server) room(ctx context.Context, r proto.Message, size int) error {
	if !alarm.Grows(r) {
		return nil
	}
	switch {
	case s.beyond(size):
		s.RaiseNoSpace(ctx)
	case !s.config.Short():
		return nil
	}
	return rpctypes.ErrGRPCNoSpace
}

// beyond reports whether the state is beyond the quota with some bytes more.
func (s *Server) beyond(size int) bool {
	quota := s.config.QuotaBytes
	return quota > 0 && s.backend.View().Stats().Bytes+int64(size) > quota
}

// RaiseNoSpace raises the alarm of this member that it has no room, if it does not stand, and waits until
// it does. One attempt at a time is made: other callers do not wait. An attempt fails without a
// leader, and while not all members know alarms; then it is for the next call.
func (s *Server) RaiseNoSpace(ctx context.Context) {
	if s.backend.Alarms().Raised(s.memberID, pb.AlarmType_NOSPACE) || !s.raising.TryLock() {
		return
	}
	defer s.raising.Unlock()
	if err := s.raise(ctx, s.memberID, pb.AlarmType_NOSPACE); err != nil {
		s.config.Logger.Warn("there is no room, and the alarm cannot be raised yet", "error", err)
		return
	}
	s.config.Logger.Warn("there is no room: all members refuse writes until there is, and the alarm is disarmed; see docs/alarms.md",
		"bytes", s.backend.View().Stats().Bytes, "quota", s.config.QuotaBytes)
}

// raise raises an alarm of a member, as this member does by itself.
func (s *Server) raise(ctx context.Context, member uint64, a pb.AlarmType) error {
	_, err := s.backend.Propose(caller.Member(ctx), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: a})
	return err
}
