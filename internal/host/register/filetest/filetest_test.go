package filetest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tenure-lease/tenure/internal/host/register/file"
)

func TestOpenFilesAreReported(t *testing.T) {
	host := &counted{FS: file.OS, open: map[string]int{}}
	path := filepath.Join(t.TempDir(), "f")
	var files []file.File
	for range 2 {
		f, err := host.Open(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	files[0].Close()
	files[0].Close() // counts once
	if code := host.report(); code != 1 || host.open[path] != 1 {
		t.Errorf("code %d with %d open, want 1 and 1", code, host.open[path])
	}
	files[1].Close()
	if code := host.report(); code != 0 || len(host.open) != 0 {
		t.Errorf("code %d with %v open, want 0 and nothing", code, host.open)
	}
}

func TestDescriptorsAreReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var left []*os.File
	open := func() *os.File {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	leaves, closes := &recorded{TB: t}, &recorded{TB: t}
	Descriptors(leaves, "a call", func() { left = append(left, open()) })
	Descriptors(closes, "a call", func() { open().Close() })
	for _, f := range left {
		f.Close()
	}
	if leaves.errors != 1 || closes.errors != 0 {
		t.Errorf("a call that leaves a file open fails %d times, one that closes it %d times; want 1 and 0", leaves.errors, closes.errors)
	}
}

// recorded is a test of which only the number of errors counts.
type recorded struct {
	testing.TB
	errors int
}

func (r *recorded) Errorf(string, ...any) { r.errors++ }
