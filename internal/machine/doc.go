// Package machine says what a protocol looks like here: a deterministic state
// machine that one goroutine steps.
//
// A machine takes inputs one at a time, together with the time at which they arrived. It
// gives back a [Ready]: messages to send, records to make durable before certain messages
// leave, outcomes, and the next alarm. It has no goroutine, clock, lock, random source or
// I/O of its own, so the same inputs always give the same outputs. Two drivers exist:
// package driver runs a machine for real, package sim runs many of them in one seeded
// world.
//
// The driving loop, in full:
//
//	for {
//		wait()                        // for an input, a message, the end of a
//		                              // write or of an access, or the alarm
//		m.Step(now, input)            // or m.Receive(now, message),
//		                              // m.Accessed(now, end), m.Wake(now)
//		rd := m.Ready()
//		report(rd.Outcomes)           // before anything leaves
//		send(rd.Sends)                // at once, in any order
//		persist(rd.Persists)          // in order; send Then once it is durable
//		access(rd.Accesses)           // begin them; call Accessed as each ends
//		setAlarm(rd.Alarm)
//	}
//
// The duties of a driver:
//
//  1. One goroutine at a time calls the machine, with a Now whose Mono never goes
//     back.
//  2. Persists become durable in the order given. An envelope in Then may leave
//     (or, when addressed to the machine itself, be received) only when its own
//     record and all earlier ones are durable. A failed write is fatal: the
//     driver stops the machine for good.
//  3. Sends may be lost, duplicated, delayed or reordered. Neither side changes a
//     Body after it was handed out.
//  4. Accesses to shared storage run beside the machine and each other, in any
//     order. Each ends at most once, in a call of Accessed; one may never end.
//  5. Outcomes reach the owner before anything of the same Ready leaves.
//  6. The driver calls Wake at Alarm or later. A machine must not rely on it to be
//     punctual.
//
// # Types
//
// Inputs and outcomes have the types of their machine: they come from its owner and go to
// it, inside one program, and the compiler refuses those of another machine. A machine
// with several kinds of them has a sealed interface. A machine that stands around another
// one, and adds inputs or outcomes, embeds a Beside of the inner machine's package in them.
//
// The Body of an Envelope and the Record of a Persist stay any. They come from a codec,
// which finds the type by a byte, and each machine judges what it receives: a message of
// the wrong type is data, as one with a wrong number is. Machines in layers put each
// other's bodies and records into their own, so a type parameter for either would go
// through every signature and exclude nothing.
package machine
