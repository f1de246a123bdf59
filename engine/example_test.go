package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine"
)

// A directory keeps the leases here. With another URL the same program uses a cluster or Redis.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "leases")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	leaser, err := engine.Open(ctx, "file://"+dir)
	if err != nil {
		log.Fatal(err)
	}
	defer leaser.Close()
	err = tenure.Do(ctx, leaser, tenure.Claim{Name: "nightly"}, func(ctx context.Context, l tenure.Lease) error {
		fmt.Println("backing up, with a token:", l.Token() > 0)
		return nil
	})
	fmt.Println(err)

	_, err = engine.Open(ctx, "etcd:/10.0.0.1")
	fmt.Println(errors.Is(err, engine.ErrURL))
	// Output:
	// backing up, with a token: true
	// <nil>
	// true
}
