// Package holder has the holder's side of a lease for all engines: how a claim becomes a lease, how
// long its holder may believe in it, and how it ends.
//
// An engine implements [Engine], which contends for a claim once, and [Claim], which is one
// claim at its store. This package has the rest:
//
//   - [Admit]: TryAcquire and Acquire, their waiting, and their errors;
//   - [Lease]: the deadline, which only a renewal moves, and only before it has passed; Done,
//     Check and Err; and an end that is final;
//   - [Release] and [ReleaseAll]: the tenure ends before the store is told, the store is told
//     at most once, and never of a tenure that was lost;
//   - [Calls]: the calls that are under way, which Close cuts short.
//
// The engine renews, and says until when a renewal lasts.
package holder
