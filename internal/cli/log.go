package cli

import (
	"cmp"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// Log is the log of a process that runs for long, on standard error.
type Log struct{ Level, Format string }

// Register adds --log-level and --log-format. etcd's word for text is console.
func (l *Log) Register(f *pflag.FlagSet, level slog.Level) {
	f.StringVar(&l.Level, "log-level", map[slog.Level]string{slog.LevelInfo: "info", slog.LevelWarn: "warn"}[level], "debug, info, warn or error")
	f.StringVar(&l.Format, "log-format", "auto", "`form` of the log on standard error: text (or console), json, or auto: text on a terminal, and JSON elsewhere")
}

// Logger makes the log.
func (l Log) Logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmp.Or(l.Level, "info"))); err != nil {
		return nil, Usagef("--log-level %q: want debug, info, warn or error", l.Level)
	}
	opts := &slog.HandlerOptions{Level: level}
	format := cmp.Or(l.Format, "auto")
	if format == "auto" {
		format = "json"
		if IsTerminal(w) {
			format = "text"
		}
	}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	case "console", "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	}
	return nil, Usagef("--log-format %s: want auto, text, console or json", l.Format)
}
