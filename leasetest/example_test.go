package leasetest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/leasetest"
)

// report is the program under test: it stops when it loses its lease.
func report(ctx context.Context, leaser tenure.Leaser, started func()) error {
	return tenure.Do(ctx, leaser, tenure.Claim{Name: "report", TTL: 10 * time.Second}, func(ctx context.Context, l tenure.Lease) error {
		started()
		<-ctx.Done() // it works, until it has to stop
		return context.Cause(ctx)
	})
}

// A test of a program that loses its lease. In a bubble the ten seconds pass in no time.
func TestReportStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := leasetest.NewMemory().Fixture(10 * time.Second)
		leaser, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer leaser.Close()
		begin := time.Now()
		err = report(t.Context(), leaser, func() { f.Cut(leaser) }) // the store does not answer any more
		if took := time.Since(begin); !errors.Is(err, tenure.ErrLost) || took > f.TTL {
			t.Errorf("it ended with %v after %v, want the loss within %v", err, took, f.TTL)
		}
		f.Heal(leaser)
	})
}

// The store of two programs stops answering one of them, and the other takes over.
func ExampleMemory_Fixture() {
	f := leasetest.NewMemory().Fixture(200 * time.Millisecond)
	ours, err := f.Open()
	if err != nil {
		log.Fatal(err)
	}
	theirs, err := f.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer theirs.Close()
	ctx := context.Background()
	claim := tenure.Claim{Name: "primary", TTL: f.TTL}
	lease, err := ours.Acquire(ctx, claim)
	if err != nil {
		log.Fatal(err)
	}
	f.Cut(ours)
	next, err := theirs.Acquire(ctx, claim)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the first has", lease.Token(), "and lost it:", errors.Is(lease.Check(), tenure.ErrLost))
	fmt.Println("the next has", next.Token())
	f.Heal(ours)
	ours.Close()
	// Output:
	// the first has 1 and lost it: true
	// the next has 2
}
