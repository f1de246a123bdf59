// Package keyspan knows which entries of a log touch which keys, for as long as
// that matters. It is what per-key release in Quorum Leases (Moraru, Andersen and
// Kaminsky, SoCC 2014) needs on a log: the paper has single objects, a log has
// ranges, transactions and requests that touch everything.
//
// A [Span] is a key or a range of keys, with etcd's conventions; a [Set] is some
// of them. A [Table] holds the entries at the end of a log that may still make a
// reader or a writer wait:
//
//	var t keyspan.Table
//	t.Add(8, keyspan.Set{{Key: k}}, nil)   // entry 8 changes k
//	t.Add(9, writes, reads)                // 9 also looks at what others change
//	t.Add(10, keyspan.Set{keyspan.All()}, nil) // a barrier
//	t.Truncate(10)                         // another leader replaced 10
//	t.Blocked(9)                           // 8: it must be released before 9
//	t.Release(8)                           // every holder has it, or has no lease
//	t.Forget(8)                            // every state from now on includes 8
//
// # How a reader asks
//
// Forgetting an entry says nothing about a state that was captured before. So a
// reader of the set s captures a state, of index a, and then asks, in any order
// but under one lock (or on the goroutine that owns the Table):
//
//	a >= t.Floor()                  // else capture a newer state
//	a >= last                       // else wait until the state has it
//	first == 0                      // else wait until it is released
//	where last, first := t.Look(s)
//
// The lease that entitles it is judged after that. A reader that must wait for the
// state only needs the greater of Floor and last. Entries that are added while it
// waits are later than its read. But a state that includes one of them must not be
// shown before it is released: FirstUnreleased(s) is 0 or above a.
//
// # What it costs
//
// A single key is found in a hash map. Beside it, keys and ranges stand in two
// balanced trees whose nodes know, of all below them, how far they reach, the
// highest index and the lowest unreleased one. So adding, releasing and forgetting
// a key cost O(log n) for n keys and ranges in the Table. A query of one key costs
// a hash and a look at the ranges. A query of a range costs O(log n) among the
// keys, and about as much for each range that meets it. Queries allocate nothing.
// Memory is proportional to what is held; the hash maps keep the size of the
// greatest backlog until the Table is empty.
//
// # Assumptions
//
//   - One goroutine at a time changes a Table. Queries change nothing: many may ask
//     at once while nobody changes it.
//   - Indexes ascend, and a released entry is committed: no truncation reaches it.
//   - Entries are released and forgotten in about ascending order. Any order is
//     right; releasing downwards costs a walk over what is released and not yet
//     forgotten.
//
// The same calls always give the same answers: the trees' priorities are a
// sequence and not random.
//
// # What is left out
//
// The caller decides which member holds which key, which keys an entry touches, and when it
// may be released: see the replica package.
package keyspan
