// Command bench measures etcd and Tenure side by side, on three members each, or as many as -members says.
//
//	go run ./bench -runs 3                                 # everything
//	go run ./bench -only put,keepalive -duration 2s        # cases whose names contain these
//	go run ./bench -etcd-env GOGC=250                      # etcd a second time, with these
//	go run ./bench -only reads                             # reads under leases, and the least they could cost
//	go run ./bench -only policy -members 5                 # what a policy costs, and saves
//	go run ./bench -o json > result.json
//	go run ./bench -plot ratios.svg
//	go run ./bench -guard bench/testdata/echoes.json -duration 1s  # fails if something has become slower
//
// A run starts each variant on empty data, alone, one after the other, and the order turns
// from run to run. It prints medians over runs and ratios to etcd at its defaults; better
// ones are above 1.
//
// `tenure serve` counts 32 MiB of nothing as heap, so that a small server does
// not collect garbage all the time. With the 20 to 40 MB that an etcd has alive
// here, GOGC=250 gives it as much room: that is the fair second measurement.
//
// The members and the load share this machine, so rates say what is left after
// the load took its share. CPU/op does not depend on that: it is user and system
// time of all members together (from /proc, Linux only) for an operation.
// Latencies are as clients see them. Connections of clients go round the
// members, except where a case says leader or follower.
//
// The first cases are those of tenure bench server: see internal/load. The others start
// clusters of their own, or kill members:
//
//	memory                  resident memory a lease and member, of 100,000 leases,
//	                        with GOGC=10 so that garbage counts little
//	expiry-10k, expiry-100k leases renewed together and left to expire, each with a
//	                        key; from TTL after the renewal's answer to the delete event
//	reads-leader, -follower, -serializable  gets at the leader, at one follower, and
//	                        serializable ones at one follower; for these cases Tenure
//	                        is there once for each policy of read leases, and beside
//	                        the servers an echo: one process with the same gRPC
//	                        options, codec and heap floor, that answers any get with
//	                        256 bytes. A second table has ratios to the echo, and how
//	                        many reads were answered under a lease
//	policy-put, -get        one client alone, at the leader and at a follower, under
//	                        each policy of read leases, while each member is read from
//	policy-leader-dies, -holder-dies  as gap-open, under each policy; the holder is a
//	                        follower. With -members 1 nobody dies
//	gap-open, gap-closed    longest time without an acknowledged put around kill -9 of
//	                        the leader; puts start every 5 ms whatever happens, or
//	                        when the last of the same client ended
package main
