package alarm

import (
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// Each stands for one of etcd's errors.
var (
	ErrNoSpace = errors.New("alarm: a member has no space")
	ErrCorrupt = errors.New("alarm: the data of a member are corrupt")
	// ErrTooMany: there are as many alarms as there may be.
	ErrTooMany = errors.New("alarm: there are too many alarms")
	// ErrUnknown: an action or an alarm that a newer version may know.
	ErrUnknown = errors.New("alarm: unknown action or alarm")
)

// Max bounds the alarms that there may be.
const Max = 1000

// State is the alarms that stand. The nil State has none.
type State struct {
	list []member // in order
	used bool     // there were alarms at some time
}

// member is an alarm of a member. Member 0 stands for one that is not known.
type member struct {
	id    uint64
	alarm pb.AlarmType
}

func (m member) compare(to member) int {
	if m.alarm != to.alarm {
		return int(m.alarm) - int(to.alarm)
	}
	switch {
	case m.id < to.id:
		return -1
	case m.id > to.id:
		return 1
	}
	return 0
}

// New returns the state of a fresh cluster.
func New() *State { return &State{} }

// Used reports whether an alarm was raised at some time.
func (s *State) Used() bool { return s != nil && s.used }

// Has reports whether any member has an alarm.
func (s *State) Has(a pb.AlarmType) bool {
	return s != nil && slices.ContainsFunc(s.list, func(m member) bool { return m.alarm == a })
}

// Raised reports whether a member has an alarm.
func (s *State) Raised(id uint64, a pb.AlarmType) bool {
	return s != nil && slices.Contains(s.list, member{id, a})
}

// List returns the alarms of a kind, and with NONE all, by kind and member.
func (s *State) List(a pb.AlarmType) (list []*pb.AlarmMember) {
	if s == nil {
		return nil
	}
	for _, m := range s.list {
		if a == pb.AlarmType_NONE || m.alarm == a {
			list = append(list, &pb.AlarmMember{MemberID: m.id, Alarm: m.alarm})
		}
	}
	return list
}

// Apply raises an alarm or disarms one, or lists alarms, and returns the state behind that. As
// with etcd the response has the alarm that was raised, whether it stood before or not, or the one
// that was disarmed.
func (s *State) Apply(r *pb.AlarmRequest) (*State, *pb.AlarmResponse, error) {
	resp := &pb.AlarmResponse{}
	if r.Action == pb.AlarmRequest_GET {
		resp.Alarms = s.List(r.Alarm)
		return s, resp, nil
	}
	if r.Alarm != pb.AlarmType_NONE && r.Alarm != pb.AlarmType_NOSPACE && r.Alarm != pb.AlarmType_CORRUPT {
		return s, nil, ErrUnknown
	}
	m := member{r.MemberID, r.Alarm}
	at, stands := slices.BinarySearchFunc(s.list, m, member.compare)
	told := []*pb.AlarmMember{{MemberID: m.id, Alarm: m.alarm}}
	switch r.Action {
	case pb.AlarmRequest_ACTIVATE:
		if m.alarm == pb.AlarmType_NONE {
			return s, resp, nil
		}
		resp.Alarms = told
		if stands {
			return s, resp, nil
		}
		if len(s.list) >= Max {
			return s, nil, ErrTooMany
		}
		return &State{slices.Insert(slices.Clone(s.list), at, m), true}, resp, nil
	case pb.AlarmRequest_DEACTIVATE:
		if !stands {
			return s, resp, nil
		}
		resp.Alarms = told
		return &State{slices.Delete(slices.Clone(s.list), at, at+1), true}, resp, nil
	}
	return s, nil, ErrUnknown
}

// Refuses returns why a request is refused while these alarms stand: ErrCorrupt or ErrNoSpace.
func (s *State) Refuses(m proto.Message) error {
	switch {
	case s == nil || len(s.list) == 0:
		return nil
	case s.Has(pb.AlarmType_CORRUPT) && changes(m):
		return ErrCorrupt
	case s.Has(pb.AlarmType_NOSPACE) && Grows(m):
		return ErrNoSpace
	}
	return nil
}

// changes reports whether a client asks by a request for a change of keys, history or leases.
func changes(m proto.Message) bool {
	switch m.(type) {
	case *pb.PutRequest, *pb.DeleteRangeRequest, *pb.TxnRequest, *pb.CompactionRequest, *pb.LeaseGrantRequest, *pb.LeaseRevokeRequest:
		return true
	}
	return false
}

// Grows reports whether a request may make the state larger. One that only deletes, revokes or
// compacts is what frees room.
func Grows(m proto.Message) bool {
	switch m := m.(type) {
	case *pb.PutRequest, *pb.LeaseGrantRequest:
		return true
	case *pb.TxnRequest:
		return slices.ContainsFunc(m.Success, puts) || slices.ContainsFunc(m.Failure, puts)
	}
	return false
}

func puts(op *pb.RequestOp) bool {
	if t := op.GetRequestTxn(); t != nil {
		return Grows(t)
	}
	return op.GetRequestPut() != nil
}
