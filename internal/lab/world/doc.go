// Package world plays worlds of whole processes: the code that ships, in simulated time, on
// networks and disks that are in memory and go wrong by a plan.
//
//	func TestWorlds(t *testing.T) {
//		world.Batch(t, 20, 20, []string{"elections", "fault: crash"}, func(t *testing.T, seed uint64) world.Result {
//			plan := draw(world.Rand(seed, "plan"))
//			return world.Play(t, world.Options{Seed: seed, Plan: plan}, func(w *world.World) {
//				w.Happen(func(f world.Fault) bool { … }) // kills, cuts and what else is not a Process's
//				p := w.Start("m0")                      // a process
//				n := network.New(w, time.Millisecond, 5*time.Millisecond)
//				l, err := n.Listen(p, 2380)             // for its Config
//				dial := n.Dialer(p)
//				fsys := disk.New().FS(p)
//				…
//				if bad { w.Fail("a key was lost: …") }
//				w.Forgo()                               // no more faults: liveness is judged from now on
//				…                                       // everything is stopped
//			})
//		})
//	}
//
// The rest is in the packages below: [network] has listeners and connections with delays,
// cuts in one direction, resets, half-open connections and refusals; [disk] has what
// package wal stands on. Clocks are clock.Simulated.
//
// # Why synctest
//
// testing/synctest gives real goroutines, real timers and a time that passes only while all of
// them wait. The code need not be written for it, nor changed, but for seams that are honest
// parameters: a Dial function, a listener, a file system, a clock. Other ways were not taken. A
// deterministic hypervisor is not to be had here. Rewriting sources or the runtime (gosim,
// WebAssembly) would have to carry gRPC and raft, and to follow each version of Go. Real
// processes with faults (package compat has some) need real time, so that a lease costs a
// second each time, and show each course once.
//
// # Its rules
//
//   - Waiting on a channel, a timer, a Cond or a WaitGroup of the bubble is durable: time may
//     go on. Waiting for a mutex is not, nor is a socket, a file, a channel that was made
//     outside. A goroutine that waits so freezes time. [Play] panics with all stacks when
//     time has stood still for Options.Patience by a true clock; the goroutine whose state lacks "(durable)" is
//     the one to blame. So a seam must not wait (and a Process may be told to stand still in
//     any seam) while a lock is held that others need.
//   - When the body has returned, time stops for good. Play sleeps for Options.Drain first,
//     so that timers and sleepers can end. Everything the body started must be stopped.
//   - Time does not pass while anybody computes: a world shows no starvation, no slow code
//     and no timeout for want of CPU. Load tests are for that.
//   - All processes of a world share package variables and one Go time. A clock.Simulated
//     runs at a rate of its own, Go's timers do not.
//   - A process that stands still (SIGSTOP) does so at seams, not within a computation.
//
// # Faults
//
// A [Fault] is drawn from the seed before the world begins, and bound to the n-th operation
// of a process at a seam, or to a moment. The former survives small changes of the order, and
// hits between two operations where moments would hardly ever: the process stands still before the
// operation until the fault has been carried out. Worlds are drawn as a swarm: each has few
// kinds of faults, and those often. A fault is counted when it is carried out, so that a batch in
// which one of its kind was drawn and never happened fails.
//
// A [Process] carries out the faults at its seams: it delays, hangs, fails and stands still.
// The rest, like kill, cut and stranger, is the world's own to do: see [World.Happen].
//
// # How far a seed goes
//
// The plan, the clients' requests, crypto/rand (and so raft's timeouts and all IDs), the
// outcome of a power cut and the delays come from the seed. The order in which goroutines
// run that are ready at the same moment does not, and neither do math/rand/v2's own
// functions, map iterations and select. So a seed names a world but not one course of
// events: one that failed fails again often, not always. On one P (Options.Procs) a program
// without gRPC mostly repeats exactly; compare [Result] Digest. A world that failed leaves
// its trace behind, in the file that [TraceFile] names. It is written line by line, so that
// it is there after a panic, too.
//
// To try a seed again: go test ./internal/lab/memberworld -run TestWorlds -seed 42 -count 20.
package world
