// Package sim runs many machines in one seeded world: a scheduler, a network, a
// disk and clocks for each host, all of them faulty. One seed is one world, and
// replays exactly.
//
//	w := sim.NewWorld(seed)
//	net := sim.NewNetwork(w, overTheWire)
//	h := sim.NewProcess[In, Out](w, net, 1, 1e-4) // clocks up to 100 ppm off
//	h.Outcome = func(out Out) { … }     // the machine's owner
//	h.Access = func(h *sim.Host, a machine.Access) { … } // a shared storage
//	h.Start(m)                          // a machine.Machine[In, Out]
//	w.After(3*time.Second, h.Crash)
//	w.Run(time.Minute)                  // true time, that no host sees
//
// It knows no protocol. A world package does: it sets hosts, clients and storages
// up, draws the faults, and holds the checkers, which stand apart from the machines
// and know true time. It offers all that as a [Protocol], whose Play
//
//  1. draws everything from World.Rand and waits by World.After only, so that the
//     seed decides what happens. Map order must not reach the world;
//  2. draws which kinds of faults there are (World.Swarm), for faults hide others;
//  3. heals, wants progress within a bound, and breaks things again;
//  4. records events with World.Note, which the hash covers, and counts the judged cases
//     with World.Count;
//  5. returns the first violations. A panic is one, too.
//
// [Run] plays the worlds of many seeds, in parallel where the protocol allows; the
// report is the same each time. `tenure-lab sim` is a thin face of it. Package
// internal/lab/replicasim is an example of a world package, internal/lab/simtest has the tests that
// they share, internal/lab/mutant shows that those can fail.
//
// # Pictures
//
// Protocol.Replay plays a world again and keeps a [Timeline]: the rights that each held,
// the operations under way, and the faults meanwhile. World.Mark adds to it, and costs next
// to nothing when nobody looks. Marks neither draw random numbers nor change the hash.
//
//	m := w.Mark(sim.Holds, h.Lane, "token %d", token).Of("x")
//	m.Until(deadline)                   // again at each renewal
//	m.End()                             // released, or lost
//
// # What a host goes through
//
// It crashes and starts from the state on its disk. It is paused (SIGSTOP) or
// suspended. Its monotonic clock shows anything and drifts, at a rate that may
// change, and counts suspend. Its wall clock drifts and steps. Messages are lost,
// repeated, late, reordered, cut off one way or both. Its disk is slow. An access
// to shared storage that it began takes effect even if it is gone by then.
//
// # What is not simulated
//
// A turn takes no time, but may begin late (Host.Lag). A host's own disk tears no
// write and flips no bit; a shared storage does what its world makes it do.
package sim
