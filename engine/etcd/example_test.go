package etcd_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine/etcd"
	"github.com/tenure-lease/tenure/server"
)

// Leases on a server. Here it is a member in this process; an etcd will do as well.
func ExampleOpen() {
	endpoint, stop := member()
	defer stop()
	ctx := context.Background()
	leaser, err := etcd.Open(ctx, etcd.Config{Endpoints: []string{endpoint}})
	if err != nil {
		log.Fatal(err)
	}
	defer leaser.Close()
	e := tenure.Election{Leaser: leaser, Claim: tenure.Claim{Name: "primary", Holder: "10.0.0.1:5432"}}
	err = e.Lead(ctx, func(ctx context.Context, lease tenure.Lease) error {
		leader, err := e.Leader(ctx)
		fmt.Println(leader.Holder, "leads")
		return err // which resigns
	})
	fmt.Println(err)
	_, err = e.Leader(ctx)
	fmt.Println(err)
	// Output:
	// 10.0.0.1:5432 leads
	// <nil>
	// no leader
}

func member() (endpoint string, stop func()) {
	dir, err := os.MkdirTemp("", "member")
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.Start(server.Config{
		Name: "a", DataDir: dir, InitialCluster: map[string]string{"a": "http://127.0.0.1:2380"},
		ClientListeners: []net.Listener{listener}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	return listener.Addr().String(), func() { s.Close(); os.RemoveAll(dir) }
}
