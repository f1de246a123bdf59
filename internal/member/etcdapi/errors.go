package etcdapi

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/member/watch"
	"github.com/tenure-lease/tenure/internal/state/alarm"
	"github.com/tenure-lease/tenure/internal/state/auth"
	"github.com/tenure-lease/tenure/internal/state/kv"
)

// fromState are etcd's errors for those of the state and of the watches.
var fromState = []struct{ err, status error }{
	{kv.ErrCompacted, rpctypes.ErrGRPCCompacted},
	{kv.ErrFutureRevision, rpctypes.ErrGRPCFutureRev},
	{kv.ErrEmptyKey, rpctypes.ErrGRPCEmptyKey},
	{kv.ErrKeyNotFound, rpctypes.ErrGRPCKeyNotFound},
	{kv.ErrValueProvided, rpctypes.ErrGRPCValueProvided},
	{kv.ErrLeaseProvided, rpctypes.ErrGRPCLeaseProvided},
	{kv.ErrInvalidSort, rpctypes.ErrGRPCInvalidSortOption},
	{kv.ErrTooManyOps, rpctypes.ErrGRPCTooManyOps},
	{kv.ErrDuplicateKey, rpctypes.ErrGRPCDuplicateKey},
	{kv.ErrLeaseNotFound, rpctypes.ErrGRPCLeaseNotFound},
	{kv.ErrLeaseExists, rpctypes.ErrGRPCLeaseExist},
	{kv.ErrLeaseTTLTooLarge, rpctypes.ErrGRPCLeaseTTLTooLarge},
	{kv.ErrNoState, errNoState},
	{alarm.ErrNoSpace, rpctypes.ErrGRPCNoSpace},
	{alarm.ErrCorrupt, rpctypes.ErrGRPCCorrupt},
	{alarm.ErrTooMany, rpctypes.ErrGRPCRequestTooManyRequests},
	{watch.ErrClosed, rpctypes.ErrGRPCStopped},

	{auth.ErrRootUserMissing, rpctypes.ErrGRPCRootUserNotExist},
	{auth.ErrRootRoleMissing, rpctypes.ErrGRPCRootRoleNotExist},
	{auth.ErrUserExists, rpctypes.ErrGRPCUserAlreadyExist},
	{auth.ErrRoleExists, rpctypes.ErrGRPCRoleAlreadyExist},
	{auth.ErrUserEmpty, rpctypes.ErrGRPCUserEmpty},
	{auth.ErrRoleEmpty, rpctypes.ErrGRPCRoleEmpty},
	{auth.ErrUserNotFound, rpctypes.ErrGRPCUserNotFound},
	{auth.ErrRoleNotFound, rpctypes.ErrGRPCRoleNotFound},
	{auth.ErrPermissionNotGiven, rpctypes.ErrGRPCPermissionNotGiven},
	{auth.ErrDenied, rpctypes.ErrGRPCPermissionDenied},
	{auth.ErrRoleNotGranted, rpctypes.ErrGRPCRoleNotGranted},
	{auth.ErrPermissionNotGranted, rpctypes.ErrGRPCPermissionNotGranted},
	{auth.ErrNotEnabled, rpctypes.ErrGRPCAuthNotEnabled},
	{auth.ErrFailed, rpctypes.ErrGRPCAuthFailed},
	{auth.ErrOldRevision, rpctypes.ErrGRPCAuthOldRevision},
	{auth.ErrInvalidToken, rpctypes.ErrGRPCInvalidAuthToken},
	{auth.ErrInvalidManagement, rpctypes.ErrGRPCInvalidAuthMgmt},
	{auth.ErrLimit, status.Error(codes.ResourceExhausted, auth.ErrLimit.Error())},
}

// errNoState has the code on which etcd's clients try another member. etcd itself takes no
// connections until it is ready.
var errNoState = status.Error(codes.Unavailable, "tenure: this member has just started, and does not know yet which part of its state is released: try again, or another member")

// toStatus gives an error the code and text that etcd gives it. Errors that have
// a status keep it; gRPC knows those of contexts.
func toStatus(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	for _, e := range fromState {
		if errors.Is(err, e.err) {
			return e.status
		}
	}
	return status.Error(codes.Unknown, err.Error())
}
