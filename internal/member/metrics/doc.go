// Package metrics gathers a member's figures for Prometheus. A figure that etcd has, too, has etcd's name,
// type, labels and buckets, so that dashboards and alerts for etcd work; all else is called
// tenure_… . docs/metrics.md lists all of it.
//
// Most figures are read when they are asked for, from what the member publishes in any case. Only
// calls and forced writes are counted when they happen, by counters that were made before, so that
// a call costs a few atomic additions and allocates nothing.
package metrics
