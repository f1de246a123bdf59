package alarm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

const (
	none    = pb.AlarmType_NONE
	noSpace = pb.AlarmType_NOSPACE
	corrupt = pb.AlarmType_CORRUPT
)

func ask(action pb.AlarmRequest_AlarmAction, id uint64, a pb.AlarmType) *pb.AlarmRequest {
	return &pb.AlarmRequest{Action: action, MemberID: id, Alarm: a}
}

func on(id uint64, a pb.AlarmType) *pb.AlarmRequest { return ask(pb.AlarmRequest_ACTIVATE, id, a) }

func off(id uint64, a pb.AlarmType) *pb.AlarmRequest { return ask(pb.AlarmRequest_DEACTIVATE, id, a) }

func get(a pb.AlarmType) *pb.AlarmRequest { return ask(pb.AlarmRequest_GET, 0, a) }

// with is a state with some alarms.
func with(t *testing.T, list ...*pb.AlarmRequest) *State {
	t.Helper()
	s := New()
	for _, r := range list {
		var err error
		if s, _, err = s.Apply(r); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func text(list []*pb.AlarmMember) string {
	var parts []string
	for _, m := range list {
		parts = append(parts, fmt.Sprintf("%d:%v", m.MemberID, m.Alarm))
	}
	return strings.Join(parts, " ")
}

// Alarms are raised, listed and disarmed with etcd's answers, and a state that was handed out stays as it is.
func TestAlarmsAreChanged(t *testing.T) {
	s := New()
	for _, tt := range []struct {
		ask     *pb.AlarmRequest
		answers string
		stand   string
	}{
		{get(none), "", ""},
		{on(3, none), "", ""},
		{off(3, noSpace), "", ""},
		{on(3, noSpace), "3:NOSPACE", "3:NOSPACE"},
		{on(3, noSpace), "3:NOSPACE", "3:NOSPACE"},
		{on(2, corrupt), "2:CORRUPT", "3:NOSPACE 2:CORRUPT"},
		{on(1, noSpace), "1:NOSPACE", "1:NOSPACE 3:NOSPACE 2:CORRUPT"},
		{get(noSpace), "1:NOSPACE 3:NOSPACE", "1:NOSPACE 3:NOSPACE 2:CORRUPT"},
		{get(none), "1:NOSPACE 3:NOSPACE 2:CORRUPT", "1:NOSPACE 3:NOSPACE 2:CORRUPT"},
		{off(2, noSpace), "", "1:NOSPACE 3:NOSPACE 2:CORRUPT"},
		{off(3, none), "", "1:NOSPACE 3:NOSPACE 2:CORRUPT"},
		{off(3, noSpace), "3:NOSPACE", "1:NOSPACE 2:CORRUPT"},
		{off(1, noSpace), "1:NOSPACE", "2:CORRUPT"},
	} {
		before, was := s, text(s.List(none))
		next, resp, err := s.Apply(tt.ask)
		if err != nil || text(resp.Alarms) != tt.answers || text(next.List(none)) != tt.stand {
			t.Errorf("%v is answered %q, %v, and %q stand; want %q, and %q", tt.ask, text(resp.GetAlarms()), err, text(next.List(none)), tt.answers, tt.stand)
		}
		if text(before.List(none)) != was {
			t.Errorf("%v changes a state that was handed out from %q to %q", tt.ask, was, text(before.List(none)))
		}
		s = next
	}
	if !s.Raised(2, corrupt) || s.Raised(2, noSpace) || s.Raised(1, corrupt) || !s.Has(corrupt) || s.Has(noSpace) {
		t.Error("member 2 has CORRUPT, and nobody anything else")
	}
	for _, r := range []*pb.AlarmRequest{on(1, 3), off(1, 3), ask(3, 1, noSpace)} {
		if next, resp, err := s.Apply(r); !errors.Is(err, ErrUnknown) || resp != nil || next != s {
			t.Errorf("%v: got %v, want %v", r, err, ErrUnknown)
		}
	}
}

// A client cannot raise alarms without end (AL-4).
func TestAlarmsAreBounded(t *testing.T) {
	s := New()
	for id := range uint64(Max) {
		var err error
		if s, _, err = s.Apply(on(id, noSpace)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Apply(on(Max, noSpace)); !errors.Is(err, ErrTooMany) {
		t.Errorf("one alarm more than %d: got %v, want %v", Max, err, ErrTooMany)
	}
	if _, resp, err := s.Apply(on(5, noSpace)); err != nil || len(resp.Alarms) != 1 {
		t.Errorf("an alarm that stands, of as many as there may be: got %v, %v", resp, err)
	}
	if next, _, err := s.Apply(off(5, noSpace)); err != nil || len(next.List(none)) != Max-1 {
		t.Errorf("one of them is disarmed: got %v", err)
	}
	if back, err := Decode(s.Encode()); err != nil || len(back.List(none)) != Max {
		t.Errorf("as many alarms as there may be are read: got %v", err)
	}
	s.list = append(s.list, member{Max, noSpace})
	if _, err := Decode(s.Encode()); err == nil {
		t.Error("more alarms are read than there may be")
	}
}

func op(m proto.Message) *pb.RequestOp {
	switch m := m.(type) {
	case *pb.PutRequest:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: m}}
	case *pb.DeleteRangeRequest:
		return &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: m}}
	}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: m.(*pb.TxnRequest)}}
}

// NOSPACE refuses what may make the state larger (AL-1), and CORRUPT what changes it (AL-2).
func TestRequestsAreRefused(t *testing.T) {
	put, deletion := op(&pb.PutRequest{}), op(&pb.DeleteRangeRequest{})
	deletes := &pb.TxnRequest{Success: []*pb.RequestOp{deletion}, Failure: []*pb.RequestOp{deletion}}
	nested := &pb.TxnRequest{Success: []*pb.RequestOp{deletion, op(&pb.TxnRequest{Failure: []*pb.RequestOp{put}})}}
	full, damaged := with(t, on(3, noSpace)), with(t, on(0, corrupt))
	both := with(t, on(3, noSpace), on(3, corrupt))
	for _, tt := range []struct {
		m           proto.Message
		whenFull    error
		whenDamaged error
	}{
		{&pb.PutRequest{}, ErrNoSpace, ErrCorrupt},
		{&pb.LeaseGrantRequest{}, ErrNoSpace, ErrCorrupt},
		{&pb.TxnRequest{Success: []*pb.RequestOp{put}}, ErrNoSpace, ErrCorrupt},
		{&pb.TxnRequest{Failure: []*pb.RequestOp{put}}, ErrNoSpace, ErrCorrupt},
		{nested, ErrNoSpace, ErrCorrupt},
		{deletes, nil, ErrCorrupt},
		{&pb.DeleteRangeRequest{}, nil, ErrCorrupt},
		{&pb.CompactionRequest{}, nil, ErrCorrupt},
		{&pb.LeaseRevokeRequest{}, nil, ErrCorrupt},
		{&pb.LeaseCheckpointRequest{}, nil, nil}, // expiries, too
		{&pb.AlarmRequest{}, nil, nil},
		{&pb.Member{}, nil, nil},
		{&pb.InternalRaftRequest{}, nil, nil},
	} {
		if got := full.Refuses(tt.m); got != tt.whenFull {
			t.Errorf("without space, %T %v: got %v, want %v", tt.m, tt.m, got, tt.whenFull)
		}
		if got := damaged.Refuses(tt.m); got != tt.whenDamaged {
			t.Errorf("with corrupt data, %T %v: got %v, want %v", tt.m, tt.m, got, tt.whenDamaged)
		}
		if got := both.Refuses(tt.m); got != tt.whenDamaged {
			t.Errorf("with both, %T %v: got %v, want %v", tt.m, tt.m, got, tt.whenDamaged)
		}
		for _, s := range []*State{nil, New(), with(t, on(3, noSpace), off(3, noSpace))} {
			if err := s.Refuses(tt.m); err != nil {
				t.Errorf("without an alarm, %T: got %v", tt.m, err)
			}
		}
	}
	var nobody *State
	if nobody.Has(noSpace) || nobody.Raised(0, noSpace) || nobody.List(none) != nil || nobody.Used() {
		t.Error("no state at all has alarms")
	}
}

// A state is written the same at all members, is read as it was, and damage is found.
func TestAlarmsAreEncoded(t *testing.T) {
	one, two := with(t, on(300, noSpace), on(2, corrupt), on(1, noSpace)), with(t, on(1, noSpace), on(300, noSpace), on(2, corrupt))
	p := one.Encode()
	if string(p) != string(two.Encode()) {
		t.Errorf("the same alarms, raised in another order, are %x, not %x", two.Encode(), p)
	}
	if New().Used() || !one.Used() || !with(t, on(1, noSpace), off(1, noSpace)).Used() {
		t.Error("it is wrong whether there ever were alarms")
	}
	back, err := Decode(p)
	if err != nil || text(back.List(none)) != text(one.List(none)) || !back.Used() {
		t.Fatalf("read as %q, %v", text(back.List(none)), err)
	}
	for n := range p {
		if _, err := Decode(p[:n]); err == nil {
			t.Errorf("%d bytes of %d are read", n, len(p))
		}
	}
	for name, bad := range map[string][]byte{
		"another version": append([]byte{2}, p[1:]...), "a byte too much": append(p[:len(p):len(p)], 0),
		"an unknown alarm": {1, 1, 3, 7}, "an alarm twice": {1, 2, 1, 7, 1, 7}, "another order": {1, 2, 2, 7, 1, 7}, "no alarm": {1, 1, 0, 7},
	} {
		if _, err := Decode(bad); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}
