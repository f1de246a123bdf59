// Package file opens, makes, measures and inspects the sets of directories and devices in which
// package engine/file keeps leases.
//
// Package internal/holder/storage has the leases. Package internal/host/register/file has the format
// of a store, its demands on a filesystem, and its answers to damage.
//
// # Making a set
//
// [Init] makes all stores of a set, with the term of its leases and δ. Both are fixed from then on.
// It looks at all paths before it makes the first store, so a path that is no place for a store
// leaves nothing behind. An Init that is killed, or whose device fails, leaves a part of a set.
//
// Nobody can use a part that is not more than half of the set. Init neither completes such a part nor
// removes it, for it may be in use. Empty the paths that the error names, and call Init again.
//
// [Open] makes the stores if all paths are empty directories, with tenure.DefaultTTL and a δ that it
// measures there. Several processes may come first at once, if they write the paths alike.
//
// # A store that lost its contents
//
// Nothing makes such a store anew: to a process that begins later it would be a witness that nothing
// is held. All processes that use the set have to stop before a new set is made.
package file
