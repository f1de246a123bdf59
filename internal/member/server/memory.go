package server

import (
	"context"
	"log/slog"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/tenure-lease/tenure/internal/member/etcdapi"
)

// memory watches the live part of the memory that this process may use, and reports when it is
// short. Then requests that make the state larger are refused (etcdapi.Config.Short), before
// the kernel ends the process or the garbage collector takes all of its time.
type memory struct {
	limit  int64 // bytes; 0: no limit is known
	logger *slog.Logger
	short  atomic.Bool
	live   atomic.Int64 // bytes, at the last look
}

// Memory is short from eight tenths of the limit on, and is no longer below seven.
const (
	shortTenths  = 8
	enoughTenths = 7
	memoryPeriod = 100 * time.Millisecond
)

// newMemory watches a limit or, if that is 0, GOMEMLIMIT.
func newMemory(limit int64, logger *slog.Logger) *memory {
	if soft := debug.SetMemoryLimit(-1); limit == 0 && soft != math.MaxInt64 {
		limit = soft
	}
	return &memory{limit: limit, logger: logger}
}

func (m *memory) run(ctx context.Context) {
	if m.limit <= 0 {
		return
	}
	tick := time.NewTicker(memoryPeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.look(alive())
		case <-ctx.Done():
			return
		}
	}
}

// alive returns the bytes that the last garbage collection has left alive: later garbage does not
// count for the limit.
func alive() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// look judges how many bytes are alive.
func (m *memory) look(live int64) {
	m.live.Store(live)
	switch short := m.short.Load(); {
	case !short && live >= m.limit/10*shortTenths:
		m.short.Store(true)
		m.logger.Warn("memory is short: writes and large reads are refused until some is free; delete keys and compact, or give this member more",
			"live", live, "limit", m.limit)
	case short && live < m.limit/10*enoughTenths:
		m.short.Store(false)
		m.logger.Info("memory is no longer short: writes are taken again", "live", live, "limit", m.limit)
	}
}

// answerRoom is how many bytes of a limit answers may have that clients do not read.
func answerRoom(limit int64) int64 { return min(limit/4, etcdapi.DefaultAnswerBytes) }
