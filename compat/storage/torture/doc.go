// Package torture has real processes take leases on real files, while they are killed
// and stopped and their disks fail, and judges what they report.
//
// The load of a run, for one directory, a set of three, or a device (in a file):
//   - children, which use the engine themselves: all of them want both of two names,
//     hold each for some milliseconds or for several Terms, release, and want it again;
//   - guardians: `tenure lock a --at file://… -- COMMAND`, again and again. The command
//     never looks at a clock; to end it in time is the guardian's business.
//
// One that ends is started again. The nemesis draws its schedule from a seed, and attacks a
// name's holder more often than others:
//
//	kill-child, -guardian, -command, -guarded  SIGKILL; of a guarded command, both
//	stop-child, -guarded   SIGSTOP until the lease is another's, then SIGCONT
//	hang-child             all accesses of a process hang, and are done later
//	vanish                 a directory is renamed away, and comes back
//	vanish-empty           and an empty one is there meanwhile   (of three)
//	restore                an older copy takes its place         (of three)
//	flip-one, flip-both    a bit in one, or both, copies of a record that is in use
//	fill                   nothing is left free on the filesystem
//	freeze                 writes hang in the kernel, and land later (fsfreeze)
//
// For fill and freeze each directory is on a filesystem of its own, of 12 MiB on a loop
// device, which root may make. Elsewhere these two are skipped, and counted as not
// possible.
//
// A device is only frozen, for less than Δ, as that is what it assumes of one. A handle
// needs an area of it, so a killed process keeps one for a while.
//
// Directories are attacked one at a time, and the next only when the last has been good for
// (Δ+6δ)·1.1. Tenure promises no more: a majority has to be there, and a directory that was
// put back from an old copy counts again only then. That a process which has just begun
// meets an old copy and a directory that lacks the same writes is not masked (see package
// quorumregister), and does not come about here.
//
// # The judge
//
// Holders append to a log with the time of the machine's one clock, CLOCK_BOOTTIME, each
// 5 ms: "my lease was valid at t". The judge knows that log and what the nemesis
// did, and nothing of leases:
//
//   - Never two holders: from the first to the last such time no two tenures overlap.
//   - Tokens only grow, and none is used by two processes.
//   - The fence, a file with the highest token, lets writes in in the order of tokens, and
//     refuses only holders that a newer one has overtaken.
//   - A process that loses a lease is told by its deadline: a child by Done. A guardian
//     exits with 76 and not 0, and its command is dead before the deadline it last printed.
//   - When it can be had, somebody gets the lease in time. The time is the sum of Δ+6δ and
//     a poll for the dead holder, 5δ for the next one's own accesses, and Δ/2+6δ if a
//     waiter before it is dead, too. δ is what the holders measured, at most Δ/12. A
//     second is for a busy machine. None of these terms has the time for which a step that is due waits
//     for a processor, so the judge measures it: a goroutine of its own wakes each 10 ms, and the bound grows by
//     all the time that it ran late while nobody held the lease. If it once ran late by 50 ms, a claim may have been slow, and
//     as much again as that costs is added. With a single directory the times in which it was
//     away, full or frozen do not count, nor the (Δ+6δ)·1.1 for which what may be damaged
//     is waited out.
//
// Two limits are the product's own and are respected. A child that was stopped is told when
// it goes on, not before. A command that was stopped together with its guardian may do some
// harm before it is killed. From its stop on it is judged by the fence alone.
//
// The judge is shown false histories in its tests, and the whole is shown holders that
// never look at their deadline.
//
//	go test ./storage/torture -short                 # two seeds, of about 20 s each
//	go test ./storage/torture -seed 7 -time 45s -v   # a seed again; -dir D keeps its files below D
//
// On failure the seed and the attacks are printed. A seed's schedule is always the same;
// its timing on the machine is not.
package torture
