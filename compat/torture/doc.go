// Package torture runs three members under load while leaders and lease holders
// are killed, stopped beyond the TTL and resumed, and judges what clients saw.
//
// The load of a run:
//   - workers that put, get, compare-and-set and delete a few keys through any
//     member, with a time limit; an operation that failed may have happened;
//   - holders, processes of their own, that take turns on a few locks, each with
//     a lease that it renews (see holder.go);
//   - leases that are renewed to the end, and leases that are abandoned.
//
// The nemesis draws its schedule from a seed: kill -9 of the leader, of a
// follower, of all; SIGSTOP of the leader or a follower; SIGSTOP beyond the TTL
// and kill -9 of a holder. A watch from revision 1 records all events.
//
// The judges know real time (one clock of the machine that counts suspend) and
// nothing of the servers:
//   - linearizability, key by key, by porcupine (model.go);
//   - every acknowledged write is in the watched history, at its revision and
//     with its value; every read equals that history at its header's revision;
//     revisions follow real time over all keys (audit.go);
//   - no two holders of a lock at once: a holder holds from the answer that gave it the
//     lock to the last instant at which it judged its own lease to be valid. A lease is
//     valid until TTL after its last successful renewal was sent. A later holder has a
//     higher token (holders.go);
//   - no lease ends before TTL after its last successful renewal was sent; those
//     renewed to the end exist at the end, abandoned ones do not (leases.go).
//
// TestUpgrade starts the members with an older version, and the nemesis upgrades each of them to
// this one, between its attacks (`make upgrade`).
//
// Each judge is shown false histories in its tests, and the whole is shown
// holders that do not watch their deadline.
//
// The behaviour of a stock etcd under the same attacks is logged and fails nothing. In
// three of five runs of a minute leases of etcd 3.7.3 ended up to a whole TTL early. A
// leader that was stopped and wakes expires, through its successor, the leases that were
// renewed there.
//
// On failure the seed and the schedule are printed: -seed runs it again. The
// schedule is the same, what the machine makes of it is not.
package torture
