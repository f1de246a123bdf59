package world

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// ring is how many lines of a trace are kept in memory.
const ring = 10_000

// Trace is what happened in a world, a line for each event. Lines go to a file at once, so
// that it is there even if the process ends in a panic; the last ones stay in memory.
type Trace struct {
	began time.Time
	file  *os.File // nil: there is none

	mu     sync.Mutex
	lines  []string // a ring
	count  int
	digest uint64
	newest time.Duration // the moment of the newest line
}

// TraceFile is where the world of a seed that a test plays has its trace. Packages have tests
// of the same name, and play them side by side: the name of the test's program, which is
// the package's, comes first. The file of a world that passed is removed.
func TraceFile(test string, seed uint64) string {
	program := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	name := strings.NewReplacer("/", "-", "#", "-").Replace(strings.TrimSuffix(program, ".test") + "-" + test)
	return filepath.Join(os.TempDir(), "tenure-worlds", fmt.Sprintf("%s-%d.trace", name, seed))
}

func newTrace(path string) *Trace {
	t := &Trace{}
	if os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		t.file, _ = os.Create(path) // else the ring has to do
	}
	return t
}

// keep writes the lines in memory to a file.
func (t *Trace) keep(path string) {
	was := t.Last(ring)
	if t.file = newTrace(path).file; t.file != nil {
		for _, line := range was {
			t.file.WriteString(line + "\n")
		}
	}
}

// Add adds a line.
func (t *Trace) Add(format string, args ...any) {
	now := time.Since(t.began)
	line := fmt.Sprintf("%13.6f ", now.Seconds()) + fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.newest = max(t.newest, now)
	h := fnv.New64a()
	fmt.Fprintf(h, "%x %s", t.digest, line)
	t.digest = h.Sum64()
	if t.file != nil {
		t.file.WriteString(line + "\n")
	}
	if len(t.lines) < ring {
		t.lines = append(t.lines, line)
	} else {
		t.lines[t.count%ring] = line
	}
	t.count++
}

// len is how many lines were added.
func (t *Trace) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// reached is the moment of the newest line.
func (t *Trace) reached() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest
}

// Digest tells traces apart.
func (t *Trace) Digest() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.digest
}

// Last returns the last n lines, or all that are kept if those are fewer.
func (t *Trace) Last(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	n = min(n, len(t.lines))
	last := make([]string, 0, n)
	for i := t.count - n; i < t.count; i++ {
		last = append(last, t.lines[i%ring])
	}
	return last
}
