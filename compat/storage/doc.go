// Package storage makes and opens the leases in directories that its two parts are
// about, store by store, so that tests can put something in between:
//
//	bench    beside sanlock on the same disk, the lease server and Redis: times, I/Os, CPU
//	torture  real processes on real files, killed, stopped, and their disks taken away
package storage
