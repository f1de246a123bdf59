package server_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/server"
)

// A member inside a Go program, used by etcd's client.
func ExampleStart() {
	dir, err := os.MkdirTemp("", "tenure")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.Start(server.Config{
		Name:            "a",
		DataDir:         dir,
		InitialCluster:  map[string]string{"a": "http://127.0.0.1:2380"}, // a cluster of one
		ClientListeners: []net.Listener{listener},
		Logger:          slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer s.Shutdown(ctx)
	if err := s.Ready(ctx); err != nil {
		log.Fatal(err)
	}

	client, err := clientv3.New(clientv3.Config{Endpoints: []string{listener.Addr().String()}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Put(ctx, "greeting", "hello"); err != nil {
		log.Fatal(err)
	}
	resp, err := client.Get(ctx, "greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s at revision %d\n", resp.Kvs[0].Value, resp.Header.Revision)
	fmt.Println("the only member leads:", s.Leader() == s.ID() && s.ID() == resp.Header.MemberId)
	// Output:
	// hello at revision 2
	// the only member leads: true
}
