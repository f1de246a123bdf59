// Package kv is the state of the server: a key-value store that remembers its
// history (MVCC) with etcd's exact semantics, and the table of leases. It is
// what the replicated log is applied to.
//
// A [Store] has one writer. Requests and answers are etcd's own messages; every
// request is checked wholly before its first change, so it happens entirely or
// not at all:
//
//	s := kv.New()                                  // revision 1
//	s.Grant(7, 60)                                 // lease 7, 60 seconds
//	s.Put(&pb.PutRequest{Key: k, Value: v, Lease: 7}) // revision 2
//	v := s.View()                                  // for readers, any goroutine
//	v.Range(&pb.RangeRequest{Key: k})
//	for ev := range events { … }                   // events, err := v.Events(2)
//	s.Revoke(7)                                    // k is deleted: revision 3
//	s.Compact(3)                                   // history before 3 is gone for readers
//	for s.Reclaim(1000) { … }                      // and here from memory, in slices
//
// # Who may do what
//
// One goroutine at a time calls the methods of a Store. A [View] is an immutable
// value: any number of goroutines may read it, for ever, while the store goes on.
// The driver publishes a View after each batch of requests (through an
// atomic.Pointer or a channel: the publication must order memory).
//
// Put and Txn take ownership of the key and value slices of their requests:
// the store keeps them without a copy (the decoder of the log already made one),
// so nobody may change them afterwards. Key-values that are handed out are the
// stored ones and must not be changed either; a Range copies no key and no value.
//
// # How it works
//
// Keys stand in an ordered copy-on-write tree. Each key points to its newest
// version, and each version to the one before; a version embeds the key-value
// as it is sent. An update only prepends a version: the pointer to the newest is
// atomic, and a reader walks to the newest version at or below its revision. Only
// a key's first version and the reclaiming of its last copy tree paths. Each
// version is also appended to one chunked log of events in order of revision,
// the source of watches.
//
// A deleted key keeps a tombstone version, and its place in the tree, until the deletion is
// compacted. [Store.Compact] is logical: the store and later Views answer [ErrCompacted]
// below the compact revision at once. [Store.Reclaim] gives the memory back afterwards,
// step by step. A View that is older than the reclaimed history notices after reading, and
// returns an error instead of a wrong answer, see [ErrStaleView]. [Store.Pin] keeps history
// for a slow reader, such as the writer of a snapshot.
//
// Leases stand in a copy-on-write tree too, each with its keys. Leases have no
// clock here: the owner of the Store grants, revokes and checkpoints them through
// the log, and time is its business.
//
// # Revisions
//
// An empty store is at revision 1. Each request that changes keys makes one revision,
// however many keys it changes. A request that changes nothing makes none: a deletion of
// nothing, a failed or reading transaction, the end of a lease without keys. Sizes are
// counted in bytes, times-to-live in seconds.
//
// # Left out
//
// No time, no authorization, no quota (see [View.Stats]), no linearizability (that
// is the caller's barrier before it takes the View). Storage is memory; the log
// and snapshots are the truth on disk.
package kv
