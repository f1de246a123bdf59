package leasetest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// recorder is a testing.TB that keeps what it is told to itself.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	errors   []string
	skipped  bool
	cleanups []func()
}

// record runs one case of the suite, and returns its errors.
func record(t *testing.T, name string, f Fixture) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, c := range slices.Backward(r.cleanups) {
				c()
			}
		}()
		for _, c := range cases {
			if c.name == name {
				c.run(newBench(r, name, f))
				return
			}
		}
		t.Errorf("there is no case %q", name)
	}()
	<-done
	return r
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// found are the errors so far: goroutines of a case that was stopped may add more.
func (r *recorder) found() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errors)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(string, ...any) {
	r.skipped = true
	runtime.Goexit()
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}
