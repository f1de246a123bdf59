package node

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"

	"github.com/tenure-lease/tenure/internal/core/replica"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestStartThatFailsLeavesNothing(t *testing.T) {
	errBroken := errors.New("broken")
	for _, tt := range []struct {
		name  string
		spoil func(cfg *Config)
		says  string
	}{
		{"no data directory", func(cfg *Config) { cfg.DataDir = "" }, "DataDir"},
		{"not in the cluster", func(cfg *Config) { cfg.Name = "x" }, "--initial-cluster"},
		{"short election timeout", func(cfg *Config) { cfg.ElectionTimeout = cfg.HeartbeatInterval }, "too short"},
		{"heartbeats at a negative interval", func(cfg *Config) { cfg.HeartbeatInterval = -1 }, "not positive"},
		{"two members at one URL", func(cfg *Config) { cfg.Peers["c"] = cfg.Peers["b"] }, "same URL"},
		{"a peer URL that is none", func(cfg *Config) { cfg.Peers["b"] = "10.0.0.1" }, "peer URL"},
		{"a peer URL without a port", func(cfg *Config) { cfg.Peers["b"] = "http://10.0.0.1" }, "host:port"},
		{"a peer URL with TLS, without a certificate", func(cfg *Config) { cfg.Peers["b"] = "https://10.0.0.1:2380" }, "speaks http with"},
		{"a certificate, and a peer URL without TLS", func(cfg *Config) {
			cfg.PeerTLS = &tls.Config{Certificates: make([]tls.Certificate, 1)}
		}, "speaks https with"},
		{"a disk that fails", func(cfg *Config) {
			disk := waltest.NewDisk().FS()
			disk.Fault = func(op, _ string) error {
				if op == "sync" {
					return errBroken
				}
				return nil
			}
			cfg.WAL.FS = disk
		}, "broken"},
		{"a disk that cannot be listed", func(cfg *Config) {
			disk := waltest.NewDisk().FS()
			disk.Fault = func(op, _ string) error {
				if op == "readdir" {
					return fs.ErrPermission
				}
				return nil
			}
			cfg.WAL.FS = disk
		}, "permission"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := listen(t)
			cfg := Config{
				Name: "a", DataDir: "/data", PeerListener: l, Logger: slog.New(slog.DiscardHandler),
				HeartbeatInterval: 100 * time.Millisecond, ElectionTimeout: time.Second,
				Peers: map[string]string{"a": "http://" + l.Addr().String(), "b": "http://127.0.0.1:1", "c": "http://127.0.0.1:2"},
				WAL:   wal.Options{FS: waltest.NewDisk().FS(), SegmentBytes: 8 << 10},
			}
			tt.spoil(&cfg)
			n, err := Start(cfg)
			if err == nil {
				n.Stop()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %q does not say %q", err, tt.says)
			}
			l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Millisecond))
			if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener: %v, want that it is closed", err)
			}
			if _, err := cfg.WAL.FS.Lock("/data/lock"); err != nil {
				t.Errorf("the lock of the data directory: %v, want that it is free", err)
			}
			goleak.VerifyNone(t)
		})
	}
}

// TestStopDuringEverything stops a member during all kinds of calls. None of them hangs, and none
// returns another error.
func TestStopDuringEverything(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.leader()
	ctx := t.Context()
	resp, err := c.nodes[0].Propose(ctx, &pb.LeaseGrantRequest{TTL: 60})
	if err != nil {
		t.Fatal(err)
	}
	lease := resp.(*pb.LeaseGrantResponse).ID
	for i, n := range c.nodes {
		calls := map[string]func() error{
			"put": func() error {
				_, err := n.Propose(ctx, &pb.PutRequest{Key: []byte("k"), Value: make([]byte, 1000)})
				return err
			},
			"barrier":   func() error { return n.Barrier(ctx) },
			"ready":     func() error { return n.Ready(ctx) },
			"keepalive": func() error { _, err := n.KeepAlive(lease)(ctx); return err },
			"ttl":       func() error { _, _, err := n.TimeToLive(ctx, lease); return err },
			"handover":  func() error { return n.HandOver(ctx) },
			"status": func() error {
				if _, ok := n.Status(); !ok {
					return errStopped
				}
				return nil
			},
		}
		var ends sync.WaitGroup
		var warm sync.WaitGroup
		for name, call := range calls {
			callers := 4
			if name == "handover" {
				callers = 1 // or nothing else would be done
			}
			for range callers {
				warm.Add(1)
				ends.Go(func() {
					for done := 0; ; done++ {
						if done == 3 {
							warm.Done()
						}
						err := call()
						time.Sleep(time.Millisecond) // the members need time as well
						switch {
						case err == nil && name == "handover" && done > 3:
							// A follower has nothing to hand over, stopped or not.
							select {
							case <-n.stop:
								return
							default:
							}
						case errors.Is(err, errStopped):
							if done < 3 {
								warm.Done()
							}
							return
						case err != nil:
							t.Errorf("%s at member %d: %v, want no error but that it stopped", name, i, err)
							if done < 3 {
								warm.Done()
							}
							return
						}
					}
				})
			}
		}
		warm.Wait()
		for range 2 { // at once, and again
			ends.Go(n.Stop)
		}
		n.Stop()
		ends.Wait()
		n.Stop()
		if err := n.Barrier(ctx); !errors.Is(err, errStopped) {
			t.Errorf("a barrier after the end: %v", err)
		}
		c.start(i)
		c.leader()
	}
}

func TestEndedContexts(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	n := c.nodes[0]
	hold := make(chan struct{})
	n.driver.Gather(func() (replica.Input, bool) { <-hold; return nil, false })
	var ends sync.WaitGroup
	for name, call := range map[string]func() error{
		"put":       func() error { _, err := n.Propose(ctx, &pb.PutRequest{Key: []byte("k")}); return err },
		"barrier":   func() error { return n.Barrier(ctx) },
		"ready":     func() error { return n.Ready(ctx) },
		"keepalive": func() error { _, err := n.KeepAlive(1)(ctx); return err },
	} {
		ends.Go(func() {
			if err := call(); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v, want %v", name, err, context.Canceled)
			}
		})
	}
	cancel()
	ends.Wait()
	close(hold)
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nimble)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 {
		lead := c.leader()
		for i, n := range c.nodes {
			if i != lead {
				if err := n.HandOver(ctx); err != nil {
					t.Errorf("a follower: %v", err)
				}
			}
		}
		if err := c.nodes[lead].HandOver(ctx); err != nil {
			t.Errorf("the leader: %v", err)
		}
		if id, _, _ := c.nodes[lead].Leader(); id == c.nodes[lead].ID() {
			t.Error("it leads still")
		}
	}
	lead := c.leader()
	c.kill((lead + 1) % 3)
	c.kill((lead + 2) % 3)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := c.nodes[lead].HandOver(short); err == nil {
		if id, _, _ := c.nodes[lead].Leader(); id != 0 { // else it has noticed that it is alone
			t.Errorf("handed over to %x, and nobody is there", id)
		}
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with nobody to take it: %v, want %v", err, context.DeadlineExceeded)
	}
}

// Leadership goes to the requested member and to no other.
func TestMoveLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	first := c.leader()
	for i := range c.nodes {
		to := c.nodes[(first+1+i)%5]
		lead := c.leader()
		err := c.nodes[lead].MoveLeader(ctx, to.ID())
		if now := c.leader(); err != nil || c.nodes[now] != to {
			t.Fatalf("member %d of 5 is to lead: %v, and %d leads", (first+1+i)%5, err, now)
		}
	}
	lead := c.leader()
	if err := c.nodes[(lead+1)%5].MoveLeader(ctx, c.nodes[lead].ID()); !errors.Is(err, rpctypes.ErrGRPCNotLeader) {
		t.Errorf("a follower: %v, want %v", err, rpctypes.ErrGRPCNotLeader)
	}
	some, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := c.nodes[lead].MoveLeader(some, 77); !errors.Is(err, rpctypes.ErrGRPCBadLeaderTransferee) {
		t.Errorf("to one that is no member: %v, want %v", err, rpctypes.ErrGRPCBadLeaderTransferee)
	}
	away := (lead + 1) % 5
	id := c.nodes[away].ID()
	c.kill(away)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := c.nodes[lead].MoveLeader(short, id); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("to one that is away: %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestWrongMembersAreRefusedAndEnd(t *testing.T) {
	t.Parallel()
	failed := make(chan error, 10)
	quick := func(cfg *Config) {
		cfg.HeartbeatInterval, cfg.ElectionTimeout = 50*time.Millisecond, 250*time.Millisecond
	}
	c := newCluster(t, 3, quick)
	c.leader()
	var began time.Time
	stranger := func(adjust func(*Config)) {
		t.Helper()
		began = time.Now()
		cfg := c.cfgs[0]
		cfg.DataDir, cfg.PeerListener = t.TempDir(), listen(t)
		cfg.Fail = func(err error) { failed <- err }
		adjust(&cfg)
		n, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Stop)
	}
	expect := func(want error, says string) {
		t.Helper()
		select {
		case err := <-failed:
			if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
				t.Errorf("it ended with %v, want %v, saying %q", err, want, says)
			}
			if after := time.Since(began); after < 10*c.cfgs[0].ElectionTimeout {
				t.Errorf("it ended %v after its start: what passes by itself is waited for, for ten election timeouts", after)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("it did not end; want %v", want)
		}
	}
	stranger(func(cfg *Config) { cfg.ClusterToken = "other" })
	expect(peer.ErrWrongCluster, "--initial-cluster")
	stranger(func(*Config) {}) // a second m0
	expect(peer.ErrDuplicateID, "--data-dir")
	for i := range c.nodes { // nobody else minds
		c.put(i, "k", "v")
	}
}

// Questions and outgoing snapshots of a member end when the member does.
func TestStopEndsWhatIsUnderWay(t *testing.T) {
	for name, end := range map[string]func(*Node){
		"Stop":      (*Node).Stop,
		"a failure": func(n *Node) { n.fail(errDisk) },
	} {
		hanging := make(chan struct{}, 1)
		n := lonely(t, func(cfg *Config) {
			cfg.Fail = func(error) {}
			cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				if addr == "asked:1" {
					hanging <- struct{}{}
				}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
		})
		asked := make(chan error, 1)
		go func() {
			_, err := n.askMembers(n.ctx, "asked:1")
			asked <- err
		}()
		<-hanging
		end(n)
		if err := <-asked; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: a question that was under way: %v, want %v", name, err, context.Canceled)
		}
		n.Stop()
	}
}
