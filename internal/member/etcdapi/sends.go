package etcdapi

import (
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sends are the messages of a snapshot on their way to a client. gRPC takes a message when the client's window
// has room for it, and waits for that without end. Here the wait ends, for others wait for their turn.
type sends struct {
	parts    chan *pb.SnapshotResponse
	done     chan error // one for each part
	patience time.Duration
}

var errUnread = status.Error(codes.DeadlineExceeded, "tenure: the client has read nothing of the snapshot for too long: it was cut off, so that others can have one")

// newSends begins to send, on a goroutine of its own, which ends with end, or with the stream.
func newSends(out pb.Maintenance_SnapshotServer, patience time.Duration) *sends {
	s := &sends{parts: make(chan *pb.SnapshotResponse), done: make(chan error, 1), patience: patience}
	go func() {
		for part := range s.parts {
			s.done <- out.Send(part)
		}
	}()
	return s
}

// send sends a part. It fails if gRPC does not take it for too long; nothing may be sent then.
func (s *sends) send(part *pb.SnapshotResponse) error {
	s.parts <- part
	late := time.NewTimer(s.patience)
	defer late.Stop()
	select {
	case err := <-s.done:
		return err
	case <-late.C:
		return errUnread
	}
}

// end lets the goroutine go. If it still sends, gRPC ends that when the call ends.
func (s *sends) end() { close(s.parts) }
