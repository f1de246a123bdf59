package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/tenure-lease/tenure/internal/member/node"
)

// A connection of HTTP that was closed with an answer unread lingers for half a second, in Go's own code.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// start runs n members on loopback, in this process, and returns their client
// endpoints once each can serve.
func start(tb testing.TB, n int) (servers []*Server, endpoints []string) {
	tb.Helper()
	return startWith(tb, n, func(*Config) {})
}

// startWith is start with members that edit configures.
func startWith(tb testing.TB, n int, edit func(*Config)) (servers []*Server, endpoints []string) {
	tb.Helper()
	peers := map[string]string{}
	var configs []Config
	for i := range n {
		peerListener, clients := listen(tb), listen(tb)
		name := fmt.Sprintf("m%d", i)
		peers[name] = "http://" + peerListener.Addr().String()
		endpoints = append(endpoints, clients.Addr().String())
		configs = append(configs, Config{
			Node: node.Config{
				Name: name, DataDir: tb.TempDir(), Peers: peers, PeerListener: peerListener,
				ClientURLs: []string{"http://" + clients.Addr().String()}, Logger: slog.New(slog.DiscardHandler),
				Fail: func(err error) { tb.Errorf("%s: %v", name, err) },
			},
			Clients: []net.Listener{clients},
		})
	}
	for _, cfg := range configs {
		edit(&cfg)
		s, err := Start(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		servers = append(servers, s)
		tb.Cleanup(func() { stopInTime(tb, s) })
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, s := range servers {
		if err := s.Node.Ready(ctx); err != nil {
			tb.Fatal(err)
		}
	}
	return servers, endpoints
}

// stopInTime stops a server, which must not wait for anything that goes on for ever.
func stopInTime(tb testing.TB, s *Server) {
	tb.Helper()
	stopped := make(chan struct{})
	go func() {
		s.Stop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(20 * time.Second):
		tb.Error("a server is to stop, and something of it goes on")
	}
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func dial(tb testing.TB, endpoints ...string) *clientv3.Client {
	tb.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

func TestShutdownLosesNothing(t *testing.T) {
	servers, endpoints := start(t, 3)
	var clients []*clientv3.Client
	for _, e := range endpoints {
		clients = append(clients, dial(t, e))
	}
	lead := 0
	for i, s := range servers {
		if id, _, _ := s.Node.Leader(); id == s.Node.ID() {
			lead = i
		}
	}
	other := (lead + 1) % 3
	// Writes through another member go on without an error while the leader
	// leaves.
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			if _, err := clients[other].Put(t.Context(), fmt.Sprintf("k%d", n), "v"); err != nil {
				t.Errorf("put %d: %v", n, err)
			}
			n++
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	servers[lead].Shutdown(ctx)
	if _, err := clients[other].Put(t.Context(), "after", "v"); err != nil {
		t.Error(err)
	}
	close(stop)
	n := <-done
	resp, err := clients[other].Get(t.Context(), "k", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || resp.Count != int64(n) {
		t.Errorf("%v keys, %v; want %d", resp, err, n)
	}
}

// TestShutdownAnswersCallsInFlight leaves while clients write through the very
// member that leaves: each call is answered, and the next goes elsewhere.
func TestShutdownAnswersCallsInFlight(t *testing.T) {
	servers, endpoints := start(t, 3)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var puts atomic.Int64
	for w := range 8 {
		c := dial(t, endpoints...)
		watch := c.Watch(t.Context(), fmt.Sprintf("w%d", w)) // a stream does not end by itself
		if _, err := c.Put(t.Context(), fmt.Sprintf("w%d", w), "v"); err != nil {
			t.Fatal(err)
		}
		<-watch
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := c.Put(t.Context(), fmt.Sprintf("w%d", w), "v"); err != nil {
					t.Errorf("put: %v", err)
				}
				puts.Add(1)
			}
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, i := range []int{0, 1} {
		for before := puts.Load(); puts.Load() < before+100; {
			time.Sleep(time.Millisecond)
		}
		if i == 1 { // of the two that are left, both are needed
			break
		}
		servers[i].Shutdown(ctx)
		if ctx.Err() != nil {
			t.Error("the shutdown waited for streams")
		}
	}
	close(stop)
	writers.Wait()
}

func TestStartAndStopOfAServer(t *testing.T) {
	clients, more := listen(t), listen(t)
	cfg := Config{Clients: []net.Listener{clients, more}, Node: node.Config{Name: "a", Logger: slog.New(slog.DiscardHandler)}}
	if s, err := Start(cfg); err == nil {
		s.Stop()
		t.Fatal("it started without a data directory")
	}
	closed := func(l net.Listener) {
		t.Helper()
		l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Millisecond))
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after a start that failed, a listener: %v, want that it is closed", err)
		}
	}
	closed(clients)
	closed(more)
	peers := listen(t)
	if _, err := Start(Config{Node: node.Config{PeerListener: peers}}); err == nil {
		t.Error("it started without a listener for clients")
	}
	closed(peers)
	servers, _ := start(t, 1)
	var ends sync.WaitGroup
	for range 3 {
		ends.Go(servers[0].Stop)
		ends.Go(func() { servers[0].Shutdown(t.Context()) })
	}
	ends.Wait()
	servers[0].Stop()
}

func BenchmarkPut(b *testing.B) {
	for _, members := range []int{1, 3} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			_, endpoints := start(b, members)
			var clients []*clientv3.Client
			for i := range 8 {
				clients = append(clients, dial(b, endpoints[i%len(endpoints)]))
			}
			value := string(make([]byte, 128))
			var next atomic.Int64
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				id := next.Add(1)
				c := clients[int(id)%len(clients)]
				for i := 0; p.Next(); i++ {
					if _, err := c.Put(context.Background(), fmt.Sprintf("bench-%d-%d", id, i%100), value); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
