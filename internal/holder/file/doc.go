// Package file keeps leases in directories, or on block devices, that machines share; on
// one machine alone, in any directory. There is no server.
//
//	leaser, err := file.Open(ctx, file.Config{Paths: []string{"/mnt/shared/leases"}})
//	leaser, err := file.Open(ctx, file.Config{Paths: []string{"/mnt/a", "/mnt/b", "/mnt/c"}})
//
// Of several paths any minority may fail, hang, or be missing when the Leaser is
// opened. They have to be independent: three directories of one disk fail together.
//
// Package internal/holder/storage says how leases work, internal/host/register/file how they are stored, what a
// filesystem has to be able to do, and what is done about damage.
//
// # Making a store
//
// [Init] makes one, or the several of a set, with the Term of its leases and δ; both are
// fixed from then on. It looks at all paths before it makes the first store: nothing is made if
// one of them is no place for a store. An Init that is killed, or whose device fails, between two
// stores leaves a part of a set. Nobody can use that if it is not more than half, and Init does
// not go on with it or take it away, for it cannot tell whether somebody uses it: empty the
// paths that it names, and call it again. Open makes what is missing in empty directories, with
// tenure.DefaultTTL and a δ that it measures there: [Measure]. A directory that has
// anything else in it is refused, and left alone. Several may come first at once, if they call
// the paths alike; else make the store by Init.
//
// Mind mount points: while nothing is mounted on it, /mnt/shared is an empty directory
// of this machine alone, where leases exclude nobody elsewhere. Use a directory that is
// missing then, /mnt/shared/leases, or make the store by Init and set Config.Existing.
//
// A store of a set that lost its contents is not made anew by anybody: to those who
// begin later it would be a witness that nothing is held. Stop all who use the
// set, and make a new one.
package file
