package etcdapi

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tenure-lease/tenure/internal/member/watch"
)

// loopback serves a fake over TCP, client and server in this process, and
// returns a connection.
func loopback(b *testing.B, more ...grpc.ServerOption) (*fake, *grpc.ClientConn) {
	b.Helper()
	f := newFake(b, watch.Config{})
	s := New(f, Config{})
	g := grpc.NewServer(append(s.Options(), more...)...)
	s.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		if err := g.Serve(l); err != nil {
			b.Error(err)
		}
	}()
	b.Cleanup(g.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return f, conn
}

// cpu reports the processor time of client and server together for each operation.
func cpu(b *testing.B, run func()) {
	b.Helper()
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	b.ReportAllocs()
	before := used()
	b.ResetTimer()
	run()
	b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op")
}

// parallel makes calls from 64 goroutines.
func parallel(b *testing.B, call func() error) {
	b.SetParallelism(32)
	cpu(b, func() {
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

func BenchmarkPut(b *testing.B) {
	_, conn := loopback(b)
	c := pb.NewKVClient(conn)
	var n atomic.Int64
	parallel(b, func() error {
		key := []byte("key" + string(rune('a'+n.Add(1)%26)))
		_, err := c.Put(context.Background(), &pb.PutRequest{Key: key, Value: make([]byte, 256)})
		return err
	})
}

func BenchmarkRange(b *testing.B) {
	f, conn := loopback(b)
	if _, err := f.Propose(context.Background(), &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 256)}); err != nil {
		b.Fatal(err)
	}
	c := pb.NewKVClient(conn)
	parallel(b, func() error {
		_, err := c.Range(context.Background(), &pb.RangeRequest{Key: []byte("a")})
		return err
	})
}

// BenchmarkKeepAlive keeps window renewals under way on one stream.
func BenchmarkKeepAlive(b *testing.B) {
	for _, window := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("window/", window), func(b *testing.B) {
			f, conn := loopback(b)
			if _, err := f.Propose(context.Background(), &pb.LeaseGrantRequest{ID: 1, TTL: 60}); err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			stream, err := pb.NewLeaseClient(conn).LeaseKeepAlive(ctx)
			if err != nil {
				b.Fatal(err)
			}
			free := make(chan struct{}, window)
			cpu(b, func() {
				go func() {
					for range b.N {
						free <- struct{}{}
						if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: 1}); err != nil {
							b.Error(err)
							return
						}
					}
				}()
				for range b.N {
					if _, err := stream.Recv(); err != nil {
						b.Fatal(err)
					}
					<-free
				}
			})
		})
	}
}

// BenchmarkWatch sends each put to n watchers of one stream.
func BenchmarkWatch(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint("watchers/", n), func(b *testing.B) {
			f, conn := loopback(b)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			stream, err := pb.NewWatchClient(conn).Watch(ctx)
			if err != nil {
				b.Fatal(err)
			}
			for range n {
				create := &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("a")}}
				if err := stream.Send(&pb.WatchRequest{RequestUnion: create}); err != nil {
					b.Fatal(err)
				}
				if _, err := stream.Recv(); err != nil {
					b.Fatal(err)
				}
			}
			cpu(b, func() {
				for range b.N {
					if _, err := f.Propose(ctx, &pb.PutRequest{Key: []byte("a"), Value: make([]byte, 1024)}); err != nil {
						b.Fatal(err)
					}
					for range n {
						if _, err := stream.Recv(); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		})
	}
}

// BenchmarkHandOff passes a lock on among 16 contenders, with etcd's client and
// with the service.
func BenchmarkHandOff(b *testing.B) {
	const contenders = 16
	run := func(b *testing.B, contend func(i int, rounds int) error) {
		var wg sync.WaitGroup
		cpu(b, func() {
			for i := range contenders {
				wg.Go(func() {
					if err := contend(i, (b.N+i)/contenders); err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
		})
	}
	b.Run("client", func(b *testing.B) {
		_, conn := loopback(b)
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{conn.Target()}})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		run(b, func(_, rounds int) error {
			s, err := concurrency.NewSession(c)
			if err != nil {
				return err
			}
			defer s.Close()
			m := concurrency.NewMutex(s, "lock")
			for range rounds {
				if err := m.Lock(c.Ctx()); err != nil {
					return err
				}
				if err := m.Unlock(c.Ctx()); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("service", func(b *testing.B) {
		f, conn := loopback(b)
		c := v3lockpb.NewLockClient(conn)
		run(b, func(i, rounds int) error {
			ctx, lease := context.Background(), int64(i+1)
			if _, err := f.Propose(ctx, &pb.LeaseGrantRequest{ID: lease, TTL: 60}); err != nil {
				return err
			}
			for range rounds {
				l, err := c.Lock(ctx, &v3lockpb.LockRequest{Name: []byte("lock"), Lease: lease})
				if err != nil {
					return err
				}
				if _, err := c.Unlock(ctx, &v3lockpb.UnlockRequest{Key: l.Key}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}
