package etcd

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// keptStreams is a server of keep-alives that tells of its streams.
type keptStreams struct {
	pb.UnimplementedLeaseServer
	opened chan int // the number of each stream, from 1
	ended  chan int
	asks   chan *pb.LeaseKeepAliveRequest
	answer chan int64 // the TTLs that it grants, one each
	broken chan int   // has an open stream end
	count  int        // of the one goroutine that opens streams at a time
}

func (r *keptStreams) LeaseKeepAlive(s pb.Lease_LeaseKeepAliveServer) error {
	r.count++
	n := r.count
	r.opened <- n
	defer func() { r.ended <- n }()
	requests := make(chan *pb.LeaseKeepAliveRequest)
	go func() {
		defer close(requests)
		for {
			q, err := s.Recv()
			if err != nil {
				return
			}
			requests <- q
		}
	}()
	for {
		select {
		case q, more := <-requests:
			if !more {
				return nil
			}
			r.asks <- q
			select {
			case ttl := <-r.answer:
				if err := s.Send(&pb.LeaseKeepAliveResponse{ID: q.ID, TTL: ttl}); err != nil {
					return err
				}
			case <-s.Context().Done():
				return nil
			}
		case <-r.broken:
			go func() {
				for range requests {
				}
			}()
			return io.ErrUnexpectedEOF
		}
	}
}

// renewing is a server of keep-alives, and the keep-alives of lease 7 of a user of it.
func renewing(t *testing.T, user string) (*keptStreams, *keepAlives) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &keptStreams{
		opened: make(chan int, 10), ended: make(chan int, 10), asks: make(chan *pb.LeaseKeepAliveRequest, 10),
		answer: make(chan int64, 10), broken: make(chan int),
	}
	s := grpc.NewServer()
	pb.RegisterLeaseServer(s, r)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{l.Addr().String()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	client.Username = user // it does not log in any more
	return r, &keepAlives{client: client, id: 7}
}

// wants reports a stream that does not come within the time of a test.
func wants(t *testing.T, what string, streams chan int, want int) {
	t.Helper()
	select {
	case got := <-streams:
		if got != want {
			t.Fatalf("stream %d %s, want stream %d", got, what, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("no stream %s, want stream %d", what, want)
	}
}

func wantsRenewal(t *testing.T, r *keptStreams, k *keepAlives, ttl int64) {
	t.Helper()
	r.answer <- ttl
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	got, err := k.renew(ctx)
	if err != nil || got != time.Duration(ttl)*time.Second {
		t.Fatalf("a renewal that is granted %d s returns %v, %v", ttl, got, err)
	}
	if q := <-r.asks; q.ID != 7 {
		t.Errorf("a renewal of lease 7 asks for lease %d", q.ID)
	}
}

// TestStreamsOfRenewals: without a password each renewal has a stream of its own, which ends with it. With
// one, the stream stays for the next renewal, and ends with the lease.
func TestStreamsOfRenewals(t *testing.T) {
	t.Run("no password", func(t *testing.T) {
		r, k := renewing(t, "")
		for n := 1; n <= 2; n++ {
			wantsRenewal(t, r, k, 3)
			wants(t, "is opened", r.opened, n)
			wants(t, "ends with its renewal", r.ended, n)
		}
	})
	t.Run("password", func(t *testing.T) {
		r, k := renewing(t, "u")
		for range 3 {
			wantsRenewal(t, r, k, 3)
		}
		wants(t, "is opened", r.opened, 1)
		if len(r.opened) > 0 || len(r.ended) > 0 {
			t.Errorf("three renewals have opened %d streams more, and ended %d; want one stream that stays", len(r.opened), len(r.ended))
		}
		k.close()
		wants(t, "ends with the lease", r.ended, 1)
		k.close() // as of a lease that is released and lost
	})
	t.Run("over", func(t *testing.T) {
		r, k := renewing(t, "u")
		k.close()
		wantsRenewal(t, r, k, 3)
		wants(t, "ends with a renewal that outlasts its lease", r.ended, 1)
	})
}

// TestAStreamThatIsStuck: it holds up no other renewal, and ends with its caller. Of two that answer, one stays.
func TestAStreamThatIsStuck(t *testing.T) {
	r, k := renewing(t, "u")
	wantsRenewal(t, r, k, 3)
	wants(t, "is opened", r.opened, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stuck := make(chan error, 1)
	go func() {
		_, err := k.renew(ctx)
		stuck <- err
	}()
	<-r.asks
	second := make(chan error, 1)
	go func() {
		_, err := k.renew(t.Context())
		second <- err
	}()
	wants(t, "is opened beside one that is stuck", r.opened, 2)
	<-r.asks
	r.answer <- 3
	r.answer <- 3
	if err := errors.Join(<-stuck, <-second); err != nil {
		t.Fatal(err)
	}
	var ended int
	select {
	case ended = <-r.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("of two streams that have answered, both stay; want one")
	}
	go func() {
		_, err := k.renew(ctx)
		stuck <- err
	}()
	<-r.asks
	cancel()
	if err := <-stuck; err == nil {
		t.Error("a renewal whose caller has left succeeds")
	}
	wants(t, "ends with the caller", r.ended, 3-ended)
	if len(r.opened) > 0 {
		t.Error("a renewal is sent again for a caller that has left")
	}
}

// TestAStreamThatIsBroken: the renewal goes on another. A server that does not know the lease is
// not asked twice.
func TestAStreamThatIsBroken(t *testing.T) {
	r, k := renewing(t, "u")
	wantsRenewal(t, r, k, 3)
	wants(t, "is opened", r.opened, 1)
	r.broken <- 1
	wants(t, "breaks", r.ended, 1)
	wantsRenewal(t, r, k, 4)
	wants(t, "is opened for a renewal behind one that broke", r.opened, 2)
	r.answer <- 0
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if ttl, err := k.renew(ctx); !errors.Is(err, errUnknownLease) {
		t.Errorf("the server does not know the lease, and its renewal returns %v, %v; want %v", ttl, err, errUnknownLease)
	}
	wants(t, "ends with a lease that is unknown", r.ended, 2)
	if len(r.opened) > 0 {
		t.Error("a server that does not know the lease is asked again")
	}
}
