// Package leases has our cases of what etcd promises of leases, run against a
// cluster of three processes of either kind: expiry, attachment, and what a
// leader's death or pause may do to a lease. It tells what etcd's own tests (see
// package upstream) leave open, or can say only of an etcd inside the test.
package leases
