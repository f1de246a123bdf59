package cli

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/spf13/pflag"
)

// outputs are those of a command line.
func outputs(t *testing.T, args ...string) Outputs {
	t.Helper()
	var o Outputs
	f := pflag.NewFlagSet("f", pflag.ContinueOnError)
	o.Register(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o
}

// captured returns what is written to one of the process's streams meanwhile.
func captured(t *testing.T, stream **os.File, during func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	was := *stream
	*stream = w
	defer func() { *stream = was }()
	during()
	w.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A log goes to each place that is named, and to standard error if none is.
func TestLogGoesToItsOutputs(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.log"), filepath.Join(dir, "two.log")
	if err := os.WriteFile(one, []byte("earlier\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args                     []string
		stderr, stdout, one, two bool
	}{
		{nil, true, false, false, false}, {[]string{"--log-outputs", "default"}, true, false, false, false},
		{[]string{"--log-outputs", "default,default"}, true, false, false, false},
		{[]string{"--log-outputs", "stderr"}, true, false, false, false}, {[]string{"--log-outputs", "stdout"}, false, true, false, false},
		{[]string{"--log-outputs", "stderr,stdout," + one}, true, true, true, false},
		{[]string{"--log-outputs", one + "," + two + "," + one}, false, false, true, true},
		{[]string{"--log-outputs="}, true, false, false, false},
	} {
		mark := strings.Join(tt.args, " ") + "!"
		var stdout string
		stderr := captured(t, &os.Stderr, func() {
			stdout = captured(t, &os.Stdout, func() {
				logger, done, err := outputs(t, tt.args...).Logger(Log{Level: "info", Format: "json"})
				if err != nil {
					t.Fatal(err)
				}
				defer done()
				logger.Info("said " + mark)
			})
		})
		read := func(path string) string {
			text, _ := os.ReadFile(path)
			return string(text)
		}
		for name, at := range map[string]struct {
			text string
			want bool
		}{"stderr": {stderr, tt.stderr}, "stdout": {stdout, tt.stdout}, "a file": {read(one), tt.one}, "another": {read(two), tt.two}} {
			want := 0
			if at.want {
				want = 1
			}
			if n := strings.Count(at.text, mark); n != want {
				t.Errorf("%q: the line is %d times in %s, want %d:\n%s", tt.args, n, name, want, at.text)
			}
		}
	}
	if text, err := os.ReadFile(one); err != nil || !strings.HasPrefix(string(text), "earlier\n") {
		t.Errorf("a file that was there is now %q, %v; want its lines kept", text, err)
	}
}

// full is an output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A log goes on at the outputs that can be written, and says that a line was lost at another.
func TestALogGoesOnWhereItCan(t *testing.T) {
	var stderr strings.Builder
	n, err := eachOutput{full{}, &stderr, full{}}.Write([]byte("line"))
	if stderr.String() != "line" {
		t.Errorf("beside a full disk standard error lacks the line: %q", stderr.String())
	}
	if n != 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a lost line is no error: %d, %v", n, err)
	}
	if n, err := (eachOutput{&stderr}).Write([]byte("more")); n != 4 || err != nil {
		t.Errorf("a written line: %d, %v", n, err)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		return
	}
	if got := captured(t, &os.Stderr, func() {
		logger, done, err := outputs(t, "--log-outputs", "stderr,/dev/full").Logger(Log{})
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		logger.Info("said")
	}); !strings.Contains(got, "said") {
		t.Errorf("a file that cannot be written silences standard error: %q", got)
	}
}

// A log that cannot be as it is asked for is an error that names the flag.
func TestLogOutputsThatAreNone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	enabled = func() bool { return false }
	defer func() { enabled = journal.Enabled }()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--log-outputs", "default,stdout"}, "default goes with no other"},
		{[]string{"--log-outputs", "systemd/journal,stdout"}, "systemd/journal goes with no other"},
		{[]string{"--log-outputs", "systemd/journal"}, "there is no journal"},
		{[]string{"--log-outputs", filepath.Join(dir, "none", "log")}, "no such file or directory"},
		{[]string{"--enable-log-rotation"}, "needs one file in --log-outputs, and there are 0"},
		{[]string{"--enable-log-rotation", "--log-outputs", file + "," + file + "2"}, "and there are 2"},
		{[]string{"--enable-log-rotation", "--log-outputs", file, "--log-rotation-config-json", "{"}, "--log-rotation-config-json: "},
		{[]string{"--enable-log-rotation", "--log-outputs", file, "--log-rotation-config-json", `{"maxsize": "x"}`}, "--log-rotation-config-json: "},
		{[]string{"--enable-log-rotation", "--log-outputs", file, "--log-rotation-config-json", `{"maxbackups": -1}`}, "a number is negative"},
	} {
		if _, _, err := outputs(t, tt.args...).Logger(Log{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want it to say %q", tt.args, err, tt.want)
		}
	}
}

// A log that cannot be as it is asked for leaves no file open.
func TestLogOutputsThatFailAreClosed(t *testing.T) {
	dir := t.TempDir()
	fine := filepath.Join(dir, "a.log")
	if _, _, err := outputs(t, "--log-outputs", fine+","+filepath.Join(dir, "none", "log")).Logger(Log{}); err == nil {
		t.Fatal("a log in a directory that does not exist is no error")
	}
	if _, err := os.Stat(fine); err != nil {
		t.Fatalf("the first file was not opened before the other failed: %v", err)
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(open) == 0 {
		t.Skip("no list of open files here")
	}
	for _, fd := range open {
		if to, _ := os.Readlink(fd); to == fine {
			t.Errorf("%s is still open", to)
		}
	}
}

// A file that rotates makes place for a new one when it is as large as is said, and keeps so many old ones.
func TestLogRotates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tenure.log")
	logger, done, err := outputs(t, "--enable-log-rotation", "--log-outputs", file, "--log-rotation-config-json", `{"maxsize": 1}`).Logger(Log{})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 1<<18)
	for range 5 {
		logger.Info(line)
	}
	done()
	all, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	if err != nil || len(all) != 2 {
		t.Errorf("a log of 1.25 MiB, of files of 1 MiB, is in %d files, want 2: %v, %v", len(all), all, err)
	}
	now, err := os.Stat(file)
	if err != nil || now.Size() > 1<<20 {
		t.Errorf("the file is %v, %v; want it below 1 MiB", now, err)
	}
}

// A line in the journal has the priority of its level, and what the logger was given.
func TestLogGoesToTheJournal(t *testing.T) {
	said := map[journal.Priority]string{}
	enabled = func() bool { return true }
	send = func(line string, priority journal.Priority, _ map[string]string) error {
		said[priority] += line
		return nil
	}
	defer func() { enabled, send = journal.Enabled, journal.Send }()
	logger, done, err := outputs(t, "--log-outputs", "systemd/journal").Logger(Log{Level: "info"})
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	logger = logger.With("member", "a").WithGroup("g").With("k", "v")
	logger.Debug("one")
	logger.Info("two")
	logger.Warn("three")
	logger.Error("four")
	logger.Log(t.Context(), slog.LevelError+4, "five")
	for priority, want := range map[journal.Priority][]string{
		journal.PriDebug: nil, journal.PriInfo: {"two"}, journal.PriWarning: {"three"}, journal.PriErr: {"four", "five"},
	} {
		if n := strings.Count(said[priority], "\n"); n != len(want) {
			t.Errorf("%d lines of priority %d, want %d: %q", n, priority, len(want), said[priority])
		}
		for _, word := range want {
			if !strings.Contains(said[priority], word) || !strings.Contains(said[priority], `"member":"a","g":{"k":"v"}`) {
				t.Errorf("priority %d has %q, want %q and what the logger was given", priority, said[priority], word)
			}
		}
	}
}
