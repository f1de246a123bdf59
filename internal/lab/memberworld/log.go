package memberworld

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/tenure-lease/tenure/internal/lab/world"
)

// traceLog puts a member's log into the trace, and counts each message: that a member was sent
// a snapshot, say, is seen by its log.
type traceLog struct {
	w    *world.World
	who  string
	told func(string) // each message
	more []slog.Attr
}

func (l *traceLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l *traceLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v %s", l.who, r.Level, r.Message)
	add := func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range l.more {
		add(a)
	}
	r.Attrs(add)
	l.w.Trace.Add("%s", b.String())
	text, _, _ := strings.Cut(r.Message, ":")
	l.w.Count("log: "+text, 1)
	l.told(r.Message)
	return nil
}

func (l *traceLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &traceLog{l.w, l.who, l.told, append(l.more[:len(l.more):len(l.more)], attrs...)}
}

func (l *traceLog) WithGroup(string) slog.Handler { return l }
