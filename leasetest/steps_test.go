package leasetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

var rewriteSteps = flag.Bool("rewrite-steps", false, "write testdata/steps.txt with the steps of the suite as they are")

// steps are what a case asks of an engine, and how often. Their order is left out: goroutines take their steps side
// by side.
type steps struct {
	mu      sync.Mutex
	count   map[string]int
	crowd   int             // Leasers from this one on are for contenders, which act at random
	leasers []tenure.Leaser // in the order in which they were opened
	name    string          // of the case, with which names begin
}

// note notes a step of a Leaser and its answer. Of a crowd it notes only which claims it makes, and its trouble.
func (s *steps) note(l tenure.Leaser, step, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.leasers, l)
	crowd := at >= s.crowd
	if crowd && !strings.HasPrefix(step, "Acquire") && !strings.HasPrefix(step, "cut") && !strings.HasPrefix(step, "healed") {
		return
	}
	text := step
	if at >= 0 {
		text = string(rune('a'+at)) + ": " + step
	}
	if answer != "" && !crowd {
		text += ": " + answer
	}
	if s.count[text]++; crowd || strings.HasPrefix(step, "Observe") {
		s.count[text] = 1 // often, by chance
	}
}

// asked says what a claim asks for.
func (s *steps) asked(c tenure.Claim) string {
	text := fmt.Sprintf("%s by %.10q", s.short(c.Name), c.Holder)
	if c.TTL != brokenTTL {
		text += fmt.Sprintf(", TTL %v", c.TTL)
	}
	if c.Slots != 0 {
		text += fmt.Sprintf(", slots %d", c.Slots)
	}
	if c.LockDelay != 0 {
		text += fmt.Sprintf(", lock delay %v", c.LockDelay)
	}
	return text
}

// short is a name without what is different in each run.
func (s *steps) short(name string) string {
	if _, suffix, ok := strings.Cut(name, s.name); ok {
		return fmt.Sprintf("%q", "…"+suffix)
	}
	return fmt.Sprintf("%.10q", name)
}

// kind says which errors of the contract an error wraps.
func kind(err error) string {
	if err == nil {
		return "nil"
	}
	var kinds []string
	for _, is := range []error{tenure.ErrLost, tenure.ErrReleased, tenure.ErrHeld, tenure.ErrClosed, tenure.ErrClaim, tenure.ErrUnavailable, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, is) {
			kinds = append(kinds, is.Error())
		}
	}
	return strings.Join(kinds, ", ")
}

// noted is a correct Leaser whose calls are noted.
type noted struct {
	*memoryLeaser
	steps *steps
}

func (l *noted) took(verb string, c tenure.Claim, lease tenure.Lease, err error) (tenure.Lease, error) {
	l.steps.note(l, verb+" of "+l.steps.asked(c), kind(err))
	if err != nil {
		return nil, err
	}
	return &notedLease{lease.(*memoryLease), l}, nil
}

func (l *noted) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	lease, err := l.memoryLeaser.Acquire(ctx, c)
	return l.took("Acquire", c, lease, err)
}

func (l *noted) TryAcquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	lease, err := l.memoryLeaser.TryAcquire(ctx, c)
	return l.took("TryAcquire", c, lease, err)
}

func (l *noted) Observe(ctx context.Context, name string) (tenure.State, error) {
	s, err := l.memoryLeaser.Observe(ctx, name)
	l.steps.note(l, "Observe of "+l.steps.short(name), kind(err))
	return s, err
}

func (l *noted) Record(ctx context.Context, name string) ([]byte, error) {
	record, err := l.memoryLeaser.Record(ctx, name)
	l.steps.note(l, "Record of "+l.steps.short(name), fmt.Sprintf("%.10q, of %d bytes, %s", record, len(record), kind(err)))
	return record, err
}

func (l *noted) SetRecord(ctx context.Context, lease tenure.Lease, record []byte) error {
	x := lease.(*notedLease)
	err := l.memoryLeaser.SetRecord(ctx, x.memoryLease, record)
	l.steps.note(l, fmt.Sprintf("SetRecord to %.10q, of %d bytes, under a lease of %s", record, len(record), l.steps.short(x.memoryLease.Name())), kind(err))
	return err
}

func (l *noted) Close() error {
	l.steps.note(l, "Close", "")
	return l.memoryLeaser.Close()
}

type notedLease struct {
	*memoryLease
	of *noted
}

func (x *notedLease) ask(what, answer string) {
	x.of.steps.note(x.of, what+" of the lease of "+x.of.steps.short(x.memoryLease.Name()), answer)
}

func (x *notedLease) Token() uint64 { x.ask("Token", "…"); return x.memoryLease.Token() }

func (x *notedLease) Holder() string {
	x.ask("Holder", x.memoryLease.Holder())
	return x.memoryLease.Holder()
}

func (x *notedLease) Deadline() time.Time { x.ask("Deadline", "…"); return x.memoryLease.Deadline() }

func (x *notedLease) Check() error {
	err := x.memoryLease.Check()
	x.ask("Check", kind(err))
	return err
}

func (x *notedLease) Err() error {
	err := x.memoryLease.Err()
	x.ask("Err", kind(err))
	return err
}

func (x *notedLease) Context() context.Context {
	ctx := x.memoryLease.Context()
	x.ask("Context", kind(context.Cause(ctx)))
	return ctx
}

func (x *notedLease) Release(ctx context.Context) error {
	err := x.memoryLease.Release(ctx)
	x.ask("Release", kind(err))
	return err
}

// stepsOf plays a case with a correct engine, and returns its steps, in words. Where the suite draws something at
// random, or looks again until something has happened, how often is left out.
func stepsOf(t *testing.T, name string, crowd int) (words []string) {
	bubble.Test(t, func(t *testing.T) {
		m := NewMemory()
		good := m.Fixture(brokenTTL)
		s := &steps{count: map[string]int{}, name: name, crowd: crowd}
		inner := func(l tenure.Leaser) tenure.Leaser { return l.(*noted).memoryLeaser }
		f := Fixture{
			TTL: brokenTTL,
			Open: func() (tenure.Leaser, error) {
				l := &noted{m.Open().(*memoryLeaser), s}
				s.mu.Lock()
				defer s.mu.Unlock()
				s.leasers = append(s.leasers, l)
				return l, nil
			},
			Cut:  func(l tenure.Leaser) { s.note(l, "cut off", ""); good.Cut(inner(l)) },
			Heal: func(l tenure.Leaser) { s.note(l, "healed", ""); good.Heal(inner(l)) },
			Lag: func(l tenure.Leaser, d time.Duration) {
				s.note(l, fmt.Sprintf("lags by %v", d), "")
				good.Lag(inner(l), d)
			},
			Restart: func() error {
				s.note(nil, "the store restarts", "")
				return good.Restart()
			},
			Crash: func() error {
				s.note(nil, "the store crashes", "")
				return good.Crash()
			},
			Suspend: func(l tenure.Leaser, d time.Duration) {
				s.note(l, fmt.Sprintf("sleeps for %v", d), "")
				good.Suspend(inner(l), d)
			},
		}
		began := time.Now()
		if found := record(t, name, f).found(); len(found) > 0 {
			t.Errorf("%s: a correct engine is said to be wrong: %q", name, found)
		}
		took := time.Since(began)
		time.Sleep(time.Minute) // what was closed ends its timers
		for _, step := range slices.Sorted(maps.Keys(s.count)) {
			if n := s.count[step]; n > 1 {
				step += fmt.Sprintf(" (%d times)", n)
			}
			words = append(words, step)
		}
		if crowd == nobody && !slices.Contains(untimed, name) {
			words = append(words, fmt.Sprintf("for %v", took))
		}
	})
	return words
}

// nobody: a case has no crowd.
const nobody = math.MaxInt

// crowds are the cases with contenders, and how many Leasers they open before those.
var crowds = map[string]int{
	"exclusive-holders-never-overlap": 0, "exclusive-under-partitions": 0,
	"shared-beside-shared-only": 2, "slots-are-never-exceeded": 2,
}

// untimed are the cases that look again and again until they see something, and the one in which a renewal may be on
// its way when the line is cut.
var untimed = []string{
	"arrivals-are-not-overtaken", "exclusive-waiters-in-order-of-arrival", "release-frees-at-once", "close-releases",
	"observe-does-not-contend", "ended-calls-are-forgotten", "lock-delay-longer-than-the-ttl",
}

// TestCasesTakeTheirSteps: what a case asks of an engine, what trouble it makes, and for how long. A step that is left
// out is a promise that is looked at no more.
func TestCasesTakeTheirSteps(t *testing.T) {
	const golden = "testdata/steps.txt"
	is := map[string][]string{}
	var text strings.Builder
	for _, c := range cases {
		crowd, has := crowds[c.name]
		if !has {
			crowd = nobody
		}
		is[c.name] = stepsOf(t, c.name, crowd)
		fmt.Fprintf(&text, "# %s\n%s\n\n", c.name, strings.Join(is[c.name], "\n"))
	}
	if *rewriteSteps {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	was := map[string][]string{}
	for part := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		name, list, _ := strings.Cut(strings.TrimPrefix(part, "# "), "\n")
		was[name] = strings.Split(list, "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		for _, step := range was[name] {
			if !slices.Contains(is[name], step) {
				t.Errorf("%s takes the step no more: %q; if that is meant, go test ./leasetest -run TestCasesTakeTheirSteps -rewrite-steps", name, step)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		for _, step := range is[name] {
			if !slices.Contains(was[name], step) {
				t.Errorf("%s takes a step that it did not take before: %q; if that is meant, go test ./leasetest -run TestCasesTakeTheirSteps -rewrite-steps", name, step)
			}
		}
	}
}
