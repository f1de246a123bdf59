// Command flease measures leases that peers keep among themselves beside those of a
// central service: etcd's locks and leases, and ZooKeeper's ephemeral nodes. Everything runs
// on this machine, one contestant at a time, each with three members; a run has all of
// them, and several are interleaved.
//
//	go run ./internal/protocol/flease                      # etcd is built; ZooKeeper is Debian's package zookeeper
//	go run ./internal/protocol/flease -runs 5 -callers 256 -json
//
// These operations are measured, with callers that each wait for their answer before they
// ask again:
//
//	turn   take a free lease and give it back: Acquire and Release; Lock and Unlock of a
//	       concurrency.Mutex; create and delete an ephemeral node
//	take   take a free lease and keep it: Acquire; Grant; create an ephemeral node
//	renew  keep a lease: a peer does so by itself at half of each; a keep-alive of a lease on
//	       a stream of its own; a ping of a session, for ZooKeeper's leases are sessions
//	touch  of ZooKeeper, set an ephemeral node, beside flease's renewals: a ping is answered by
//	       one server alone, and a majority agrees on each set as it does on a renewal
//
// Renewals of flease cannot be asked for. So leases of four seconds are added until one
// renewal in a hundred comes later than a tenth of that, or a lease is lost; the last rate
// before that counts. In the place of latencies stands by how much they were late.
//
// Beside the rate stands what the whole machine spent on each, in CPU time of all processes
// that the contestant needs, callers included, for the callers of flease are its
// peers.
//
// The comparison leaves out durability. etcd and ZooKeeper write each change to three
// disks, and survive a power cut. flease has nothing on disk, and is silent for t_max after
// a restart instead. That is the bargain which the paper offers.
package main
