package cli

import (
	"context"
	"log/slog"

	"github.com/coreos/go-systemd/v22/journal"
)

// send is journal.Send, but for tests, and enabled is journal.Enabled.
var (
	send    = journal.Send
	enabled = journal.Enabled
)

// journal makes a log that goes to systemd's journal, each line with the priority of its level.
func (l Log) journal() (*slog.Logger, error) {
	if !enabled() {
		return nil, Usagef("--log-outputs systemd/journal: there is no journal on this machine")
	}
	h := byPriority{}
	for level, priority := range map[slog.Level]journal.Priority{
		slog.LevelDebug: journal.PriDebug, slog.LevelInfo: journal.PriInfo, slog.LevelWarn: journal.PriWarning, slog.LevelError: journal.PriErr,
	} {
		logger, err := l.Logger(toJournal(priority))
		if err != nil {
			return nil, err
		}
		h[level] = logger.Handler()
	}
	return slog.New(h), nil
}

// toJournal is one priority of the journal. Each Write is a line.
type toJournal journal.Priority

func (p toJournal) Write(line []byte) (int, error) {
	return len(line), send(string(line), journal.Priority(p), nil)
}

// byPriority has a handler for each level that has a priority.
type byPriority map[slog.Level]slog.Handler

// of returns the handler for a level, or for the next one below.
func (h byPriority) of(level slog.Level) slog.Handler {
	for _, at := range []slog.Level{slog.LevelError, slog.LevelWarn, slog.LevelInfo} {
		if level >= at {
			return h[at]
		}
	}
	return h[slog.LevelDebug]
}

func (h byPriority) Enabled(ctx context.Context, level slog.Level) bool {
	return h.of(level).Enabled(ctx, level)
}

func (h byPriority) Handle(ctx context.Context, r slog.Record) error {
	return h.of(r.Level).Handle(ctx, r)
}

func (h byPriority) each(change func(slog.Handler) slog.Handler) slog.Handler {
	with := byPriority{}
	for level, of := range h {
		with[level] = change(of)
	}
	return with
}

func (h byPriority) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.each(func(of slog.Handler) slog.Handler { return of.WithAttrs(attrs) })
}

func (h byPriority) WithGroup(name string) slog.Handler {
	return h.each(func(of slog.Handler) slog.Handler { return of.WithGroup(name) })
}
