// Package holder is what all engines have in common on the side of the holder: how a claim
// becomes a lease, how long its holder may believe in it, and how it ends.
//
// An engine implements [Engine], which contends for a claim once, and [Claim], which is one
// claim at its store. This package has the rest:
//
//   - [Admit]: TryAcquire and Acquire, what they wait for, and what their callers are told;
//   - [Lease]: the deadline, which only a renewal moves, and only before it has passed; Done,
//     Check and Err; and an end that is final, whatever comes in later;
//   - [Release] and [ReleaseAll]: the tenure ends before the store is told, the store is told
//     at most once, and never of a tenure that was lost;
//   - [Calls]: the calls that are under way, which Close cuts short.
//
// What a renewal is, and when its deadline is, are the engine's.
package holder
