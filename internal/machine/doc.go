// Package machine says what a protocol looks like here: a deterministic state
// machine that is stepped by one goroutine.
//
// A machine takes inputs one at a time together with the time at which they arrived, and
// gives back a [Ready]: messages to send, records to make durable before certain messages
// leave, outcomes, and the next alarm. It has no goroutine, clock, lock, random source or
// I/O of its own, so the same inputs always give the same outputs. Two drivers exist:
// package driver runs a machine for real, package sim runs many of them in one seeded
// world.
//
// The driving loop, in full:
//
//	for {
//		input, now := wait()          // a message, a caller's wish, a finished
//		m.Step(now, input)            // write, or Wake when the alarm rings
//		rd := m.Ready()
//		report(rd.Outcomes)           // before anything leaves
//		send(rd.Sends)                // at once, in any order
//		persist(rd.Persists)          // in order; once durable, step Persisted
//		                              // for it and send its Then
//		access(rd.Accesses)           // begin them; step Accessed as each ends
//		setAlarm(rd.Alarm)
//	}
//
// The duties of a driver:
//
//  1. Step and Ready are called by one goroutine at a time, with a Now whose
//     Mono never goes back.
//  2. Persists become durable in the order given. An envelope in Then may leave
//     (or, when addressed to the machine itself, be stepped) only when its own
//     record and all before that one are durable. A failed write is fatal: the
//     driver stops the machine for good.
//  3. Sends may be lost, duplicated, delayed or reordered. A Body is never
//     changed after it was handed out, by either side.
//  4. Accesses to shared storage run beside the machine and each other, in any
//     order. Each ends at most once, in an Accessed; one may never end.
//  5. Outcomes reach the owner before anything of the same Ready leaves.
//  6. A machine is woken (Step with Wake) at Alarm or later, never relied upon
//     to be punctual.
package machine
