// Command bench measures leases in directories beside sanlock on the same disk, and
// what a renewal there costs beside one at a lease server, or in Redis.
//
//	go run ./storage/bench                     # under three minutes, of which sanlock takes 70 s for one takeover
//	go run ./storage/bench -dir /mnt/shared    # on another filesystem; it needs direct I/O
//	go run ./storage/bench -only renew,cost    # parts whose names contain these
//	go run ./storage/bench -o json > result.json
//	go run ./storage/bench -svg cost.svg
//
// Everything is in one run: variants take turns, medians are printed, and ratios to the
// first variant of a part, better ones above 1. Programs that are not installed (sanlock,
// strace, redis-server) are left out, with a note.
//
// # Beside sanlock: acquire, renew, release, takeover
//
// sanlock's delta leases are the same paper's algorithm, so its io_timeout is our δ.
// Its least is 1 s (-o 1). It runs as "sanlock direct", without its daemon; the code of
// the leases is the same. The variants:
//
//	sanlock      io_timeout 1 s, on a file of 16 MiB
//	δ = 1 s      Tenure in a directory on the same disk, at the same δ
//	tenure       Tenure with the δ that it chose there itself, Δ = 15 s
//	Δ = 8 s      the same, with sanlock's promise to the holder: see below
//
// Times are those of the operation: ours by the process's own clock, sanlock's by its I/Os,
// from the first to the last (by strace, which adds some 0.1 ms). "Process" is what
// `sanlock direct` took from start to exit, and CPU that of the process; ours is a small
// process that acquires and releases. I/Os and bytes are from strace of one operation each:
// reads and writes of the lease file or directory, and the number of other calls (open,
// stat, list, close).
//
// Mind what a renewal is. Ours is Figure 5: read, write, 2δ, read back. sanlock leaves the
// 2δ and the read-back to the next renewal, so its renewal is over with the write. A lost
// lease is noticed a period later, and its watchdog makes up for that. Besides, it reads
// the whole lockspace (1 MiB) for its messages between hosts.
//
// Which Δ is the same promise? A holder of sanlock's holds for 8 io_timeouts after its last
// renewal, and is then killed. Others wait for another 60 s in which the watchdog is to
// reset its host: 8+60 s, and 2 δ. So what the holder is promised at -o 1 is Δ = 8 s.
// Tenure has no watchdog to wait for: Done closes at the holder's deadline, and a guardian
// kills what runs; a process that has stopped altogether is left to the fence. At δ = 1 s
// it makes no lease shorter than 12 δ, so that variant has Δ = 12 s: it promises more. The
// takeover ought to be Δ + 6δ, a poll, and the 2δ and three accesses of the new holder. It
// is counted from the beginning of the contender, which begins when the holder has just
// died.
//
// # Beside servers: cost
//
// The paper's section 10 asks what storage-centric leases cost beside a lease manager.
// One process holds 1, 8, 64 leases of Δ = 3 s and renews each every second. It counts
// from when it has held them for a while:
//
//	directory, 3 directories   many leases share an I/O
//	server, 3 servers          tenure serve on the same disk, keep-alives on a client's stream
//	redis, 3 redis             internal/host/register/redis, appendfsync always, on the same disk
//
// The latency is a renewal's: for storage it includes the 2δ, during which nothing
// happens. CPU is that of all processes together, client and servers, for a
// renewal; and without any lease, for a second: "cost 0". Bytes are those that
// reached a disk (/proc/PID/io). I/Os are what stores were asked: batches, in which
// all that waits goes together.
package main
