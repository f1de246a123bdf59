// Package quietlog keeps strangers from flooding a log: of one kind of event it has a line a second at
// most, which says how many were left out before it.
package quietlog

import (
	"log/slog"
	"sync"
	"time"
)

// pause is the least time between two lines.
const pause = time.Second

// Log is for one kind of event. The zero value is ready.
type Log struct {
	mu      sync.Mutex
	last    time.Time
	skipped int
}

// Warn tells of an event, unless it told of one less than a second ago.
func (q *Log) Warn(l *slog.Logger, msg string, args ...any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if now.Sub(q.last) < pause {
		q.skipped++
		return
	}
	l.Warn(msg, append(args, "similar lines left out", q.skipped)...)
	q.last, q.skipped = now, 0
}
