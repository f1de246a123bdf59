// Package k8s runs the leader election of client-go (k8s.io/client-go/tools/leaderelection) over any
// Leaser of Tenure: an etcd or a Tenure server, a directory, Redis, or peers. No API server is needed.
//
//	lock := k8s.NewLock(leaser, k8s.Config{Name: "controllers", Identity: hostname})
//	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
//		Lock:          lock,
//		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
//		Callbacks: lock.Guard(leaderelection.LeaderCallbacks{
//			OnStartedLeading: func(ctx context.Context) {
//				lease, _ := k8s.LeaseFrom(ctx)
//				reconcile(ctx, lease.Token()) // ctx ends before another may lead
//			},
//			OnStoppedLeading: func() { … },
//		}),
//	})
//
// # Who leads is what the lease says
//
// client-go's election writes a record into an object of Kubernetes. Each candidate measures by its own
// clock for how long it has not seen the record change, and then takes it. So two may lead at one
// time: clocks run at different rates, a leader is told of its end by a timer that stands still while
// its machine is suspended, and a leader that fails to renew, or that is asked to end, gives its record
// up while its work still runs.
//
// Here the record is only a picture. A candidate leads when it holds a lease of Tenure, which the engine
// grants to one holder at a time, and the elector's renewals succeed for as long as that is so. The lease
// renews itself, and lasts for Claim.TTL after its last renewal. The elector's LeaseDuration decides nothing
// but when an elector that has fallen silent is taken for dead, see below.
//
// # With Guard
//
// The callbacks that [Lock.Guard] returns keep all that package tenure promises:
//
//   - The context of OnStartedLeading ends when the lease does, before another may lead, on a clock that
//     counts suspend: not RenewDeadline later, when the elector notices.
//   - [LeaseFrom] has the lease and its fencing token in that context. Give the token along with every write.
//   - The lease is released after OnStartedLeading has returned, whether ReleaseOnCancel is set or not. Work
//     that does not return keeps it for as long as the process lives: nobody leads beside it.
//   - OnStoppedLeading is called once the work has returned, or the lease is lost, or the work has had
//     Config.Grace to return. A program that exits there has then released its lease.
//   - After a loss this process leads again only once its elector has stopped and its work has returned.
//
// # Without Guard
//
// Some programs make their elector themselves, as controller-runtime's manager does, which takes a Lock
// as LeaderElectionResourceLockInterface. Then only the elector can end the work, and it does so RetryPeriod and
// RenewDeadline after its last success, by Go's monotonic clock. So a renewal succeeds only if the lease
// still lasts for longer than that, Config.Grace: the elector has ended by itself before another may lead.
// That leaves open:
//
//   - A suspend of the machine stops the elector's clock, and not the lease's. Set Config.OnLost, and end
//     the process there.
//   - With ReleaseOnCancel the elector releases when its context ends, while the work may still run: set it
//     only if the process ends at once. Without, the lease is released when no renewal has come for
//     LeaseDuration.
//   - A Lock that has lost its lease is of no more use, as nobody tells it when the elector has stopped.
//
// In both cases a stopped process cannot stop itself: only the resource can refuse its late writes, by the
// token.
//
// A name is held by one process, whatever its identity: two candidates with the same identity, as after a
// restart, are still two. Coordinated leader election (a strategy among candidates) needs the API server, and a
// Lock refuses it.
package k8s
