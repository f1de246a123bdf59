package cli

import (
	"cmp"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
)

// Log is the log of a process that runs for long, on standard error.
type Log struct{ Level, Format string }

// Register adds --log-level and --log-format. etcd's word for text is console.
func (l *Log) Register(f *pflag.FlagSet, level slog.Level) {
	f.StringVar(&l.Level, "log-level", map[slog.Level]string{slog.LevelInfo: "info", slog.LevelWarn: "warn"}[level], "`level` of what is logged: debug, info, warn or error; with panic or fatal nothing is logged")
	f.StringVar(&l.Format, "log-format", "auto", "`form` of the log on standard error: text (or console), json, or auto: text on a terminal, and JSON elsewhere")
}

// Logger makes the log.
func (l Log) Logger(w io.Writer) (*slog.Logger, error) {
	level, err := levelOf(cmp.Or(l.Level, "info"))
	if err != nil {
		return nil, err
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

// levelOf reads a level. etcd's panic and fatal are above all that is logged here.
func levelOf(name string) (level slog.Level, err error) {
	switch strings.ToLower(name) {
	case "dpanic", "panic", "fatal":
		return slog.LevelError + 4, nil
	}
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return level, Usagef("--log-level %q: want debug, info, warn, error, panic or fatal", name)
	}
	return level, nil
}
