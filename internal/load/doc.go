// Package load measures servers of etcd's API as their clients see them: puts, gets, leases,
// locks and watches, by many clients at a time.
//
//	l := load.Load{Target: cluster, Clients: 64, Time: 5 * time.Second, Prefix: "bench/"}
//	for _, c := range load.Cases {
//		result, err := c.Run(ctx, &l)
//	}
//
// A [Target] is a running cluster: [Dial] makes one of addresses. [Plan] measures several
// targets in turn, a few times, so that what disturbs one disturbs the other too; [Medians]
// sums the runs up, and [Table] and [Report] print them beside a baseline.
//
// # How to read the figures
//
// A load is closed: each client has one request on its way and sends the next when it is
// answered. So with n clients the rate is n divided by the mean latency. The time that is
// measured follows a warm-up of a fifth of it.
//
// Where the load runs on the servers' machine, rates and latencies say what the load left to
// them. CPU does not depend on that: it is the processes' user and system time, of all
// members together, divided by the operations. Members tell it as process_cpu_seconds_total
// in their metrics; without metrics it stays unknown.
//
// # What it leaves behind
//
// Keys are below [Load].Prefix and are deleted by [Load.Clean]; leases are revoked when their
// case ends, and end by themselves after a minute where that fails.
package load
