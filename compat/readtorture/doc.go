// Package readtorture runs clusters of real Tenure members with read leases under load
// while members are killed, stopped and cut off, the policy changes and each life of a
// member has another TTL, and judges what clients saw. Package torture does the like
// for leases of clients and holders of locks; here it is about who may answer a read
// from its own memory.
//
// The load of a run: at each member, clients that know no other,
//   - in a closed loop: gets, puts, compare-and-swaps, deletes, and transactions and
//     ranges over several keys, on few keys that are replaced by others each second;
//   - in an open loop: gets that set out every few milliseconds whatever has become of
//     those before, so that a member that was stopped finds on waking reads that were
//     sent while others could no longer wait for it;
//   - a watch of everything from the first revision.
//
// The plan of a run follows from its seed (plan.go): three members or five, the policy
// or the policies that take turns every second, the TTL of each life of each member,
// and two schedules side by side. One is of processes: kill -9 with a start at once or
// later, of one or all; SIGSTOP for shorter and for longer than promises last, and in
// staccato. The other is of links (server.Links): a pair, or all to or from a member,
// held in one direction or both, whose bytes arrive later; or slow.
//
// The judges know the time of one clock, and nothing of the servers:
//   - linearizability by porcupine (model.go): keys that are read and written together
//     are one object, which says more than key by key. This holds in key order, too.
//     Values are unique, so that an answer tells versions and not values only: with
//     these, and without reads that say nothing more (steps.go), there is not much to
//     search even where a member was stopped and a hundred reads waited for it;
//   - every answer equals the watched history at its header's revision, and every
//     acknowledged write is there once (audit.go);
//   - time (floors.go): in strict order no answer has a lower revision than any answer
//     or watched event before its request was sent, a serializable answer's included.
//     In key order, and where policies of both kinds take turns, that is asked of each
//     key's version, not of the revision;
//   - all watches show the same changes in the same order, without a gap or a repetition,
//     and in the end each member has what they add up to (watches.go).
//
// Reads under a lease are counted by the service ReadLease. What a killed member answered
// since it was last asked is not, so the count is a lower bound.
//
// Each judge is shown false histories in its tests, and the whole is shown members that
// break a rule.
//
// Disks are not made slow: that takes a device of one's own. Package sim/replicasim does
// it. Leaders are not asked to move, for Tenure answers MoveLeader with Unimplemented; they
// lose their office when they are stopped or cut off.
//
// On failure the plan is printed and the history is kept; -seed runs the plan again. What
// the machine makes of it is not the same.
package readtorture
