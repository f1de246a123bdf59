// Command flease measures leases that peers keep among themselves beside those of a
// central service: etcd's locks and leases, and ZooKeeper's ephemeral nodes. Everything runs
// on this machine, one contestant at a time, each with three members; a run has all of
// them, and several are interleaved.
//
//	go run ./flease                      # etcd is built; ZooKeeper is Debian's package zookeeper
//	go run ./flease -runs 5 -callers 256 -json
//
// What is measured, with callers that each wait for their answer before they ask again:
//
//	turn   take a free lease and give it back: Acquire and Release; Lock and Unlock of a
//	       concurrency.Mutex; create and delete an ephemeral node
//	take   take a free lease and keep it: Acquire; Grant; create an ephemeral node
//
// Beside the rate stands what the whole machine spent on each, in CPU time of all processes
// that the contestant needs, callers included, for the callers of flease are its
// peers.
//
// What the comparison leaves out: etcd and ZooKeeper write each change to three disks, and
// survive a power cut; flease has nothing on disk, and is silent for t_max after a restart
// instead. That is the bargain which the paper offers.
package main
