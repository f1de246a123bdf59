package main

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/leasetest"
)

// said is what people are told, by several goroutines.
type said struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// People are told at once that we wait, for whom and behind how many, and again when another holds the
// name. Once it is ours they are told nothing more.
func TestAWaitIsTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		memory := leasetest.NewMemory()
		l := memory.Open()
		defer l.Close()
		acquired := func(holder string) chan tenure.Lease {
			c := make(chan tenure.Lease, 1)
			go func() {
				x, err := l.Acquire(t.Context(), tenure.Claim{Name: "fake", Holder: holder})
				if err != nil {
					t.Error(err)
				}
				c <- x
			}()
			synctest.Wait()
			return c
		}
		first := <-acquired("first")
		second := acquired("second")
		words := &said{}
		ten := fakeTenancy("true")
		ten.words, ten.claim.Holder = words, "us"
		mine := make(chan tenure.Lease, 1)
		go func() {
			x, err := ten.admission(t.Context(), l, wait{})
			if err != nil {
				t.Error(err)
			}
			mine <- x
		}()
		synctest.Wait()
		wantTold(t, words, `^tenure: waiting for "fake": first holds it, until \d\d:\d\d:\d\d unless it renews; another waits\n$`)
		_ = first.Release(t.Context())
		time.Sleep(2 * time.Second)
		wantTold(t, words, `\n.*still waiting for "fake": second holds it since \d\d:\d\d:\d\d\n$`)
		before := words.String()
		_ = (<-second).Release(t.Context())
		x := <-mine
		time.Sleep(2 * time.Second)
		_ = x.Release(t.Context())
		<-acquired("third")
		time.Sleep(2 * time.Second)
		if words.String() != before {
			t.Errorf("after the wait people are told %q", strings.TrimPrefix(words.String(), before))
		}
	})
}

// Where no people look on a wait is silent, and does not even look.
func TestAWaitIsSilentWithoutPeople(t *testing.T) {
	looks := 0
	quiet := fakeTenancy("true").tellWait(t.Context(), looking{looks: &looks}, tenure.HeldError{})
	if quiet(); looks != 0 {
		t.Errorf("nobody is told anything, and it looks %d times", looks)
	}
	if people() != nil {
		t.Error("a test has no terminal, and people are there")
	}
}

// looking is a Leaser that cannot be looked at.
type looking struct {
	fakeLeaser
	looks *int
}

func (l looking) Observe(ctx context.Context, name string) (tenure.State, error) {
	*l.looks++
	return tenure.State{Name: name}, errors.New("odd")
}

// If the look fails people are told what the refusal has said.
func TestAWaitIsToldWithoutALook(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		words := &said{}
		ten, looks := fakeTenancy("true"), 0
		ten.words = words
		quiet := ten.tellWait(t.Context(), looking{looks: &looks}, tenure.HeldError{Holder: "first"})
		wantTold(t, words, `^tenure: waiting for "fake": first holds it\n$`)
		quiet()
	})
}

// silentLook is a Leaser that does not answer a look.
type silentLook struct{ fakeLeaser }

func (silentLook) Observe(ctx context.Context, _ string) (tenure.State, error) {
	<-ctx.Done()
	return tenure.State{}, ctx.Err()
}

// A store that does not answer a look holds up the wait for a second, and the wait is told all the same.
func TestALookHoldsUpNoWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		words, ten, began := &said{}, fakeTenancy("true"), time.Now()
		ten.words = words
		quiet := ten.tellWait(ctx, silentLook{}, tenure.HeldError{Holder: "first"})
		if took := time.Since(began); took != lookLimit {
			t.Errorf("a look that is not answered holds up a wait for %v, want %v", took, lookLimit)
		}
		wantTold(t, words, `^tenure: waiting for "fake": first holds it\n$`)
		quiet()
	})
}

// ours is a Leaser whose name is held by another, and then by us and by a third.
type ours struct {
	fakeLeaser
	holders []string // next
}

func (o *ours) Observe(ctx context.Context, name string) (tenure.State, error) {
	return o.Await(ctx, tenure.State{Name: name})
}

func (o *ours) Await(ctx context.Context, s tenure.State) (tenure.State, error) {
	if len(o.holders) == 0 {
		<-ctx.Done()
		return s, ctx.Err()
	}
	time.Sleep(time.Millisecond)
	s.Holders, o.holders = []tenure.Holding{{Holder: o.holders[0], Token: uint64(100 - len(o.holders))}}, o.holders[1:]
	return s, nil
}

// People are not told that they wait for themselves.
func TestAWaitForUsIsNotTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		words, ten := &said{}, fakeTenancy("true")
		ten.words, ten.claim.Holder = words, "us"
		quiet := ten.tellWait(t.Context(), &ours{holders: []string{"first", "us", "third"}}, tenure.HeldError{})
		time.Sleep(time.Second)
		quiet()
		wantTold(t, words, `^tenure: waiting for "fake": first holds it\n.*still waiting for "fake": third holds it since \d\d:\d\d:\d\d\n$`)
	})
}

// closing is a Leaser that is closed while it is looked at.
type closing struct {
	looking
	awaits *int
}

func (c closing) Await(context.Context, tenure.State) (tenure.State, error) {
	*c.awaits++
	return tenure.State{}, tenure.ErrClosed
}

// Where leases are looked at no more a wait is told no more.
func TestAClosedLeaserIsNotLookedAt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ten, looks, awaits := fakeTenancy("true"), 0, 0
		ten.words = &said{}
		quiet := ten.tellWait(t.Context(), closing{looking{looks: &looks}, &awaits}, tenure.HeldError{})
		time.Sleep(time.Hour)
		quiet()
		if synctest.Wait(); awaits != 1 {
			t.Errorf("a leaser that is closed is looked at %d times in an hour, want once", awaits)
		}
	})
}

// Several holders, and several that wait, are told in a sentence.
func TestWordsOfAWait(t *testing.T) {
	s := tenure.State{}
	for n, want := range []string{"a holds it", "a and another hold it", "a and 2 others hold it"} {
		s.Holders = append(s.Holders, tenure.Holding{Holder: "a"})
		if got := heldBy(s); got != want {
			t.Errorf("%d holders: %q, want %q", n+1, got, want)
		}
	}
	for n, want := range map[int]string{-1: "", 0: "", 1: "; another waits", 2: "; 2 others wait"} {
		if got := others(n); got != want {
			t.Errorf("%d wait: %q, want %q", n, got, want)
		}
	}
}

func wantTold(t *testing.T, words *said, want string) {
	t.Helper()
	if !regexp.MustCompile(want).MatchString(words.String()) {
		t.Errorf("people are told %q, want %s", words.String(), want)
	}
}

// Times are told as clocks on the wall of this machine show them.
func TestTimesAreLocal(t *testing.T) {
	before := time.Local
	defer func() { time.Local = before }()
	time.Local = time.FixedZone("here", 3*3600)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if got, want := until(at), ", until 06:04:05 unless it renews"; got != want {
		t.Errorf("a deadline is told as %q, want %q", got, want)
	}
	if got := until(time.Time{}); got != "" {
		t.Errorf("a deadline that is not known is told as %q", got)
	}
	if got, want := warning(tenure.Holding{Holder: "h", Until: at}), "h may still act until it learns of this, at the latest until 06:04:05; "; !strings.HasPrefix(got, want) {
		t.Errorf("a warning is %q, want %q", got, want)
	}
}
