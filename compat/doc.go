// Package compat holds Tenure against stock etcd. It is a Go module of its own,
// so that etcd's server and command line never enter Tenure's dependencies:
// both are tools of this module, built from the module proxy.
//
//	server    starts, stops, kills and pauses members of either kind
//	diff      the same random calls to both kinds, replies compared
//	ctl       one etcdctl script, its output compared between the kinds
//	upstream  etcd's own tests of locks, elections, leases and naming, redirected
//	leases    our cases of leases: expiry, attachment, dead and stopped leaders
//	bench     both kinds side by side, with server CPU per operation
//	growth    how the cost of an operation grows with keys, leases, watchers, members, values, clients
//	widearea  both kinds side by side where members are far apart, by delayed links
//	redis     internal/host/register/redis against real Redis servers, and beside Redlock
//	fence     fence.Row against MariaDB and PostgreSQL, at each isolation level
//	flease    leases among peers, beside etcd and ZooKeeper: rates
//	storage   leases in directories: beside sanlock, the lease server and Redis; tortured
//	readtorture  read leases under kill -9, SIGSTOP, held links, slow disks, wrong clocks and changes of members and cells; every answer is judged
//	rolling   members with TLS and users: restarts in turn and a replacement, under clients that notice everything
//	limits    memory for answers that nobody reads; how long the heaviest transactions hold others up
//	torture   kill -9, SIGSTOP and SIGCONT under load; histories are judged
//
// Every test of etcd's side takes either kind. TENURE_COMPAT_KINDS=etcd runs a part against
// etcd alone (the tests themselves are checked that way), =tenure against
// Tenure alone. `go test -short ./...` is CI's sample, without -short the runs
// are long.
package compat
