package etcd

import (
	"net"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure/internal/host/clock"
)

// TestWhatIsOpened: a Leaser that is opened measures its leases by the clock that it is given, and closes its client.
func TestWhatIsOpened(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterKVServer(server, new(stage))
	go server.Serve(listener)
	defer server.Stop()
	c := new(clock.Fake)
	l, err := Open(t.Context(), Config{Endpoints: []string{listener.Addr().String()}, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	if l.clock != c || l.clocks.Mono != c {
		t.Errorf("a Leaser that is given a clock measures by %v and %v", l.clock, l.clocks.Mono)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if l.client.Ctx().Err() == nil {
		t.Error("a Leaser that was opened is closed, and its client is not")
	}
}
