// Command bench measures etcd and Tenure side by side, on three members each.
//
//	go run ./bench -runs 3                                 # everything
//	go run ./bench -only put,keepalive -duration 2s        # cases whose names contain these
//	go run ./bench -etcd-env GOGC=800                      # etcd a second time, with these
//	go run ./bench -o json > result.json
//	go run ./bench -plot ratios.svg
//
// A run starts each variant on empty data, alone, one after the other, and the
// order turns from run to run; what is printed are medians over runs and
// ratios to etcd at its defaults, better ones above 1.
//
// `tenure serve` counts 128 MiB of nothing as heap, so that a small server does
// not collect garbage all the time. With the 20 to 40 MB that an etcd has alive
// here, GOGC=800 gives it as much room: that is the fair second measurement.
//
// The members and the load share this machine, so rates say what is left after
// the load took its share. CPU/op does not depend on that: it is user and system
// time of all members together (from /proc, Linux only) for an operation.
// Latencies are as clients see them. Connections of clients go round the
// members, except where a case says leader or follower.
//
// Cases:
//
//	put                     256 bytes, 10,000 keys
//	get-leader, -follower   linearizable
//	get-serializable        any member
//	grant                   leases that are not given back
//	keepalive-leader, -follower  each client renews its own lease on a stream
//	cycle                   grant, put with the lease, revoke: one operation
//	lock                    16 contenders for one concurrency.Mutex; the latency is
//	                        from the Unlock call to the next holder's return of Lock
//	watch                   a put every 2 ms, each seen by every client's watch; from
//	                        the start of the put to the event
//	memory                  resident memory a lease and member, of 100,000 leases,
//	                        with GOGC=10 so that garbage counts little
//	expiry-10k, expiry-100k leases renewed together and left to expire, each with a
//	                        key; from TTL after the renewal's answer to the delete event
//	gap-open, gap-closed    longest time without an acknowledged put around kill -9 of
//	                        the leader; puts start every 5 ms whatever happens, or
//	                        when the last of the same client ended
package main
