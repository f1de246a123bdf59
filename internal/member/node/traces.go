package node

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tenure-lease/tenure/internal/member/span"
)

// The names of spans, which docs/tracing.md explains.
const (
	spanPropose = "tenure.propose"
	spanSync    = "tenure.log.sync"
	spanRead    = "tenure.read"
)

// traces are what spans need that no call knows by itself.
type traces struct {
	waiting atomic.Int64 // proposals that are traced
	last    atomic.Pointer[logSync]
}

// logSync is a forced write of the log.
type logSync struct{ begin, end time.Time }

// synced is told of each forced write. Most members trace nothing, and remember nothing.
func (n *Node) synced(took time.Duration) {
	if n.cfg.Synced != nil {
		n.cfg.Synced(took)
	}
	if n.traces.waiting.Load() > 0 {
		end := time.Now()
		n.traces.last.Store(&logSync{end.Add(-took), end})
	}
}

// proposeTraced is replicate with a span: from the proposal until its answer is to be seen, with the latest forced
// write of this member's log in that time.
func (n *Node) proposeTraced(ctx context.Context, body []byte) (result, error) {
	begin, part := time.Now(), span.Begin(ctx, spanPropose)
	part.Set("tenure.request.bytes", len(body))
	n.traces.waiting.Add(1)
	r, err := n.replicate(ctx, body)
	n.traces.waiting.Add(-1)
	if s := n.traces.last.Load(); s != nil && s.end.After(begin) {
		part.Within(spanSync, s.begin, s.end)
	}
	part.End(err)
	return r, err
}

// readTraced is readFresh with a span: the wait until what was acknowledged before may be read here.
func (n *Node) readTraced(ctx context.Context, request proto.Message) (*state, error) {
	part := span.Begin(ctx, spanRead)
	st, err := n.readFresh(ctx, request)
	part.End(err)
	return st, err
}
