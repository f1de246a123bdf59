// Package memberworld plays clusters of whole members in one testing/synctest bubble: real
// servers (node, driver, wal, peer, watch, etcdapi, gRPC) and real clientv3 clients. The disks
// and networks are of package world, and go wrong by a plan.
//
//	go test ./internal/lab/memberworld -run TestWorlds -worlds 200           # as many as you like
//	go test ./internal/lab/memberworld -run TestWorlds -seed 42 -count 10    # one again
//
// The simulated worlds of package replicasim are faster by far and go deeper into the protocol.
// They have models in the place of everything around it, and defects were there: in the order
// of writes and messages, in the members that are believed, in a start's reading of a
// directory.
//
// # A world
//
// Three or five hosts start one member each, again and again, as systemd does. The flags differ now and
// then (the length of read leases, sizes of segments and of the log between snapshots; in some worlds a
// newer version). Clients read and write three registers, hold leases and watch, and in some worlds one
// compacts. In half of them clients move money between accounts, in transactions of several keys. In
// some worlds users are in force: all clients have tokens, and two users are given the right to one key after the other and lose it
// again, while they call. In some, all members but one are lost at the end, and that one begins another cluster. In
// half of the worlds processes contend for leases by internal/holder/etcd, with clocks of their own; they die,
// and stand still for longer than a lease. An operator adds, promotes, removes, replaces and moves
// members, and changes the policy of read leases. For half a minute faults happen:
//
//   - processes are killed, restarted with other flags, or stand still, at any system
//     call or between two readings of a clock, for longer than a lease;
//   - machines lose their power, and disks lose unsynced data, in part, in any order;
//   - disks are slow, hang, fail, or are full; they come back empty, or older;
//   - the network is cut in one direction or two, connections are reset, or are half open;
//   - clocks run at rates within what leases allow for, and times of day jump. In wild
//     worlds virtual machines are frozen and clocks run at any rate; there read leases are
//     off, and the lengths of leases are not judged;
//   - a stranger speaks to the port for members, or asks too much at that for clients.
//
// Then no more faults happen, and everything has to come to rest within a bound.
//
// # Judges
//
// They stand apart from the members, and see what clients were told, with the world's own
// time:
//
//   - the history of all requests is linearizable (porcupine). One that is not decided in
//     time fails;
//   - each acknowledged write is in the log at the revision that was told, and each value
//     that was read is one that was written there;
//   - all accounts read at once show both sides of each transfer or neither, and every transfer
//     that was over;
//   - the members' logs of events agree;
//   - a lease that was renewed is there for its TTL, less the differences of clocks; one that
//     is not renewed ends, also while others ask for its ID; none is left over;
//   - under a leader that stays a lease ends within half a second of its TTL;
//   - no two hold one lease of internal/holder/etcd at once, tokens grow, and each lease can be had in the end;
//   - a watcher is told of each event once and in order, and of none behind its progress; one
//     that meets a compaction goes on behind it, and has missed no more than that;
//   - compacted revisions cannot be read, and the others read as before;
//   - no term has two leaders;
//   - a user's call that begins after the acknowledgment of a revocation never succeeds, one with a right is never denied, and after
//     a loss of power rights are as they were;
//   - a cluster that begins anew has all acknowledged writes that the survivor knew, none that nobody made, and gives out revisions,
//     and so tokens, beyond all that were told;
//   - in the end the power of all machines fails at once: every member starts again, and all
//     agreed writes are there;
//   - goroutines, memory, connections and the list of
//     members stay within bounds.
//
// A batch of worlds in which one of the faults never happened fails: it shows nothing.
//
// # Left out
//
// See package world: no starvation, no races within computations, no kernel. An "older disk"
// happens only where nothing else goes wrong. No member can know that its own disk is old; if
// another lags at the same time, writes that only the old disk had are lost, with any such
// protocol.
//
// Two versions of a member in one bubble are one package in two guises, for there is one package
// replica in a program. replica.Config.Older makes a member write and read no more of the log than one
// from before levels did (internal/core/replica/level.go). In some worlds members begin so and are
// replaced by newer ones, one after the other. No test runs real binaries of two versions: none was
// released yet.
//
// # How far a seed goes
//
// The plan, the requests and crypto/rand come from the seed; the order of goroutines does not.
// Of worlds that failed, most fail again within a few tries with the same seed. The trace of
// one that failed stays, at a path that is printed: its first lines are the plan.
package memberworld
