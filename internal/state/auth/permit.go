package auth

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"
)

// LeaseKeys returns the keys that are attached to a lease.
type LeaseKeys func(lease int64) [][]byte

// Permit reports whether a caller may do what a request asks for; nil means yes. While users
// are not in force, everybody may do everything. Errors are ErrUserEmpty, ErrDenied,
// ErrOldRevision and ErrUserNotFound.
func (s *State) Permit(c Caller, m proto.Message, leaseKeys LeaseKeys) error {
	if !s.Enabled() || c.Member {
		return nil
	}
	if s == nil {
		return ErrDenied
	}
	return s.judge(c, m, leaseKeys)
}

// judge has a rule for each kind of request (AU-1).
func (s *State) judge(c Caller, m proto.Message, leaseKeys LeaseKeys) error {
	switch m := m.(type) {
	case *pb.RangeRequest:
		return s.mayRead(c, m.Key, m.RangeEnd)
	case *pb.PutRequest:
		return s.mayPut(c, m, leaseKeys)
	case *pb.DeleteRangeRequest:
		return s.mayDelete(c, m)
	case *pb.TxnRequest:
		return s.mayTxn(c, m, leaseKeys)
	case *pb.WatchCreateRequest:
		key := m.Key
		if len(key) == 0 { // from the least key on
			key = []byte{0}
		}
		return s.mayRead(c, key, m.RangeEnd)
	case *pb.LeaseGrantRequest:
		return s.MayAsk(c)
	case *pb.LeaseRevokeRequest:
		return s.mayChangeLease(c, m.ID, leaseKeys)
	case *pb.LeaseKeepAliveRequest:
		return s.mayChangeLease(c, m.ID, leaseKeys)
	case *pb.LeaseTimeToLiveRequest:
		return s.mayLookAtLease(c, m, leaseKeys)
	case *pb.AlarmRequest:
		if m.Action == pb.AlarmRequest_GET {
			return s.MayAsk(c)
		}
		return s.MayManage(c)
	case *pb.CompactionRequest, *pb.DefragmentRequest, *pb.HashRequest, *pb.HashKVRequest, *pb.SnapshotRequest,
		*pb.MoveLeaderRequest, *pb.DowngradeRequest,
		*pb.MemberAddRequest, *pb.MemberRemoveRequest, *pb.MemberUpdateRequest, *pb.MemberPromoteRequest,
		*pb.AuthEnableRequest, *pb.AuthDisableRequest, *pb.AuthUserAddRequest, *pb.AuthUserDeleteRequest,
		*pb.AuthUserChangePasswordRequest, *pb.AuthUserGrantRoleRequest, *pb.AuthUserRevokeRoleRequest,
		*pb.AuthUserListRequest, *pb.AuthRoleAddRequest, *pb.AuthRoleDeleteRequest, *pb.AuthRoleListRequest,
		*pb.AuthRoleGrantPermissionRequest, *pb.AuthRoleRevokePermissionRequest:
		return s.MayManage(c)
	case *pb.StatusRequest, *pb.MemberListRequest, *pb.LeaseLeasesRequest:
		return s.MayAsk(c)
	case *pb.AuthUserGetRequest:
		return s.mayLookAtUser(c, m.Name)
	case *pb.AuthRoleGetRequest:
		return s.mayLookAtRole(c, m.Role)
	case *pb.AuthStatusRequest, *pb.AuthenticateRequest, *pb.InternalAuthenticateRequest:
		return nil
	}
	return ErrDenied
}

// MayManage reports whether a caller may do what only the role root may (AU-6).
func (s *State) MayManage(c Caller) error {
	u, err := s.asking(c)
	if err == nil && u != nil && !u.isRoot() {
		err = ErrDenied
	}
	return err
}

// MayAsk reports whether a caller is a user, which suffices for what concerns no keys.
func (s *State) MayAsk(c Caller) error {
	_, err := s.asking(c)
	return err
}

// asking returns the user that asks, nil if anybody may.
func (s *State) asking(c Caller) (*user, error) {
	switch {
	case !s.Enabled() || c.Member:
		return nil, nil
	case s == nil:
		return nil, ErrDenied
	case c.User == "":
		return nil, ErrUserEmpty
	}
	u := s.user(c.User)
	switch {
	case u == nil:
		return nil, ErrUserNotFound
	case c.Revision < u.since || c.Revision < s.since:
		return nil, ErrOldRevision // AU-7, AU-10
	}
	return u, nil
}

// may reports whether a caller may read or write keys.
func (s *State) may(c Caller, key, end []byte, write bool) error {
	if c.User == "" {
		return ErrUserEmpty
	}
	if c.Revision < s.revision {
		return ErrOldRevision // AU-7
	}
	u := s.user(c.User)
	if u == nil || !u.isRoot() && !s.covers(u, key, end, write) {
		return ErrDenied
	}
	return nil
}

func (s *State) mayRead(c Caller, key, end []byte) error  { return s.may(c, key, end, false) }
func (s *State) mayWrite(c Caller, key, end []byte) error { return s.may(c, key, end, true) }

func (s *State) mayPut(c Caller, m *pb.PutRequest, leaseKeys LeaseKeys) error {
	if err := s.mayWrite(c, m.Key, nil); err != nil {
		return err
	}
	if m.Lease != 0 {
		if err := s.mayChangeLease(c, m.Lease, leaseKeys); err != nil {
			return err
		}
	}
	if m.PrevKv || m.IgnoreValue {
		return s.mayRead(c, m.Key, nil) // AU-5
	}
	return nil
}

func (s *State) mayDelete(c Caller, m *pb.DeleteRangeRequest) error {
	if err := s.mayWrite(c, m.Key, m.RangeEnd); err != nil {
		return err
	}
	if m.PrevKv {
		return s.mayRead(c, m.Key, m.RangeEnd) // AU-5
	}
	return nil
}

// mayTxn judges comparisons and both branches (AU-3). A transaction without any of these
// needs a user all the same.
func (s *State) mayTxn(c Caller, m *pb.TxnRequest, leaseKeys LeaseKeys) error {
	if c.User == "" {
		return ErrUserEmpty
	}
	if s.user(c.User) == nil {
		return ErrDenied
	}
	for _, cmp := range m.GetCompare() {
		if err := s.mayRead(c, cmp.GetKey(), cmp.GetRangeEnd()); err != nil {
			return err
		}
	}
	for _, branch := range [...][]*pb.RequestOp{m.GetSuccess(), m.GetFailure()} {
		for _, op := range branch {
			if err := s.mayOp(c, op, leaseKeys); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *State) mayOp(c Caller, op *pb.RequestOp, leaseKeys LeaseKeys) error {
	switch op := op.GetRequest().(type) {
	case *pb.RequestOp_RequestRange:
		return s.mayRead(c, op.RequestRange.GetKey(), op.RequestRange.GetRangeEnd())
	case *pb.RequestOp_RequestPut:
		if op.RequestPut != nil {
			return s.mayPut(c, op.RequestPut, leaseKeys)
		}
	case *pb.RequestOp_RequestDeleteRange:
		if op.RequestDeleteRange != nil {
			return s.mayDelete(c, op.RequestDeleteRange)
		}
	case *pb.RequestOp_RequestTxn:
		return s.mayTxn(c, op.RequestTxn, leaseKeys)
	}
	return ErrDenied // AU-1
}

// mayChangeLease reports whether a caller may write all keys of a lease (AU-4).
func (s *State) mayChangeLease(c Caller, lease int64, leaseKeys LeaseKeys) error {
	u, err := s.asking(c)
	if err != nil || u == nil || u.isRoot() {
		return err
	}
	for _, key := range leaseKeys(lease) {
		if err := s.mayWrite(c, key, nil); err != nil {
			return err
		}
	}
	return nil
}

// mayLookAtLease reports whether a caller may read all keys of a lease, if they are listed (AU-4).
func (s *State) mayLookAtLease(c Caller, m *pb.LeaseTimeToLiveRequest, leaseKeys LeaseKeys) error {
	u, err := s.asking(c)
	if err != nil || u == nil || u.isRoot() || !m.Keys {
		return err
	}
	for _, key := range leaseKeys(m.ID) {
		if err := s.mayRead(c, key, nil); err != nil {
			return err
		}
	}
	return nil
}

// mayLookAtUser lets users look at themselves.
func (s *State) mayLookAtUser(c Caller, name string) error {
	err := s.MayManage(c)
	if err == ErrDenied && c.User == name {
		return nil
	}
	return err
}

// mayLookAtRole lets users look at the roles that they have.
func (s *State) mayLookAtRole(c Caller, role string) error {
	err := s.MayManage(c)
	if err == ErrDenied && s.user(c.User).has(role) {
		return nil
	}
	return err
}
