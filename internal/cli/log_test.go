package cli

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// A log has the level and the form that are asked for, and by default those of its process and JSON where there
// is no terminal.
func TestLog(t *testing.T) {
	for _, tt := range []struct {
		level slog.Level // of the process
		args  []string
		lines int // of one at each level
		json  bool
	}{
		{slog.LevelInfo, nil, 3, true}, {slog.LevelWarn, nil, 2, true},
		{slog.LevelWarn, []string{"--log-level", "debug", "--log-format", "text"}, 4, false},
		{slog.LevelInfo, []string{"--log-level", "error", "--log-format", "console"}, 1, false},
		{slog.LevelInfo, []string{"--log-format", "json"}, 3, true},
		{slog.LevelInfo, []string{"--log-level", "panic"}, 0, false}, {slog.LevelInfo, []string{"--log-level", "fatal"}, 0, false},
		{slog.LevelInfo, []string{"--log-level", "WARN"}, 2, true},
	} {
		var l Log
		f := pflag.NewFlagSet("f", pflag.ContinueOnError)
		l.Register(f, tt.level)
		if err := f.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		logger, err := l.Logger(&b)
		if err != nil {
			t.Fatal(err)
		}
		for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			logger.Log(t.Context(), level, "said")
		}
		first, _, _ := bytes.Cut(b.Bytes(), []byte("\n"))
		if n := bytes.Count(b.Bytes(), []byte("\n")); n != tt.lines || json.Valid(first) != tt.json {
			t.Errorf("%v %q: the log of one line at each level is\n%s\nwant %d lines, JSON: %v", tt.level, tt.args, &b, tt.lines, tt.json)
		}
	}
	for says, l := range map[string]Log{"--log-level": {Level: "loud"}, "--log-format": {Format: "xml"}} {
		if _, err := l.Logger(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want it refused", l, err)
		}
	}
}
