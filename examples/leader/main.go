// Command leader is a small service of which any number of processes run and one
// serves: the leader. They need no server to elect it, only a directory that all of them
// see.
//
//	mkdir /tmp/shared
//	go run ./examples/leader -dir /tmp/shared -listen 127.0.0.1:8001 &
//	go run ./examples/leader -dir /tmp/shared -listen 127.0.0.1:8002 &
//	curl -L -X POST http://127.0.0.1:8002/    # counts, at any process
//	curl -L http://127.0.0.1:8001/
//
// The service counts. The count is a file in the directory, so it outlives everybody.
// Kill the leader with -9: after the takeover time (Δ + 6δ, the directory was made for
// leases of -ttl) another one leads, and goes on counting.
//
// Three things make it right, and they are all of service.go:
//
//   - The claim's Holder is the leader's address. A process that does not lead looks up the
//     holder and sends clients there. Observe is one read of the directory, and needs no
//     contending.
//   - The leader asks its lease (Check) before it answers, and again after it has read. So
//     a read in between saw the newest count.
//   - A leader that was paused between a Check and its write may come late. The lease
//     cannot stop that; the fence can. Each count is written under the token of the lease.
//     A newer leader announces its token before it does anything else, and later writes
//     under an older token are refused with status 409.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/file"
)

func main() {
	dir := flag.String("dir", "", "directory that all processes share")
	listen := flag.String("listen", "127.0.0.1:0", "address to serve at, as the others' clients can reach it")
	var leases file.Spec
	flag.DurationVar(&leases.TTL, "ttl", 5*time.Second, "how long others wait for a leader that crashed; for the first user of the directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *dir, *listen, leases); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "leader:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, listen string, spec file.Spec) error {
	leaser, err := open(ctx, dir, spec)
	if err != nil {
		return err
	}
	defer leaser.Close() // resigns: the next one need not wait
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	me := listener.Addr().String()
	fmt.Println("listening at", me)
	service := &Service{
		Election: tenure.Election{Leaser: leaser, Claim: tenure.Claim{Name: "counter", Holder: me}},
		Path:     filepath.Join(dir, "count"),
	}
	// The fence waits for requests under way: none may last.
	server := &http.Server{Handler: service, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second}
	go server.Serve(listener)
	defer server.Close()
	return service.Run(ctx)
}

// open makes the store of leases, if nobody has made it yet.
func open(ctx context.Context, dir string, spec file.Spec) (tenure.Leaser, error) {
	leases, err := filepath.Abs(filepath.Join(dir, "leases"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(leases, 0o755); err != nil {
		return nil, err
	}
	if err := file.Init(ctx, []string{leases}, spec); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return file.Open(ctx, file.Config{Paths: []string{leases}, Existing: true})
}
