package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
)

// listed is a Leaser whose names and holders a test sets.
type listed struct {
	fakeLeaser
	mu     sync.Mutex
	states []tenure.State
	fails  error
}

func (l *listed) set(fails error, states ...tenure.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states, l.fails = states, fails
}

func (l *listed) List(_ context.Context, prefix string) (names []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.states {
		if strings.HasPrefix(s.Name, prefix) {
			names = append(names, s.Name)
		}
	}
	return names, l.fails
}

func (l *listed) Observe(_ context.Context, name string) (tenure.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.states {
		if s.Name == name {
			return s, nil
		}
	}
	return tenure.State{Name: name}, nil
}

// A watcher prints what is held, then each change of holders and nothing else, and outlasts a store
// that does not answer for a while.
func TestWatchedLeases(t *testing.T) {
	for _, form := range []cli.Output{"table", "json"} {
		bubble.Test(t, func(t *testing.T) {
			one, two := tenure.Holding{Holder: "one", Token: 7}, tenure.Holding{Holder: "two", Token: 8}
			l := &listed{}
			out, words := &said{}, &said{}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			hold := func(name string, hs ...tenure.Holding) tenure.State {
				return tenure.State{Name: name, Holders: hs, Waiting: 1}
			}
			l.set(nil, hold("a", one), hold("b"), hold("c", one))
			go func() { ended <- watchLeases(ctx, l, "", form, out, words) }()
			pass := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
			pass(watchEvery / 2) // between two looks
			told := 0
			wantLines := func(when string, want ...string) {
				t.Helper()
				lines := strings.Split(strings.TrimSuffix(out.String()[told:], "\n"), "\n")
				told = len(out.String())
				var got []string
				for _, line := range lines {
					if line == "" {
						continue
					}
					var c changedLease
					if form == "json" {
						if err := json.Unmarshal([]byte(line), &c); err != nil || c.Time.IsZero() || c.Holders == nil {
							t.Errorf("%s: line %q: %v", when, line, err)
						}
						var b strings.Builder
						_ = c.print("table", &b)
						line = strings.TrimSuffix(b.String(), "\n")
					}
					at, rest, _ := strings.Cut(line, "\t")
					if told, err := time.Parse(time.RFC3339, at); err != nil || told.After(time.Now()) || time.Since(told) > watchEvery+time.Second {
						t.Errorf("as %s, %s: the time of a line is %q, %v; want now", form, when, at, err)
					}
					got = append(got, rest)
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("as %s, %s: the lines are %q, want %q", form, when, got, want)
				}
			}
			wantLines("at first", "a\tone (token 7)", "c\tone (token 7)")
			pass(3 * watchEvery)
			wantLines("without a change")
			l.set(nil, hold("a", one, two), hold("b", two))
			pass(watchEvery)
			wantLines("after changes", "a\tone (token 7), two (token 8)", "b\ttwo (token 8)", "c\t(free)")
			l.set(fmt.Errorf("%w: odd", tenure.ErrUnavailable))
			pass(3 * watchEvery)
			wantLines("without an answer")
			if got := words.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "odd") {
				t.Errorf("a store that does not answer is told as %q, want it told once", got)
			}
			l.set(nil, hold("a"), hold("b", two))
			pass(watchEvery)
			wantLines("with answers again", "a\t(free)")
			l.set(fmt.Errorf("%w: even", tenure.ErrUnavailable))
			pass(3 * watchEvery)
			if got := words.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "even") {
				t.Errorf("a store that does not answer for a second time is told as %q, want each time told", got)
			}
			stop()
			if err := <-ended; err != nil {
				t.Errorf("told to end, it ends with %v", err)
			}
		})
	}
}

// A look is at the names with the prefix alone.
func TestALookIsAtThePrefix(t *testing.T) {
	l := &listed{states: []tenure.State{{Name: "a/1"}, {Name: "b/1"}, {Name: "a/2"}}}
	for prefix, want := range map[string]string{"": "a/1 b/1 a/2", "a/": "a/1 a/2", "c": ""} {
		states, err := lookAtAll(t.Context(), l, prefix)
		var names []string
		for _, s := range states {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("with the prefix %q the names are %q, %v; want %q", prefix, got, err, want)
		}
	}
}

// unseen is a Leaser with names that cannot be looked at.
type unseen struct{ listed }

func (u *unseen) Observe(context.Context, string) (tenure.State, error) {
	return tenure.State{}, tenure.ErrUnavailable
}

// A name that cannot be looked at is a failure: a list without it would tell that it is free.
func TestAListIsWhole(t *testing.T) {
	l := &unseen{}
	l.set(nil, tenure.State{Name: "a"}, tenure.State{Name: "b"})
	if states, err := leaseStates(t.Context(), l, ""); !errors.Is(err, tenure.ErrUnavailable) || states != nil {
		t.Errorf("two names cannot be looked at, and listed are %+v, %v; want %v", states, err, tenure.ErrUnavailable)
	}
}

// A watch outlives a store that does not answer in time, and ends with any other trouble.
func TestWhatAWatchOutlives(t *testing.T) {
	for fails, outlives := range map[error]bool{
		fmt.Errorf("n: %w", tenure.ErrUnavailable): true, fmt.Errorf("n: %w", context.DeadlineExceeded): true, tenure.ErrClosed: false, tenure.ErrClaim: false, errors.New("odd"): false,
	} {
		bubble.Test(t, func(t *testing.T) {
			l, words := &listed{}, &said{}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- watchLeases(ctx, l, "", "table", io.Discard, words) }()
			time.Sleep(watchEvery / 2)
			l.set(fails)
			time.Sleep(3 * watchEvery)
			synctest.Wait()
			select {
			case err := <-ended:
				if outlives || err != fails {
					t.Errorf("a look fails with %q, and the watch ends with %v", fails, err)
				}
			default:
				if want := "tenure: no answer, and looks on: " + fails.Error() + "\n"; !outlives || words.String() != want {
					t.Errorf("a look fails with %q, and the watch goes on, and says %q; want %q once", fails, words, want)
				}
				stop()
				<-ended
			}
		})
	}
}

// A watcher that cannot begin, or go on, or whose output is not read, ends with the reason.
func TestEndsOfAWatch(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	states := []tenure.State{{Name: "a", Holders: []tenure.Holding{{Holder: "one", Token: 7}}}}
	for _, fails := range []error{tenure.ErrUnavailable, errors.New("odd")} {
		if err := watchLeases(ctx, &listed{states: states, fails: fails}, "", "table", io.Discard, io.Discard); err != fails {
			t.Errorf("a first look that fails with %v ends it with %v", fails, err)
		}
	}
	full := errors.New("nobody reads")
	r, w := io.Pipe()
	r.CloseWithError(full)
	if err := watchLeases(ctx, &listed{states: states}, "", "table", w, io.Discard); err != full {
		t.Errorf("with an output that nobody takes it ends with %v, want %v", err, full)
	}
	wantRefused(t, watchLeases(t.Context(), fakeLeaser{}, "", "table", io.Discard, io.Discard), "cannot list names")
	_, err := command(t, "lease", "list", "--watch", "--at", "file:///none")
	wantExit(t, err, cli.ExitUnavailable)
}
