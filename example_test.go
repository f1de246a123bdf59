package tenure_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/fence"
	"github.com/tenure-lease/tenure/leasetest"
)

// The leases of these examples live in memory; engine.Open gives real ones.
func open() tenure.Leaser { return leasetest.NewMemory().Open() }

func ExampleDo() {
	leaser := open()
	defer leaser.Close()

	claim := tenure.Claim{Name: "nightly-report", TTL: 30 * time.Second}
	err := tenure.Do(context.Background(), leaser, claim, func(ctx context.Context, lease tenure.Lease) error {
		// ctx ends when the lease does. Stop then.
		fmt.Println("reporting, with token", lease.Token())
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// reporting, with token 1
	// <nil>
}

func ExampleLeaser_tryAcquire() {
	leaser := open()
	defer leaser.Close()
	ctx := context.Background()

	lease, err := leaser.TryAcquire(ctx, tenure.Claim{Name: "printer", Holder: "alice"})
	if err != nil {
		panic(err)
	}
	_, err = leaser.TryAcquire(ctx, tenure.Claim{Name: "printer", Holder: "bob"})
	var held tenure.HeldError
	if errors.As(err, &held) {
		fmt.Println("held by", held.Holder)
	}
	fmt.Println(lease.Release(ctx))
	// Output:
	// held by alice
	// <nil>
}

// The resource, here a file, checks the token: a holder that was suspended and
// wakes up late cannot overwrite what its successor wrote.
func Example_fencing() {
	leaser := open()
	defer leaser.Close()
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	write := func(token uint64, text string) error {
		return fence.File{Path: filepath.Join(dir, "token")}.Do(token, func() error {
			return os.WriteFile(filepath.Join(dir, "ledger"), []byte(text), 0o644)
		})
	}
	var tokens []uint64
	for range 2 {
		lease, err := leaser.Acquire(ctx, tenure.Claim{Name: "ledger"})
		if err != nil {
			panic(err)
		}
		tokens = append(tokens, lease.Token())
		lease.Release(ctx)
	}
	fmt.Println(write(tokens[0], "first"))
	fmt.Println(write(tokens[1], "second"))
	fmt.Println(write(tokens[0], "from the past"))
	// Output:
	// <nil>
	// <nil>
	// stale fencing token: 1, but 2 was seen: the lease has passed to another holder
}

func ExamplePeriodic() {
	leaser := open()
	defer leaser.Close()

	nightly := tenure.Periodic{Leaser: leaser, Claim: tenure.Claim{Name: "nightly"}, Every: 20 * time.Hour}
	for range 2 { // as two hosts would at midnight
		err := nightly.Do(context.Background(), func(context.Context, tenure.Lease) error {
			fmt.Println("backing up")
			return nil
		})
		fmt.Println("done before:", errors.Is(err, tenure.ErrDone))
	}
	// Output:
	// backing up
	// done before: false
	// done before: true
}

func ExampleElection_Lead() {
	leaser := open()
	defer leaser.Close()

	e := tenure.Election{Leaser: leaser, Claim: tenure.Claim{Name: "primary", Holder: "10.0.0.1:5432"}}
	err := e.Lead(context.Background(), func(ctx context.Context, lease tenure.Lease) error {
		leader, err := e.Leader(ctx)
		fmt.Println("leading as", leader.Holder)
		return err
	})
	fmt.Println(err)
	// Output:
	// leading as 10.0.0.1:5432
	// <nil>
}
