// Package readtorture runs clusters of real Tenure members with read leases under load, and
// judges the answers that clients got. Meanwhile members are killed, stopped and cut off,
// the policy changes, and each life of a member has another TTL. Package torture does the
// like for leases of clients and holders of locks; this package tests the right to answer a
// read from a member's own memory.
//
// The load of a run: at each member, clients that know no other,
//   - in a closed loop: gets, puts, compare-and-swaps, deletes, and transactions and ranges
//     over several keys. The keys are few, and others take their place each second, or
//     every six seconds where policies have to learn the readers of each key. Each member's
//     clients prefer some of them, and others a little later;
//   - in an open loop: gets that set out every few milliseconds without waiting for those
//     before. So a member that was stopped finds on waking reads that were sent while
//     others could no longer wait for it;
//   - a watch of everything from the first revision.
//
// The plan of a run follows from its seed (plan.go). It has three members or five, one
// policy or several that take turns every second, and the TTL of each life of each member.
// It has the holders of the keys, drawn anew every second where they are given by hand. And
// it has four schedules side by side:
//   - of processes: kill -9 with a start at once or later, of one or all; SIGSTOP for
//     shorter and for longer than promises last, and in staccato;
//   - of links (server.Links): a pair, or all to or from a member, held in one direction
//     or both, whose bytes arrive later; or slow;
//   - of the membership: a member is removed. It may be cut off, stopped or dead and so not
//     know, while its clients go on asking it. Then a learner takes its place, from an
//     empty directory, and is promoted;
//   - of a member's inside (package hook): disks whose syncs take up to seconds, and
//     readers that pause between looking at their lease, the clock and the state, and
//     answering.
//
// The last of these needs a few calls laid over Tenure's sources (altered.go). So do clocks
// that are up to 0.9 % fast or slow, and logs so short that a member that was away is sent
// a snapshot. Tenure itself has none of it. -plain, and -short, torture Tenure as it is.
//
// The judges know the time of one clock, and nothing of the servers:
//   - linearizability by porcupine (model.go): keys that are read and written together
//     are one object, which says more than key by key. This holds in key order, too.
//     Values are unique, so that an answer tells versions and not values only. With
//     these, and without reads that say nothing more (steps.go), there is not much to
//     search. That holds even where a member was stopped and a hundred reads waited
//     for it;
//   - every answer equals the watched history at its header's revision, and every
//     acknowledged write is there once (audit.go);
//   - time (floors.go): in strict order no answer has a lower revision than any answer
//     or watched event before its request was sent, a serializable answer's included.
//     In key order, and where policies of both kinds take turns, that is asked of each
//     key's version, not of the revision;
//   - all watches show the same changes in the same order, without a gap or a repetition,
//     and in the end each member has what they add up to (watches.go).
//
// Reads under a lease are counted by the service ReadLease, by policy, and those apart that
// were answered by a member that held some of the keys only. Answers that a killed member
// gave since it was last asked are missing, so the count is a lower bound.
//
// Each judge is shown false histories in its tests, and the whole is shown members that
// break a rule, most of them of package replicasim's.
//
// Leaders are not asked to move: they lose their office when they are stopped, cut off or
// removed.
//
// On failure the plan is printed and the history is kept; -seed runs the plan again, but
// not with the same timing.
package readtorture
