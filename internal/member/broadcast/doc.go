// Package broadcast is a member of a group with atomic broadcast: package abcast with disks,
// sockets and goroutines around it. The public package broadcast has its promises, and is a
// shell over this one. This one has besides what worlds and measurements need: another disk
// (Config.WAL), another network (Config.Dial), other algorithms to compare with
// (Config.Algorithm), and counts of messages (Stats).
//
// # Leases
//
// A leader orders in three steps and not four while it has a lease for the next instances of
// consensus; if it dies, those of the lease that are left take the longer way. So the length
// of a lease is a trade: it is 1,000 instances at most, and fewer after refusals.
// `tenure-lab figure5` counts both sides of it.
//
// # Files
//
// Ordered messages go from the log (log.go) to the history (history.go), where slow consumers and
// members that are behind read them. A snapshot replaces messages (snapshot.go); members that lack
// those get it by a state transfer (transfer_send.go, transfer_receive.go). Members note each other's
// directories and lives (memory.go), so that one that has forgotten something is found.
package broadcast
