// Command widearea measures etcd and Tenure side by side where members are far apart. It
// times the waits of clients at five sites whose distances are emulated.
//
//	go run ./widearea                                # medians of three rounds, a quarter of an hour
//	go run ./widearea -policies all,all/key,cost/key -rounds 1
//	go run ./widearea -reads 0.9,1 -pause 20ms -o json > result.json
//
// Five members, the processes that are shipped, are at the sites of package
// internal/lab/widearea: Japan, California (the leader), Oregon, Virginia and Ireland. Data
// from one to another pass through a proxy that keeps them for half of their round trip,
// counted from their arrival. Bandwidth is not limited, and nothing is lost or out of
// order. At each site ten clients do one operation after the other at the member there,
// with no delay between client and member. The keys are there from the beginning, and each
// site has favourites of its own (YCSB's Zipf 0.99). All ask for the same of all systems:
// etcd, and Tenure under each policy of read leases that is named.
//
// A round starts each system on empty data, alone, one after the other, and the order turns
// from round to round; medians over rounds are printed. The first third of each run, in
// which policies learn the readers of each key, does not count. Each operation is judged as
// it ends: one that misses what another on its key has seen that ended before it began is
// stale, and the command fails.
//
// Both kinds are given the times that etcd's guide recommends for members so far apart. A
// heartbeat (-heartbeat-interval=300, in milliseconds) takes a little more than the longest
// round trip, 270 ms. An election (-election-timeout=3000) takes ten times as long. All
// else is as it is without flags, read leases of 200 ms included.
//
// Columns:
//
//	get, put       latencies of linearizable gets and of puts; after each by how many
//	               times it is less than etcd's: above 1 is better
//	under a lease  gets that a member answered by itself, even if it first waited for
//	               writes that were on their way
//	< 10 ms        gets that the paper calls local, at any member
//
// A member of etcd asks the leader once for all gets that wait, and asks again when that is
// answered. So most of ten clients wait for two answers, and one alone (-clients 1) for one.
//
// Members, proxies and clients share the machine. Clients of a system that answers in half
// a millisecond ask much more often than those of one that takes 100. With -pause they rest
// between operations, so that latencies are compared and not processors.
package main
