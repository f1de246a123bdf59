package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
)

// engineSpy is an engine that notes each call. The names that a test asks for say what it answers.
type engineSpy struct {
	mu    sync.Mutex
	notes strings.Builder
	times map[string]int // of each call
}

// spyOnEngines has all engines but stores in files be one that notes its calls.
func spyOnEngines(t *testing.T) *engineSpy {
	s := &engineSpy{times: map[string]int{}}
	engines, servers := openEngine, openServer
	openEngine = func(ctx context.Context, url string) (tenure.Leaser, error) {
		s.note(ctx, "open %s", url)
		if strings.HasSuffix(url, "silent") {
			return nil, fmt.Errorf("%w: silent", tenure.ErrUnavailable)
		}
		return s, nil
	}
	openServer = func(ctx context.Context, cfg etcd.Config) (tenure.Leaser, error) {
		if cfg.Username != "" {
			s.note(ctx, "as %s with %q", cfg.Username, cfg.Password)
		}
		return openEngine(ctx, "etcd://"+strings.TrimSuffix(strings.Join(cfg.Endpoints, ","), ":2379"))
	}
	t.Cleanup(func() { openEngine, openServer = engines, servers })
	return s
}

// note notes a call with the time that it has, and returns how often it has come.
func (s *engineSpy) note(ctx context.Context, format string, args ...any) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	s.times[line]++
	fmt.Fprintf(&s.notes, "> %s", line)
	if end, bounded := ctx.Deadline(); bounded {
		fmt.Fprintf(&s.notes, " within %v", limitOf(time.Until(end)))
	}
	fmt.Fprintln(&s.notes)
	return s.times[line]
}

// limitOf is the limit of which so much is left, of those that commands have: a busy machine has used some of it.
func limitOf(left time.Duration) time.Duration {
	for _, limit := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 50 * time.Second} {
		if left <= limit && left > limit/2 {
			return limit
		}
	}
	return left
}

func (s *engineSpy) TryAcquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	times := s.note(ctx, "try %+v", c)
	switch c.Name {
	case "held", "taken":
		return nil, tenure.HeldError{Name: c.Name, Holder: "another", Until: time.Now().Add(time.Hour)}
	case "unreached":
		return nil, fmt.Errorf("%w: odd", tenure.ErrUnavailable)
	case "refused":
		return nil, fmt.Errorf("%w: odd", tenure.ErrClaim)
	case "lost":
		return s.lease(c, times == 1), nil
	}
	return s.lease(c, false), nil
}

func (s *engineSpy) Acquire(ctx context.Context, c tenure.Claim) (tenure.Lease, error) {
	s.note(ctx, "acquire %+v", c)
	if c.Name == "taken" {
		return nil, errors.Join(context.DeadlineExceeded, tenure.HeldError{Name: c.Name, Holder: "another"})
	}
	return s.lease(c, false), nil
}

func (s *engineSpy) Observe(ctx context.Context, name string) (tenure.State, error) {
	s.note(ctx, "observe %s", name)
	until := time.Now().Add(time.Hour)
	state := tenure.State{Name: name}
	switch name {
	case "held", "led", "followed", "taken":
		state.Waiting, state.Holders = 2, []tenure.Holding{{Holder: "another", Token: 5, Slots: 1, Until: until}}
	case "several":
		state.Holders = []tenure.Holding{{Holder: "one", Token: 8, Slots: 3, Until: until}, {Holder: "two", Token: 9, Slots: 4, Until: until}}
	case "unreached":
		return state, fmt.Errorf("%w: odd", tenure.ErrUnavailable)
	case "refused":
		return state, fmt.Errorf("%w: odd", tenure.ErrClaim)
	}
	return state, nil
}

func (s *engineSpy) Await(ctx context.Context, since tenure.State) (tenure.State, error) {
	if since.Name == "led" {
		return since, fmt.Errorf("%w: odd", tenure.ErrUnavailable)
	}
	<-ctx.Done()
	return since, ctx.Err()
}

func (s *engineSpy) List(ctx context.Context, prefix string) ([]string, error) {
	switch times := s.note(ctx, "list %q", prefix); {
	case prefix == "unreached", prefix == "watched" && times > 1:
		return nil, errors.New("odd")
	case prefix == "partly":
		return []string{"held", "unreached", "n"}, nil
	case prefix == "none":
		return nil, nil
	}
	return []string{"held", "several", "waited-for"}, nil
}

func (s *engineSpy) Break(ctx context.Context, name string, tenures []tenure.Holding) error {
	var tokens []uint64
	for _, h := range tenures {
		tokens = append(tokens, h.Token)
	}
	s.note(ctx, "break %s %d", name, tokens)
	return nil
}

func (s *engineSpy) Record(ctx context.Context, name string) ([]byte, error) {
	times := s.note(ctx, "record %s", name)
	run := tenure.Run{Holder: "before", Token: 3, Started: time.Now().Add(-time.Hour), Ended: time.Now().Add(-time.Minute)}
	switch name {
	case "done", "kept", "taken":
	case "unreadable":
		return []byte("{"), nil
	case "cut":
		if times > 1 {
			return nil, fmt.Errorf("%w: odd", tenure.ErrUnavailable)
		}
	case "failed":
		run.Failed = true
	case "future":
		run.Started, run.Ended = time.Now().Add(48*time.Hour), time.Time{}
	case "unreached":
		return nil, fmt.Errorf("%w: odd", tenure.ErrUnavailable)
	default:
		return nil, nil
	}
	return json.Marshal(run)
}

func (s *engineSpy) SetRecord(ctx context.Context, l tenure.Lease, record []byte) error {
	s.note(ctx, "set the record of %s to %q", l.Name(), record)
	if l.Name() == "unset" || l.Name() == "unended" && strings.Contains(string(record), "ended") {
		return fmt.Errorf("%w: odd", tenure.ErrUnavailable)
	}
	return nil
}

func (s *engineSpy) Agree(ctx context.Context, name string, proposal []byte) ([]byte, error) {
	s.note(ctx, "agree on %s for %q", name, proposal)
	switch name {
	case "taken":
		return nil, context.DeadlineExceeded
	case "unreached":
		return nil, fmt.Errorf("%w: odd", tenure.ErrUnavailable)
	}
	return []byte("decided"), nil
}

func (s *engineSpy) Decided(ctx context.Context, name string) ([]byte, bool, error) {
	s.note(ctx, "look at what is decided on %s", name)
	if name == "unreached" {
		return nil, false, fmt.Errorf("%w: odd", tenure.ErrUnavailable)
	}
	return []byte("decided"), name != "none", nil
}

func (s *engineSpy) Close() error {
	s.note(context.Background(), "close")
	return nil
}

// lease is one that is held, or is lost at once.
func (s *engineSpy) lease(c tenure.Claim, lost bool) *spiedLease {
	l := &spiedLease{spy: s, claim: c, done: make(chan struct{}), until: time.Now().Add(max(c.TTL, 15*time.Minute))}
	if lost {
		close(l.done)
	}
	return l
}

type spiedLease struct {
	spy   *engineSpy
	claim tenure.Claim
	done  chan struct{}
	until time.Time
}

func (l *spiedLease) Name() string          { return l.claim.Name }
func (l *spiedLease) Holder() string        { return l.claim.Holder }
func (l *spiedLease) Token() uint64         { return 7 }
func (l *spiedLease) Deadline() time.Time   { return l.until }
func (l *spiedLease) Done() <-chan struct{} { return l.done }
func (l *spiedLease) Check() error          { return l.Err() }

func (l *spiedLease) Context() context.Context {
	return context.Background()
}

func (l *spiedLease) Err() error {
	select {
	case <-l.done:
		return tenure.ErrLost
	default:
		return nil
	}
}

func (l *spiedLease) Release(ctx context.Context) error {
	l.spy.note(ctx, "release %s", l.claim.Name)
	if l.claim.Name == "kept" {
		return fmt.Errorf("%w: odd", tenure.ErrUnavailable)
	}
	return l.Err()
}

// host is what this process is called as a holder by default.
func host() string {
	name, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", name, os.Getpid())
}
