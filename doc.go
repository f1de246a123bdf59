// Package tenure is the contract of a lease: the right to a named resource for
// a bounded time, with a fencing token.
//
// A [Leaser] is what an engine offers, a [Lease] what its holder has in hand.
// Package engine opens a Leaser by URL. The short way to use one:
//
//	leaser, err := engine.Open(ctx, "etcd://127.0.0.1:2379")
//	…
//	err = tenure.Do(ctx, leaser, tenure.Claim{Name: "nightly-report"},
//		func(ctx context.Context, lease tenure.Lease) error {
//			return report(ctx, lease.Token()) // ctx ends when the lease does
//		})
//
// # What every engine promises
//
// Package leasetest checks these promises, for any engine:
//
//   - There are never two exclusive holders, as judged by real time, within the
//     engine's stated assumptions: Done closes, and Check fails, before another
//     holder may start.
//   - The deadline counts from when the request was sent, on a clock that
//     counts suspend.
//   - The token of a name only grows, over crashes, releases and restarts too.
//     Package fence checks it at the resource.
//   - Renewal retries until the deadline and never after. A failed or late
//     renewal is a loss, even if the store still shows our name.
//   - Release happens after the guarded work returned, and can never free a
//     newer holder's lease. Close releases.
//   - Anyone can look without contending, and sees the holders and their deadlines. Waiting
//     is by context. Every error says what to do.
//
// # What no engine promises
//
// A lease cannot stop its holder. A process that is suspended, or a thread that
// is not scheduled, does not see Done close; when it runs again it may finish
// the write that it had begun, long after another became holder. Only the
// resource can refuse that write, by the token: give it along with every write,
// and let the resource refuse a token below the highest that it has seen.
//
// A lease is not fair to the millisecond either: it goes to the claim that the
// engine says is next, when the engine notices that it is free.
package tenure
