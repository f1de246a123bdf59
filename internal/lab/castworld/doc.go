// Package castworld plays worlds of package broadcast as it ships, in a bubble of
// testing/synctest: real nodes with their drivers, logs, histories and streams. Networks and
// disks go wrong by a plan (package internal/lab/world).
//
// Members crash at any call of their disks, also while they recover. They come back with the files that
// a loss of power, or the death of the process alone, leaves; or with an older copy of their directory,
// or an empty one. At the end all lose their power at once. They stand still, are cut off in one
// direction, lose connections, and hear strangers that repeat a member's messages. Disks fail, fill up,
// hang and are slow. Applications keep snapshots and trim; some read slowly.
//
// # Checks
//
//   - One order: all members deliver the same message at a position, lives included.
//   - No duplicate and no invention: a payload has one position, and a client broadcast it.
//   - An acknowledged message is ordered, at the position that was acknowledged.
//   - A snapshot that is installed is the state after its position.
//   - A member with an empty directory is told that it has forgotten its promises, and takes no
//     part.
//   - When faults have ended, and again when all have lost their power after that, members that are
//     left deliver all that was acknowledged, and order what each of them broadcasts.
//   - Changes of the members are a part of the order. A removed member is told so and ends, no
//     other is told so, and a member that joins delivers all from the first position that it is
//     sent on.
//   - No member refuses another's messages, unless a stranger has spoken.
//
// The members' memory is not judged: packages broadcast and internal/lab/abcastsim have tests of that.
//
// Package internal/lab/abcastsim plays the machines alone: faster, and deeper.
package castworld
