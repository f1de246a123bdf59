package readleasepb_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/server"
)

// A program that sets the policy of read leases and asks for it, as tenure read-lease does.
func Example() {
	dir, err := os.MkdirTemp("", "member")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
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
	defer s.Close()
	ctx := context.Background()
	if err := s.Ready(ctx); err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client := readleasepb.NewReadLeaseClient(conn)
	if _, err := client.Set(ctx, &readleasepb.SetRequest{Policy: "all"}); err != nil {
		log.Fatal(err)
	}
	state, err := client.Get(ctx, &readleasepb.GetRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("policy", state.Policy, "in", state.Order, "order")
	holders, err := client.Holders(ctx, &readleasepb.HoldersRequest{Key: []byte("config/db")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("policy", holders.Policy)
	// Output:
	// policy all in strict order
	// policy all
}
