package auth

// Limits of a state. A change that goes beyond one is refused with [ErrLimit].
const (
	MaxUsers       = 10_000
	MaxRoles       = 10_000
	MaxRolesOfUser = 1_000
	MaxPermissions = 1_000 // of a role
	MaxNameBytes   = 256
	MaxTotalBytes  = 8 << 20 // of all names, hashes and keys, each counted with itemOverhead
	itemOverhead   = 16      // bytes beside each user, role, permission and granted role
	maxHashBytes   = 60      // what bcrypt writes
)
