// Package holder has the holder's side of a lease for all engines: how a claim becomes a lease, how
// long its holder may believe in it, and how it ends.
//
// An engine implements [Engine], which contends for a claim once, and [Claim], which is one
// claim at its store. This package has the rest:
//
//   - [Admit]: TryAcquire and Acquire, their waiting, and their errors.
//   - [Lease]: Done, Check, Err, an end that is final, and the deadline. Only a renewal moves the
//     deadline, and only before it has passed.
//   - [Release] and [ReleaseAll]: the tenure ends before the store hears of it. The store hears of
//     it at most once, and never of a tenure that was lost.
//   - [Calls]: the calls that are under way, which Close cuts short.
//
// The engine renews, and says until when a renewal lasts.
package holder
