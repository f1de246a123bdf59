// Package castworld plays worlds of package broadcast as it ships: real nodes with their drivers,
// logs, histories and streams in a bubble of testing/synctest, on networks and disks that go
// wrong by a plan (package internal/lab/world).
//
// Members crash at any call of their disks, also while they recover, and come back with what a loss
// of power, or the death of the process alone, has left; or with an older copy of their
// directory, or an empty one. At the end all lose their power at once.
// They stand still, are cut off in one direction, lose connections, and hear strangers who repeat
// what a member has said. Disks fail, fill up, hang and are slow. Applications keep snapshots and trim;
// some read slowly.
//
// # What is checked
//
//   - One order: what is delivered at a position is what all deliver there, lives included.
//   - No duplicate and no invention: a payload has one position, and somebody broadcast it.
//   - What was acknowledged is ordered, where it was said to be.
//   - A snapshot that is installed is the state after its position.
//   - A member with an empty directory is told that it has forgotten what it promised, and takes
//     no part.
//   - When faults have ended, and again when all have lost their power after that, members that are
//     left deliver all that was acknowledged, and order what each of them broadcasts.
//   - Changes of the members are a part of the order. One that was removed is told so and ends, no
//     other is told so, and who joins delivers all from the first position that it is sent on.
//   - Nobody refuses what a member says, unless a stranger has spoken.
//
// What members keep in memory is not judged: packages broadcast and internal/lab/abcastsim have tests of that.
//
// Package internal/lab/abcastsim plays the machines alone: faster, and deeper.
package castworld
