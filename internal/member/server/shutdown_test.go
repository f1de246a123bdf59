package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
)

// A member that leaves reports that it does not serve, hands leadership over, and then ends
// streams: clients that go elsewhere find a leader.
func TestShutdownHasAnOrder(t *testing.T) {
	var log lines
	servers, endpoints := startWith(t, 3, func(c *Config) { c.Node.Logger = log.logger() })
	lead := 0
	for i, s := range servers {
		if id, _, _ := s.Node.Leader(); id == s.Node.ID() {
			lead = i
		}
	}
	leaving := servers[lead]
	conn := dial(t, endpoints[lead]).ActiveConnection()
	health, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := health.Recv(); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("health %v, %v", r, err)
	}
	watch, err := pb.NewWatchClient(conn).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}}
	if err := watch.Send(create); err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() {
		_, err := watch.Recv()
		id, _, _ := leaving.Node.Leader()
		if status.Convert(err).Message() != status.Convert(rpctypes.ErrGRPCStopped).Message() {
			t.Errorf("the stream ended with %v, want that the server stops", err)
		}
		ended <- id != leaving.Node.ID()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		leaving.Shutdown(ctx)
	}()
	if r, err := health.Recv(); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health %v, %v, want that it says first that it does not serve", r, err)
	}
	if !<-ended {
		t.Errorf("streams ended before leadership was handed over")
	}
	<-stopped
	if ctx.Err() != nil {
		t.Errorf("the shutdown waited for all of its time")
	}
	if log.count("leadership was not handed over") > 0 {
		t.Error("leadership was handed over, and the log says that it was not")
	}
}

// A hook gets each line of a log, before the caller that logs goes on.
type hook struct {
	slog.Handler
	told func(line string)
}

func (h hook) Enabled(context.Context, slog.Level) bool { return true }

func (h hook) Handle(_ context.Context, r slog.Record) error {
	h.told(r.Message)
	return nil
}

// A leader that has no time to hand leadership over says so in its log: until another leads, no
// client can write. Clients that ask for its health have heard by then that it does not serve.
func TestLeavingWithLeadershipIsLogged(t *testing.T) {
	var health grpc_health_v1.HealthClient
	logged := 0
	log := slog.New(hook{slog.DiscardHandler, func(line string) {
		if line != "leadership was not handed over" {
			return
		}
		logged++
		r, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil || r.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("health of a leader that has tried to hand over: %v, %v, want that it does not serve", r, err)
		}
	}})
	servers, endpoints := startWith(t, 3, func(c *Config) { c.Node.Logger = log })
	for i := range servers { // the leader is the first to leave
		if id, _, _ := servers[i].Node.Leader(); id == servers[i].Node.ID() {
			servers[0], servers[i] = servers[i], servers[0]
			endpoints[0], endpoints[i] = endpoints[i], endpoints[0]
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range servers {
		health = grpc_health_v1.NewHealthClient(dial(t, endpoints[i]).ActiveConnection())
		if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
		servers[i].Shutdown(over)
		if _, running := servers[i].Node.Status(); running {
			t.Error("a member that did not hand leadership over goes on behind its shutdown")
		}
	}
	if logged == 0 {
		t.Error("a leader left without handing leadership over, and its log does not say so")
	}
}

// Calls that wait for something do not keep a member from leaving.
func TestShutdownIsBounded(t *testing.T) {
	servers, endpoints := start(t, 1)
	c := dial(t, endpoints...)
	for _, name := range []string{"one", "two"} {
		granted, err := c.Grant(t.Context(), 60)
		if err != nil {
			t.Fatal(err)
		}
		lock := func() error {
			_, err := v3lockpb.NewLockClient(c.ActiveConnection()).Lock(t.Context(), &v3lockpb.LockRequest{Name: []byte("l"), Lease: int64(granted.ID)})
			return err
		}
		if name == "two" {
			go lock()
			continue
		}
		if err := lock(); err != nil {
			t.Fatal(err)
		}
	}
	for {
		r, err := c.Get(t.Context(), "l/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		if r.Count == 2 {
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() {
		servers[0].Shutdown(ctx)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Errorf("the shutdown waits for a call that waits for a lock")
		servers[0].Stop()
	}
}

// Clients of a server that was given a TLS configuration come by TLS or not at all.
func TestClientsComeByTLS(t *testing.T) {
	_, endpoints := startWith(t, 1, func(c *Config) { c.ClientTLS = certified(t) })
	conn, err := tls.Dial("tcp", endpoints[0], &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Errorf("by TLS: %v, and the server serves without TLS", err)
	} else {
		conn.Close()
	}
}

// certified is a TLS configuration with a certificate of this host.
func certified(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// The room for answers that nobody reads follows the memory.
func TestAnswersHaveAQuarter(t *testing.T) {
	for limit, want := range map[int64]int64{400 << 20: 100 << 20, 4 << 30: etcdapi.DefaultAnswerBytes} {
		if got := answerRoom(limit); got != want {
			t.Errorf("with %d bytes of memory answers have %d, want a quarter and %d at most", limit, got, etcdapi.DefaultAnswerBytes)
		}
	}
}

// A call that is under way when its member begins to leave is answered, however long it waits for
// something else.
func TestShutdownAnswersACallThatWaits(t *testing.T) {
	servers, endpoints := start(t, 3)
	leaving, other := v3lockpb.NewLockClient(dial(t, endpoints[0]).ActiveConnection()), dial(t, endpoints[1])
	locks, name := v3lockpb.NewLockClient(other.ActiveConnection()), []byte("l")
	held, err := locks.Lock(t.Context(), &v3lockpb.LockRequest{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := leaving.Lock(t.Context(), &v3lockpb.LockRequest{Name: name})
		answered <- err
	}()
	until(t, "two contend", func() bool {
		got, err := other.Get(t.Context(), "l/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && got.Count == 2
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	left := make(chan struct{})
	go func() {
		defer close(left)
		servers[0].Shutdown(ctx)
	}()
	until(t, "the member takes no more connections", func() bool {
		conn, err := net.Dial("tcp", endpoints[0])
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	if _, err := locks.Unlock(t.Context(), &v3lockpb.UnlockRequest{Key: held.Key}); err != nil {
		t.Error(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("a call that waited while its member left: %v, want an answer", err)
	}
	<-left
}
