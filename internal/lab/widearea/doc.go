// Package widearea plays the evaluation of quorum leases (Moraru, Andersen and Kaminsky, Paxos
// Quorum Leases: Fast Reads Without Sacrificing Writes, SoCC 2014, section 5). It runs over the
// product's own replicas, in virtual time, and shows the cost and gain of policies of read
// leases where replicas are far apart.
//
//	report, err := widearea.QuickPlan.Evaluate()   // all of it, in seconds
//
//	o, err := widearea.Run{                        // a policy under a workload
//		Seed: 1, Policy: "all", Workload: widearea.Figure6, Size: widearea.Full,
//	}.Play()
//	t, err := widearea.Deaths{                     // and through a replica's death
//		Seed: 1, Policy: "all", Site: 3, Times: 20,
//	}.Play()
//
// # The play
//
// There are five replicas, a site each, as far apart as in the paper's Table 1. Ten clients a
// site do one operation after the other at the replica of their site. The 100,000 keys have
// YCSB's popularity, with another order at each site, or are all equally likely. A [Run]
// measures latencies: Figure 6, Table 2, and operations on several keys, for which section 5.5
// only states expectations. deaths measure writes at a steady rate while a replica dies:
// Figure 7. All clients ask for the same under each policy, so that differences are the
// policies'.
//
// A policy is a name that the cluster is given and nothing more here. One that the
// build does not know is left out, and named in the report.
//
// A control puts the paper's own ways in the place of the product's: pushed promises, with
// guard and grace, and their consequences. Deaths under it are Figure 7 as the paper has it,
// over the same code; a sweep of the lengths is its section 3.8.
//
// Each operation is judged as it ends: it may not miss what one on its key has seen that ended
// before it began. The paper's figures and the measured ones are kept apart, in [Paper] and
// [Measured].
//
// # Differences from the paper
//
//   - In strict order, where a policy has that, a write is released with all that are
//     before it in the log. A holder's read then waits for every write that is on its
//     way, and not for those to its key only.
//   - Raft with entries durable at a majority, 50 µs to 2 ms a disk; the paper's
//     Multi-Paxos keeps nothing on disk.
//   - A write takes four one-way delays in strict order (see [Floor]), and in key order three
//     (see [FloorByKey]), as all systems of the paper's. So its statements about its leader
//     lease and Megastore's leases are compared with leader/key and all/key.
//   - Links keep order, as streams do, and take up to 1 ms more than half of Table 1.
//   - A replica that dies is gone with its host: no other sees a connection close.
//
// # Left out
//
// The time of processors is left out, except for throughput (Figure 8), which models it.
// There each replica has one, and the product's measured costs of a request, a write and a
// frame of messages ([ServiceTimes]) are taken of it. The effect of a machine's other work on a
// replica is not in it, nor bytes on a wire.
//
// Like all worlds of replicas they are played one at a time, in a process that needs
// no secrets meanwhile: see package replicasim.
package widearea
