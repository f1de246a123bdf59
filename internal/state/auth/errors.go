package auth

import "errors"

// Each of these stands for one of etcd's errors, unless it says otherwise.
var (
	// ErrRootUserMissing, ErrRootRoleMissing: users cannot be put in force without a root.
	ErrRootUserMissing = errors.New("auth: root user does not exist: add it first")
	ErrRootRoleMissing = errors.New("auth: root user does not have root role: grant it first")
	// ErrUserExists, ErrRoleExists: the name is taken.
	ErrUserExists = errors.New("auth: user already exists")
	ErrRoleExists = errors.New("auth: role already exists")
	// ErrUserEmpty: a user without a name, or a request that needs a user and names none.
	ErrUserEmpty = errors.New("auth: user name is empty")
	ErrRoleEmpty = errors.New("auth: role name is empty")
	// ErrUserNotFound, ErrRoleNotFound: nobody and nothing has that name.
	ErrUserNotFound = errors.New("auth: user not found")
	ErrRoleNotFound = errors.New("auth: role not found")
	// ErrPermissionNotGiven: a request to grant a permission that has none.
	ErrPermissionNotGiven = errors.New("auth: permission not given")
	// ErrDenied: the user may not do that.
	ErrDenied = errors.New("auth: permission denied")
	// ErrRoleNotGranted, ErrPermissionNotGranted: there is nothing to revoke.
	ErrRoleNotGranted       = errors.New("auth: role is not granted to the user")
	ErrPermissionNotGranted = errors.New("auth: permission is not granted to the role")
	// ErrNotEnabled: users are not in force, so nobody can log in.
	ErrNotEnabled = errors.New("auth: authentication is not enabled")
	// ErrFailed: a user that does not exist, or a wrong password.
	ErrFailed = errors.New("auth: authentication failed, invalid user ID or password")
	// ErrNoPassword: a password of a user that has none. etcd has no code for it, and a
	// client gets its text.
	ErrNoPassword = errors.New("auth: authentication failed, password was given for no password user")
	// ErrOldRevision: users or roles have changed since the request was authorised.
	ErrOldRevision = errors.New("auth: revision in header is old")
	// ErrInvalidToken: a token that was never given, or does not count any more.
	ErrInvalidToken = errors.New("auth: invalid auth token")
	// ErrInvalidManagement: a change that would leave no root, or a permission of nothing.
	ErrInvalidManagement = errors.New("auth: invalid auth management")
)

// These are not etcd's.
var (
	// ErrLimit: see MaxUsers and the limits beside it.
	ErrLimit = errors.New("auth: too many or too large users, roles or permissions: remove some")
	// errUnknownRequest: Apply was given something else than a change of users and roles.
	errUnknownRequest = errors.New("auth: not a change of users or roles")
	// errCorrupt: bytes that Encode did not write.
	errCorrupt = errors.New("auth: the encoded users and roles are corrupt")
)
