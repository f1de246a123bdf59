package etcdapi

import (
	"context"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// forOthers are the calls that last until another client lets go of something.
var forOthers = []string{"Lock", "Campaign"}

// slow tells of calls that took long, one line a second: a member that is slow has many. A line has
// neither keys nor values.
type slow struct {
	from   time.Duration // 0: none is slow
	logger *slog.Logger

	mu   sync.Mutex
	last time.Time
	more int // calls since the last line
}

// done notes a call that has ended.
func (s *slow) done(ctx context.Context, method string, req any, err error, began time.Time) {
	if s.from <= 0 {
		return
	}
	now := time.Now()
	took := now.Sub(began)
	if took < s.from || slices.Contains(forOthers, path.Base(method)) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more++; now.Sub(s.last) < time.Second {
		return
	}
	size := 0
	if m, ok := req.(proto.Message); ok {
		size = proto.Size(m)
	}
	s.logger.WarnContext(ctx, "a call took long", "method", method, "took", took, "bound", s.from, "request bytes", size,
		"code", status.Code(err).String(), "slow since the last line", s.more)
	s.last, s.more = now, 0
}
