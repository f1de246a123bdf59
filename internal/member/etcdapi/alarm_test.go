package etcdapi

import (
	"context"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/caller"
	"github.com/tenure-lease/tenure/internal/member/watch"
)

// Etcd's client raises, lists and disarms alarms, of any member, and probes tell them.
func TestAlarmsOverTheAPI(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := f.serve(t, Config{})
	m, c := pb.NewMaintenanceClient(s.conn), s.client()
	for _, r := range []*pb.AlarmRequest{
		{Action: pb.AlarmRequest_ACTIVATE, MemberID: 5, Alarm: pb.AlarmType_NOSPACE},
		{Action: pb.AlarmRequest_ACTIVATE, MemberID: 6, Alarm: pb.AlarmType_CORRUPT},
	} {
		resp, err := m.Alarm(t.Context(), r)
		if err != nil || len(resp.Alarms) != 1 || resp.Alarms[0].MemberID != r.MemberID || resp.Header.MemberId != 11 || resp.Header.Revision == 0 {
			t.Fatalf("raise %v: got %v, %v", r, resp, err)
		}
	}
	if got := s.server.Alarms(); !slices.Equal(got, []pb.AlarmType{pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT}) {
		t.Errorf("probes tell the alarms %v, want NOSPACE and CORRUPT", got)
	}
	st, err := m.Status(t.Context(), &pb.StatusRequest{})
	if want := []string{"memberID:5 alarm:NOSPACE", "memberID:6 alarm:CORRUPT", "odd"}; err != nil || !slices.Equal(st.Errors, want) {
		t.Errorf("status tells %q, %v; want %q", st.GetErrors(), err, want)
	}
	if _, err := s.kv().DeleteRange(t.Context(), &pb.DeleteRangeRequest{Key: []byte("k")}); !same(err, rpctypes.ErrGRPCCorrupt) {
		t.Errorf("a deletion of corrupt data: got %v, want etcd's words for that", err)
	}
	if _, err := s.kv().Range(t.Context(), &pb.RangeRequest{Key: []byte("k")}); err != nil {
		t.Errorf("a read of corrupt data: got %v", err)
	}
	only, err := m.Alarm(t.Context(), &pb.AlarmRequest{Alarm: pb.AlarmType_CORRUPT})
	if err != nil || len(only.Alarms) != 1 || only.Alarms[0].MemberID != 6 {
		t.Errorf("alarms of corrupt data: got %v, %v", only, err)
	}
	before := f.barriers.Load()
	disarmed, err := c.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	if err != nil || len(disarmed.Alarms) != 2 {
		t.Errorf("disarm all: got %v, %v", disarmed, err)
	}
	if f.barriers.Load() == before {
		t.Error("alarms are listed without a barrier")
	}
	if list, err := c.AlarmList(t.Context()); err != nil || len(list.Alarms) != 0 || len(s.server.Alarms()) != 0 {
		t.Errorf("alarms that are left: %v, %v", list, err)
	}
	if _, err := m.Alarm(t.Context(), &pb.AlarmRequest{Action: 9, Alarm: pb.AlarmType_CORRUPT}); err == nil || !strings.Contains(err.Error(), "unknown action") {
		t.Errorf("an unknown action: got %v", err)
	}
	f.fail.Store(&rpctypes.ErrGRPCNoLeader)
	if _, err := m.Alarm(t.Context(), &pb.AlarmRequest{}); !same(err, rpctypes.ErrGRPCNoLeader) {
		t.Errorf("a list without a leader: got %v, want that there is none", err)
	}
}

// The alarm is raised once, by the member itself, and again only when it was disarmed. A failure is for the
// next call.
func TestTheAlarmIsRaisedOnce(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := New(f, Config{})
	var asked []string
	f.proposed = func(m proto.Message) { asked = append(asked, m.(*pb.AlarmRequest).String()) }
	f.fail.Store(&rpctypes.ErrGRPCNoLeader)
	s.RaiseNoSpace(t.Context())
	f.fail.Store(nil)
	if f.Alarms() != nil {
		t.Error("there is an alarm without a leader")
	}
	for range 3 {
		s.RaiseNoSpace(t.Context())
	}
	if len(asked) != 1 || !f.Alarms().Raised(11, pb.AlarmType_NOSPACE) {
		t.Errorf("the alarm was asked for %d times, want once: %q", len(asked), asked)
	}
	if _, err := f.Propose(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, MemberID: 11, Alarm: pb.AlarmType_NOSPACE}); err != nil {
		t.Fatal(err)
	}
	s.raising.Lock()
	s.RaiseNoSpace(t.Context()) // does not wait for the other
	s.raising.Unlock()
	if f.Alarms().Raised(11, pb.AlarmType_NOSPACE) {
		t.Error("two attempts at a time")
	}
	s.RaiseNoSpace(t.Context())
	if !f.Alarms().Raised(11, pb.AlarmType_NOSPACE) {
		t.Error("an alarm that was disarmed is not raised again")
	}
	by := &callers{fake: newFake(t, watch.Config{})}
	New(by, Config{}).RaiseNoSpace(t.Context())
	if !by.member {
		t.Error("the alarm is raised in the name of a client")
	}
}

// callers notes whether a member proposes by itself.
type callers struct {
	*fake
	member bool
}

func (c *callers) Propose(ctx context.Context, r proto.Message) (proto.Message, error) {
	c.member = caller.Of(ctx).Member
	return c.fake.Propose(ctx, r)
}

// Defragment waits for the history to be given back.
func TestDefragment(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	if _, err := s.client().Defragment(t.Context(), "passthrough:fake"); err != nil || s.reclaimed.Load() != 1 {
		t.Errorf("got %v, and it has waited %d times", err, s.reclaimed.Load())
	}
	s.fake.fail.Store(&rpctypes.ErrGRPCStopped)
	if _, err := pb.NewMaintenanceClient(s.conn).Defragment(t.Context(), &pb.DefragmentRequest{}); !same(err, rpctypes.ErrGRPCStopped) {
		t.Errorf("at a member that stops: got %v", err)
	}
}

// A downgrade is answered as by a cluster of etcd's that cannot be downgraded.
func TestDowngrade(t *testing.T) {
	s := serve(t, Config{}, watch.Config{})
	m := pb.NewMaintenanceClient(s.conn)
	for _, action := range []pb.DowngradeRequest_DowngradeAction{pb.DowngradeRequest_VALIDATE, pb.DowngradeRequest_ENABLE} {
		for version, want := range map[string]error{
			"3.6": rpctypes.ErrGRPCInvalidDowngradeTargetVersion, "3.6.0": rpctypes.ErrGRPCInvalidDowngradeTargetVersion,
			"3.6.0-rc.1": rpctypes.ErrGRPCInvalidDowngradeTargetVersion, "": rpctypes.ErrGRPCWrongDowngradeVersionFormat,
			"three": rpctypes.ErrGRPCWrongDowngradeVersionFormat, "3": rpctypes.ErrGRPCWrongDowngradeVersionFormat,
		} {
			if _, err := m.Downgrade(t.Context(), &pb.DowngradeRequest{Action: action, Version: version}); !same(err, want) {
				t.Errorf("%v %q: got %v, want %v", action, version, err, want)
			}
		}
	}
	got, err := m.Downgrade(t.Context(), &pb.DowngradeRequest{Action: pb.DowngradeRequest_CANCEL})
	if err != nil || got.Version != "3.7" || got.Header.MemberId != 11 {
		t.Errorf("cancel: got %v, %v; want version 3.7", got, err)
	}
	if _, err := m.Downgrade(t.Context(), &pb.DowngradeRequest{Action: 7}); err == nil || !strings.Contains(err.Error(), "unknown method") {
		t.Errorf("an unknown action: got %v", err)
	}
}
