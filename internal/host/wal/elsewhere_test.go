package wal_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
)

// apart is a data directory and one for its log.
type apart struct{ data, log string }

func (a apart) options() wal.Options { return wal.Options{LogDir: a.log, SegmentBytes: 1 << 16} }

// start creates or opens the log, appends a record, closes it, and returns all records.
func (a apart) start(opts wal.Options) (text string, err error) {
	found, err := opts.Exists(a.data)
	if err != nil {
		return "", err
	}
	var l *wal.Log
	if found {
		l, err = wal.Open(a.data, opts, func(r wal.Record) error { text += string(r.Payload); return nil })
	} else {
		l, err = wal.Create(a.data, nil, opts)
	}
	if err != nil {
		return "", err
	}
	if _, err := l.Append(wal.Record{Kind: 1, Payload: []byte("x")}); err != nil {
		return "", err
	}
	if err := l.Sync(); err != nil {
		return "", err
	}
	return text + "x", l.Close()
}

func newApart(t *testing.T) apart {
	t.Helper()
	dir := t.TempDir()
	a := apart{filepath.Join(dir, "data"), filepath.Join(dir, "fast", "log")}
	for _, want := range []string{"x", "xx"} {
		if got, err := a.start(a.options()); err != nil || got != want {
			t.Fatalf("the log has %q, %v; want %q", got, err, want)
		}
	}
	if segments, err := filepath.Glob(filepath.Join(a.log, "*.wal")); err != nil || len(segments) != 1 {
		t.Fatalf("segments %v, %v; want one where the log is to be", segments, err)
	}
	return a
}

// move moves the segments of a log.
func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(from, "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	for _, s := range segments {
		if err := os.Rename(s, filepath.Join(to, filepath.Base(s))); err != nil {
			t.Fatal(err)
		}
	}
}

// A data directory whose log is elsewhere does not look new without it, wherever the log went.
func TestALogElsewhereIsMissed(t *testing.T) {
	for name, tt := range map[string]struct {
		how  func(t *testing.T, a *apart)
		want string // of the error; "" where the log goes on
	}{
		"no directory is named":         {func(_ *testing.T, a *apart) { a.log = "" }, "name that directory"},
		"another directory is named":    {func(_ *testing.T, a *apart) { a.log += "2" }, "is not here; it was in"},
		"the log was emptied":           {func(t *testing.T, a *apart) { os.RemoveAll(a.log) }, "is not here; it was in"},
		"the data was emptied":          {func(t *testing.T, a *apart) { os.RemoveAll(a.data) }, "was never used"},
		"the log has moved":             {func(t *testing.T, a *apart) { move(t, a.log, a.log+"2"); a.log += "2" }, ""},
		"the log has moved to the data": {func(t *testing.T, a *apart) { move(t, a.log, filepath.Join(a.data, "wal")); a.log = "" }, ""},
		"it is another's log": {func(t *testing.T, a *apart) {
			other := newApart(t)
			os.RemoveAll(a.log)
			move(t, other.log, a.log)
		}, "the log is not the one of"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApart(t)
			tt.how(t, &a)
			got, err := a.start(a.options())
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("it starts with %q, %v; want it to say %q", got, err, tt.want)
			}
			if tt.want == "" && (err != nil || got != "xxx") {
				t.Errorf("it starts with %q, %v; want the records of before", got, err)
			}
			if again, err := a.start(a.options()); tt.want == "" && (err != nil || again != "xxxx") {
				t.Errorf("its next start: %q, %v", again, err)
			}
		})
	}
}

// A log that is in the data directory is moved out by its operator alone, with all of it.
func TestALogIsMovedOutOfTheData(t *testing.T) {
	dir := t.TempDir()
	a := apart{data: filepath.Join(dir, "data")}
	if _, err := a.start(a.options()); err != nil {
		t.Fatal(err)
	}
	a.log = filepath.Join(dir, "log")
	if got, err := a.start(a.options()); err == nil || !strings.Contains(err.Error(), "move its files to "+a.log) {
		t.Errorf("it starts with %q, %v; want it refused", got, err)
	}
	move(t, filepath.Join(a.data, "wal"), a.log)
	if got, err := a.start(a.options()); err != nil || got != "xx" {
		t.Errorf("with its log moved, it starts with %q, %v", got, err)
	}
}

// Two data directories cannot have one directory for their logs.
func TestALogElsewhereIsLocked(t *testing.T) {
	a := newApart(t)
	l, err := wal.Open(a.data, a.options(), func(wal.Record) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	other := apart{a.data + "2", a.log}
	if err := os.MkdirAll(other.data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other.data, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := wal.Open(other.data, other.options(), func(wal.Record) error { return nil }); !errors.Is(err, wal.ErrLocked) {
		t.Errorf("another data directory with the same log: %v, want %v", err, wal.ErrLocked)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.start(a.options()); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// A start that dies at any write, or loses power there, leaves a data directory that starts: as new while nothing
// was promised.
func TestALogElsewhereBeginsWhole(t *testing.T) {
	for cut := range 6 {
		for at := 1; ; at++ {
			disk := waltest.NewDisk()
			fsys := disk.FS()
			var n int
			fsys.Fault = func(op, path string) error {
				if n++; n == at {
					disk.Kill()
					return errors.New("killed")
				}
				return nil
			}
			opts := wal.Options{LogDir: "/fast/log", FS: fsys, SegmentBytes: 1 << 12}
			l, err := wal.Create("/data", nil, opts)
			if err == nil {
				l.Close()
				if at < 10 {
					t.Fatalf("only %d operations were interrupted", at)
				}
				break
			}
			if cut == 0 {
				disk.Exit()
			} else {
				disk.Crash(rand.New(rand.NewPCG(uint64(cut), uint64(at))))
			}
			opts.FS = disk.FS()
			a := apart{"/data", "/fast/log"}
			if got, err := a.start(opts); err != nil || got != "x" {
				t.Errorf("killed at operation %d, power cut %v: the next start has %q, %v", at, cut > 0, got, err)
			}
		}
	}
}

// A log elsewhere, and the mark that says where, outlive power cuts. Without the log the data directory does not
// look new after one.
func TestALogElsewhereOutlivesPowerCuts(t *testing.T) {
	for seed := range uint64(20) {
		disk, a, want := waltest.NewDisk(), apart{"/data", "/fast/log"}, ""
		for range 3 {
			want += "x"
			opts := wal.Options{LogDir: a.log, FS: disk.FS(), SegmentBytes: 1 << 12}
			if got, err := a.start(opts); err != nil || got != want {
				t.Fatalf("seed %d: it starts with %q, %v; want %q", seed, got, err, want)
			}
			disk.Crash(rand.New(rand.NewPCG(seed, uint64(len(want)))))
		}
		if got, err := a.start(wal.Options{FS: disk.FS()}); err == nil || !strings.Contains(err.Error(), "name that directory") {
			t.Errorf("seed %d: without its log the data directory starts with %q, %v", seed, got, err)
		}
	}
}
