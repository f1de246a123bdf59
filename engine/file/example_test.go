package file_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/file"
)

// Three directories, of which any one may fail.
func Example() {
	root, err := os.MkdirTemp("", "leases")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	var paths []string
	for _, name := range []string{"a", "b", "c"} { // mounts of three machines or disks
		paths = append(paths, filepath.Join(root, name))
		if err := os.Mkdir(paths[len(paths)-1], 0o700); err != nil {
			log.Fatal(err)
		}
	}
	ctx := context.Background()
	// SingleHost, because this directory may be on any filesystem. Leave it out for machines that share one.
	if err := file.Init(ctx, paths, file.Spec{TTL: 15 * time.Second, SingleHost: true}); err != nil {
		log.Fatal(err)
	}
	if err := os.RemoveAll(paths[1]); err != nil { // it fails
		log.Fatal(err)
	}
	leaser, err := file.Open(ctx, file.Config{Paths: paths, Existing: true, State: root})
	if err != nil {
		log.Fatal(err)
	}
	defer leaser.Close()
	lease, err := leaser.Acquire(ctx, tenure.Claim{Name: "nightly", Holder: "host-1"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Holder(), "has a token:", lease.Token() > 0)
	_, err = leaser.TryAcquire(ctx, tenure.Claim{Name: "nightly", Holder: "host-2"})
	fmt.Println("held:", errors.Is(err, tenure.ErrHeld))
	// Output:
	// host-1 has a token: true
	// held: true
}

// A decision that is made once and for all. Leases of one directory would do, too.
func ExampleOpen_agree() {
	root, err := os.MkdirTemp("", "leases")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	ctx := context.Background()
	leaser, err := file.Open(ctx, file.Config{Paths: []string{root}, SingleHost: true, State: root})
	if err != nil {
		log.Fatal(err)
	}
	defer leaser.Close()
	store := leaser.(interface {
		Agree(ctx context.Context, name string, proposal []byte) ([]byte, error)
		Decided(ctx context.Context, name string) (value []byte, ok bool, err error)
	})
	for _, host := range []string{"host-1", "host-2"} {
		first, err := store.Agree(ctx, "first-leader", []byte(host))
		fmt.Printf("%s hears of %s, %v\n", host, first, err)
	}
	value, ok, err := store.Decided(ctx, "first-leader")
	fmt.Printf("%s %v %v\n", value, ok, err)
	// Output:
	// host-1 hears of host-1, <nil>
	// host-2 hears of host-1, <nil>
	// host-1 true <nil>
}
