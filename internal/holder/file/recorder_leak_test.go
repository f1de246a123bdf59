package file

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/host/register/filetest"
)

// A Leaser that has set and read a record, and whose lease had a lifeline, leaves neither a descriptor nor a
// goroutine when it is closed.
func TestARecorderLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	once := func() {
		l, err := Open(t.Context(), Config{Paths: []string{dir}, SingleHost: true, State: filepath.Join(dir, "..", "state")})
		if err != nil {
			t.Fatal(err)
		}
		lease, err := l.Acquire(t.Context(), tenure.Claim{Name: "job"})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.SetRecord(t.Context(), lease, []byte("once")); err != nil {
			t.Error(err)
		}
		if got, err := l.Record(t.Context(), "job"); err != nil || string(got) != "once" {
			t.Errorf("the record is %q, %v", got, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	once()
	before := runtime.NumGoroutine()
	filetest.Descriptors(t, "a Leaser with a record", once)
	end := time.Now().Add(20 * time.Second)
	for runtime.NumGoroutine() > before && time.Now().Before(end) { // the last of them end just after Close
		runtime.Gosched()
	}
	if more := runtime.NumGoroutine() - before; more > 0 {
		t.Errorf("17 Leasers with a record leave %d goroutines", more)
	}
}
