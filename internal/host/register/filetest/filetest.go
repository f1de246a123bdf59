// Package filetest has tests of package internal/host/register/file, and of packages above it, fail
// if they leave a file open.
//
// A file that is left open is no fault that a test notices by itself: Go closes it some time later, and until
// then the process has one descriptor less. A member or a command that makes the same mistake every few
// seconds runs out of them, and its leases with it.
package filetest

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tenure-lease/tenure/internal/host/register/file"
)

// Main runs the tests of a package, and fails if they leave a goroutine running or a file of [file.OS] open.
// It calls cleanup before it ends the process.
func Main(m *testing.M, cleanup func()) {
	host := &counted{FS: file.OS, open: map[string]int{}}
	file.OS = host
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		cleanup()
		if code == 0 {
			code = host.report()
		}
		os.Exit(code)
	}))
}

// Descriptors fails a test if a call leaves descriptors of any kind open in this process. It makes
// the call often. Nothing else may go on in the process meanwhile.
func Descriptors(t testing.TB, what string, call func()) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it closes files that are left open
	call()                                           // files that are opened for good
	const times = 16
	before := descriptors(t)
	for range times {
		call()
	}
	if more := descriptors(t) - before; more >= times {
		t.Errorf("%s leaves descriptors open: %d more after %d times", what, more, times)
	}
}

// descriptors is how many this process has.
func descriptors(t testing.TB) int {
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// counted is a file system that knows which files are open.
type counted struct {
	file.FS

	mu   sync.Mutex
	open map[string]int // by path, how often
}

func (c *counted) Open(path string, flags int, perm fs.FileMode) (file.File, error) {
	f, err := c.FS.Open(path, flags, perm)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[path]++
	return &openFile{File: f, close: sync.OnceFunc(func() { c.closed(path) })}, nil
}

func (c *counted) closed(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[path]--; c.open[path] == 0 {
		delete(c.open, path)
	}
}

// report prints the files that are open, as a test that fails, and returns the exit code.
func (c *counted) report() (code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(c.open)) {
		fmt.Printf("--- FAIL: TestMain\n    %s is left open %d times\n", path, c.open[path])
		code = 1
	}
	return code
}

// openFile notes when it is closed.
type openFile struct {
	file.File
	close func()
}

func (f *openFile) Close() error {
	f.close()
	return f.File.Close()
}
