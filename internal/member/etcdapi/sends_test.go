package etcdapi

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/member/watch"
)

// slowClient is a client whose window has room now and then.
type slowClient struct {
	pb.Maintenance_SnapshotServer
	takes time.Duration
	fails error
	sent  int
}

func (s *slowClient) Send(*pb.SnapshotResponse) error {
	time.Sleep(s.takes)
	s.sent++
	return s.fails
}

// A client that reads slowly gets its snapshot, however long that takes; one that reads nothing is cut off.
func TestASlowReaderOfASnapshot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		client := &slowClient{takes: 59 * time.Second}
		s := newSends(client, time.Minute)
		for range 10 {
			if err := s.send(&pb.SnapshotResponse{}); err != nil {
				t.Fatalf("a client that takes a part in %v: %v", client.takes, err)
			}
		}
		client.fails = io.ErrClosedPipe
		if err := s.send(&pb.SnapshotResponse{}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a connection that ends: got %v", err)
		}
		client.takes = 61 * time.Second
		begun := time.Now()
		if err := s.send(&pb.SnapshotResponse{}); !errors.Is(err, errUnread) || time.Since(begun) != time.Minute {
			t.Errorf("a client that reads nothing for %v: got %v after %v, want that it is cut off after a minute", client.takes, err, time.Since(begun))
		}
		s.end()
		time.Sleep(2 * time.Second) // gRPC lets the part go
	})
}

// A client that reads nothing of its snapshot does not keep others from theirs, and is told why it was cut off
// when it reads on.
func TestAnUnreadSnapshotIsCutOff(t *testing.T) {
	f := newFake(t, watch.Config{})
	s := f.serve(t, Config{SnapshotPatience: 200 * time.Millisecond, BackupDir: t.TempDir()})
	for i := range 8 {
		s.put(string(rune('a'+i)), string(make([]byte, 1<<20)))
	}
	m := pb.NewMaintenanceClient(s.conn)
	unread, err := m.Snapshot(t.Context(), &pb.SnapshotRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unread.Recv(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	other, err := m.Snapshot(ctx, &pb.SnapshotRequest{})
	for err == nil {
		_, err = other.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Fatalf("another client's snapshot: got %v, want all of it", err)
	}
	for err = nil; err == nil; {
		_, err = unread.Recv()
	}
	if status.Code(err) != codes.DeadlineExceeded || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("the client that has read nothing is told %v, want that it was cut off", err)
	}
}
