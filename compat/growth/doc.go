// Command growth measures how the cost of an operation grows with a cluster's size: with the keys, leases and
// watchers that it has, the members, the bytes of a value, and the clients.
//
//	go run ./growth                            # all six, some twenty minutes
//	go run ./growth -only clients,bytes        # some
//	go run ./growth -kind etcd                 # a stock etcd's
//	go run ./growth -top 100000                # no more keys, leases and watchers than this
//	go run ./growth -dir ../docs               # and writes growth-keys.svg, growth-leases.svg, …
//
// The cost is the CPU time of all members for an operation, by 64 clients unless the clients grow; that of a
// put, of a get at the leader, of a renewal at the leader, or of an event. Memory is resident, of one member.
// Members and load share the machine.
package main
