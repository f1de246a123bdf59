package world

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// World is a world while it is played. Its methods may be called by any goroutine of it.
type World struct {
	Seed  uint64
	Trace *Trace

	t      *testing.T
	began  time.Time
	happen func(Fault) bool

	mu       sync.Mutex
	plan     []planned
	procs    map[string]*Process
	counters map[string]int
	failed   []string
	struck   time.Duration // when the last fault ends
	calm     bool          // no more faults
}

// planned is a fault that waits for the n-th operation.
type planned struct {
	Fault
	seen int
}

// Options choose the world that is played.
type Options struct {
	Seed uint64
	Plan []Fault
	// Drain is how long the world goes on when its body has returned, so that sleeping
	// goroutines can end. It has to exceed the longest fault. Default one minute.
	Drain time.Duration
	// Limit is how long the world may last, by its own time, until its body returns; 0: as long
	// as it likes. It has failed then. If it goes on, the program ends, for nothing can end the
	// goroutines of a bubble.
	Limit time.Duration
	// Patience is how long, by a true clock, a world may go on without an event at a later moment
	// of its own time before it is taken for stuck. Default two minutes.
	Patience time.Duration
	// Procs is GOMAXPROCS meanwhile; 0 leaves it.
	Procs int
	// Memory keeps the trace in memory until the end: system calls while the world goes on
	// make goroutines run in another order.
	Memory bool
}

// Result is the outcome of a world.
type Result struct {
	Seed     uint64
	Failures []string
	Counters map[string]int
	Events   int
	Digest   uint64
	Took     time.Duration // by a true clock
	Passed   time.Duration // by the world's
}

// Play plays a world in a bubble of its own: body runs it, and returns when all that it has
// started has been told to end. The test fails if the body calls Fail.
func Play(t *testing.T, o Options, body func(*World)) (r Result) {
	t.Helper()
	if o.Drain == 0 {
		o.Drain = time.Minute
	}
	if o.Patience == 0 {
		o.Patience = 2 * time.Minute
	}
	if o.Procs > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.Procs))
	}
	cryptotest.SetGlobalRandom(t, o.Seed)
	path := TraceFile(t.Name(), o.Seed)
	w := &World{
		Seed: o.Seed, Trace: &Trace{}, t: t,
		procs: map[string]*Process{}, counters: map[string]int{},
	}
	if !o.Memory {
		w.Trace = newTrace(path)
	}
	over, late := make(chan struct{}), make(chan struct{})
	defer close(over)
	go w.watch(o.Patience, path, over, late)
	began := time.Now()
	defer func() { // a bubble that has failed ends this goroutine
		w.mu.Lock()
		defer w.mu.Unlock()
		r.Seed, r.Failures, r.Counters = o.Seed, w.failed, w.counters
		r.Events, r.Digest, r.Took = w.Trace.len(), w.Trace.Digest(), time.Since(began)
		if o.Memory && (len(w.failed) > 0 || t.Failed()) {
			w.Trace.keep(path)
		}
		if w.Trace.file == nil {
			return
		}
		w.Trace.file.Close()
		if len(w.failed) == 0 && !t.Failed() {
			os.Remove(path)
		} else {
			t.Logf("seed %d: the trace is in %s, its end is\n%s", o.Seed, path, strings.Join(w.Trace.Last(20), "\n"))
		}
	}()
	bubble.Test(t, func(t *testing.T) {
		w.t = t
		w.began = time.Now()
		w.Trace.began = w.began
		w.schedule(o.Plan)
		stop := w.limit(o.Limit, late)
		body(w)
		stop()
		r.Passed = time.Since(w.began)
		time.Sleep(o.Drain)
	})
	return r
}

// Rehearse returns a world in which nothing happens, for tests of judges: the judges' complaints are
// in Failures, and fail no test.
func Rehearse() *World {
	now := time.Now()
	return &World{Trace: &Trace{began: now}, began: now, procs: map[string]*Process{}, counters: map[string]int{}}
}

// T is the test of the bubble, which alone may be skipped or ended there.
func (w *World) T() *testing.T { return w.t }

// watch ends the test's process when the time of a world stands still: a goroutine is blocked by
// something outside the bubble, or runs without end. It does so, too, when a world that is late goes on
// though it had time, by a true clock, to end or to find that all of it waits.
func (w *World) watch(patience time.Duration, path string, over, late <-chan struct{}) {
	seen := time.Duration(-1)
	for {
		select {
		case <-over:
			return
		case <-late:
			select {
			case <-over:
			case <-time.After(min(patience, 5*time.Second)):
				w.giveUp(path, "it goes on though it is late")
			}
			return
		case <-time.After(patience):
		}
		now := w.Trace.reached()
		if now != seen {
			seen = now
			continue
		}
		w.giveUp(path, fmt.Sprintf("its time has stood still for %v, and the goroutine without \"(durable)\" is to blame", patience))
	}
}

// limit has a world fail that lasts longer than it may, and tells its watcher. 0 is no limit.
func (w *World) limit(d time.Duration, late chan<- struct{}) (stop func()) {
	if d == 0 {
		return func() {}
	}
	timer := time.AfterFunc(d, func() {
		w.Fail("the world has not ended after %v of its time", d)
		close(late)
	})
	return func() { timer.Stop() }
}

// giveUp ends the program, and tells what was found before: it is not told otherwise.
func (w *World) giveUp(path, why string) {
	var stacks strings.Builder
	pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	panic(fmt.Sprintf("world: seed %d: %s; the trace is in %s; found before: %q\n%s", w.Seed, why, path, w.Failures(), stacks.String()))
}

// Rand is a source of random numbers for one purpose. The same seed and purpose give the
// same numbers, no matter how much others draw.
func (w *World) Rand(purpose string) *rand.Rand { return Rand(w.Seed, purpose) }

// Rand is the source that a World of the seed has for a purpose.
func Rand(seed uint64, purpose string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(purpose))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// Elapsed is the time since the world began.
func (w *World) Elapsed() time.Duration { return time.Since(w.began) }

// Fail notes that something is wrong. The world goes on.
func (w *World) Fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.Trace.Add("FAILED %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failed) < 20 {
		w.failed = append(w.failed, text)
		if w.t == nil {
			return
		}
		w.t.Errorf("seed %d, after %v: %s", w.Seed, time.Since(w.began), text)
	}
}

// Failures are what Fail was told.
func (w *World) Failures() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.failed)
}

// Count adds to a counter.
func (w *World) Count(name string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counters[name] += n
}

// Counter is the present count.
func (w *World) Counter(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counters[name]
}

// Start makes a process of that name, which takes the place of an earlier one.
func (w *World) Start(name string) *Process {
	p := &Process{w: w, name: name, dead: make(chan struct{})}
	p.moved.L = &p.mu
	w.mu.Lock()
	defer w.mu.Unlock()
	w.procs[name] = p
	return p
}

// Process is the newest process of that name, nil if there was none.
func (w *World) Process(name string) *Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.procs[name]
}
