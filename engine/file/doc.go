// Package file keeps leases in directories, or on block devices, that machines share. There is no
// server. The processes of one machine can use any directory.
//
//	leaser, err := file.Open(ctx, file.Config{Paths: []string{"/mnt/shared/leases"}})
//	leaser, err := file.Open(ctx, file.Config{Paths: []string{"/mnt/a", "/mnt/b", "/mnt/c"}})
//
// Of several paths any minority may fail, hang, or be missing when Open is called. The paths have to
// be independent: three directories of one disk fail together.
//
// # Making a store
//
// Open makes a store in each path if all paths are empty directories. Its leases last for
// tenure.DefaultTTL, and Open measures how long an access takes. A directory that holds anything
// else is refused, and left alone. Several processes may call Open first at once, if they write the
// paths alike.
//
// [Init] makes a store with other choices, and is the only way to make one on a block device. So is
// the command `tenure lease init`.
//
// Mind mount points: while nothing is mounted on it, /mnt/shared is an empty directory of this
// machine alone, where leases exclude nobody elsewhere. Use a directory that is then missing, such
// as /mnt/shared/leases, or make the store with Init and set Config.Existing.
//
// A store that lost its contents is never made anew in its set: to a process that begins later it
// would be a witness that nothing is held. Stop all processes that use the set, and make a new set.
//
// # A holder that dies
//
// In a set of one directory on a local filesystem, the lease of a process that dies is free at once for the
// other processes of the machine. The children of the process are no part of the holder: set a LockDelay, which
// is always waited out, if they or requests under way need time. Claim.TTL is that of the stores, or 0.
package file
