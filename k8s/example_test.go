package k8s_test

import (
	"context"
	"flag"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/tenure-lease/tenure/k8s"
	"github.com/tenure-lease/tenure/leasetest"
)

// A controller that one process runs at a time. The store is in memory here; engine.Open opens another by its URL.
func ExampleLock_Guard() {
	silence()
	leaser := leasetest.NewMemory().Open()
	defer leaser.Close()
	ctx, cancel := context.WithCancel(context.Background())
	lock := k8s.NewLock(leaser, k8s.Config{Name: "controllers", Identity: "pod-1"})
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: lock.Guard(leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				lease, _ := k8s.LeaseFrom(ctx) // ctx ends before another may lead
				fmt.Println(lease.Holder(), "leads with token", lease.Token())
				cancel()
			},
			OnStoppedLeading: func() { fmt.Println("the work has returned, and the lease is free") },
		}),
	})
	// Output:
	// pod-1 leads with token 1
	// the work has returned, and the lease is free
}

// silence keeps client-go from writing a log.
func silence() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(discard{})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
