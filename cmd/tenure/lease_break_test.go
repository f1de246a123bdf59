package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/engine"
	"github.com/tenure-lease/tenure/internal/cli"
)

// breakable is a Leaser with holders that can be broken.
type breakable struct {
	fakeLeaser
	holders []tenure.Holding
	broken  *[]uint64 // tokens
	fails   error
}

func (b breakable) Observe(_ context.Context, name string) (tenure.State, error) {
	return tenure.State{Name: name, Holders: b.holders}, nil
}

func (b breakable) Break(_ context.Context, _ string, tenures []tenure.Holding) error {
	for _, h := range tenures {
		*b.broken = append(*b.broken, h.Token)
	}
	return b.fails
}

// A lease is broken only if that is meant: by --yes, or by a yes on a terminal. --token breaks one
// tenure alone, and the exit code tells why nothing was done.
func TestWhatIsBroken(t *testing.T) {
	two := []tenure.Holding{{Holder: "one", Token: 7}, {Holder: "two", Token: 8}}
	answer := func(s string) io.Reader { return strings.NewReader(s) }
	for name, tt := range map[string]struct {
		b       breaking
		holders []tenure.Holding
		fails   error
		broken  []uint64
		code    int
		says    string // on either output, or as the error
	}{
		"said to be meant":  {breaking{yes: true}, two, nil, []uint64{7, 8}, 0, "one may still act"},
		"not said":          {breaking{}, two, nil, nil, cli.ExitUsage, "only if --yes"},
		"answered yes":      {breaking{ask: answer("yes\n")}, two, nil, []uint64{7, 8}, 0, "Warning: two may still act"},
		"answered no":       {breaking{ask: answer("no\n")}, two, nil, nil, cli.ExitFailure, "the answer was not yes"},
		"answered y":        {breaking{ask: answer("y\n")}, two, nil, nil, cli.ExitFailure, "the answer was not yes"},
		"answered more":     {breaking{ask: answer("yes and no\n")}, two, nil, nil, cli.ExitFailure, "the answer was not yes"},
		"answered by CR":    {breaking{ask: answer("yes\r\n")}, two, nil, []uint64{7, 8}, 0, "Warning: one may still act"},
		"not answered":      {breaking{ask: answer("")}, two, nil, nil, cli.ExitFailure, "the answer was not yes"},
		"one of two":        {breaking{yes: true, token: 8}, two, nil, []uint64{8}, 0, `broke "n": two, token 8`},
		"another's token":   {breaking{yes: true, token: 9}, two, nil, nil, cli.ExitNotAcquired, "no tenure with token 9"},
		"another's, asked":  {breaking{ask: answer("yes\n"), token: 9}, two, nil, nil, cli.ExitNotAcquired, "no tenure with token 9"},
		"another's, unsaid": {breaking{token: 9}, two, nil, nil, cli.ExitNotAcquired, "no tenure with token 9"},
		"free":              {breaking{yes: true}, nil, nil, nil, 0, `"n" is free`},
		"free, not meant":   {breaking{token: 7}, nil, nil, nil, 0, `"n" is free`},
		"as JSON":           {breaking{yes: true, output: "json"}, two[:1], nil, []uint64{7}, 0, `"token": 7`},
		"free, as JSON":     {breaking{output: "json"}, nil, nil, nil, 0, `"broken": []`},
		"not confirmed":     {breaking{yes: true}, two[:1], errors.New("odd"), []uint64{7}, cli.ExitUnavailable, "odd"},
		"a yes to one only": {breaking{ask: answer("yes\n"), token: 7}, two, nil, []uint64{7}, 0, "one may still act"},
	} {
		var said, out strings.Builder
		var broken []uint64
		b := tt.b
		b.name, b.out, b.say = "n", &out, &said
		if b.output == "" {
			b.output = "table"
		}
		err := b.run(t.Context(), breakable{holders: tt.holders, broken: &broken, fails: tt.fails})
		if done := err == nil; (out.Len() > 0) != done || done && b.output == "table" && strings.Count(out.String(), "\n") != max(1, len(tt.broken)) {
			t.Errorf("%s: on standard output it says %q, %v; want a line for each tenure that was broken, and no question", name, &out, err)
		}
		said.WriteString(out.String())
		if err != nil {
			said.WriteString(err.Error())
		}
		var exit cli.ExitError
		errors.As(err, &exit)
		if exit.Code != tt.code || !slices.Equal(broken, tt.broken) || !strings.Contains(said.String(), tt.says) {
			t.Errorf("%s: broken are %v, with exit code %d, and it says %q; want %v, %d and %q", name, broken, exit.Code, &said, tt.broken, tt.code, tt.says)
		}
	}
	b := breaking{at: place{url: "flease:///s"}, name: "n", yes: true}
	err := b.run(t.Context(), fakeLeaser{})
	wantRefused(t, err, "cannot be broken: each peer has promised")
}

// silentBreaker is a store that does not answer when it is asked for something.
type silentBreaker struct {
	breakable
	looks bool // it does not even answer a look
}

func (s silentBreaker) Observe(ctx context.Context, name string) (tenure.State, error) {
	if s.looks {
		<-ctx.Done()
		return tenure.State{}, fmt.Errorf("%w: %w", tenure.ErrUnavailable, ctx.Err())
	}
	return s.breakable.Observe(ctx, name)
}

func (s silentBreaker) Break(ctx context.Context, _ string, _ []tenure.Holding) error {
	<-ctx.Done()
	return ctx.Err()
}

// A store that does not answer has half a minute for each step, and then nothing is confirmed.
func TestABreakIsNotWaitedForForEver(t *testing.T) {
	for _, looks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			b := breaking{name: "n", yes: true, output: "table", out: io.Discard, say: io.Discard}
			err := b.run(ctx, silentBreaker{breakable{holders: []tenure.Holding{{Holder: "one", Token: 7}}}, looks})
			wantExit(t, err, cli.ExitUnavailable)
			if took := time.Since(began); took != 30*time.Second {
				t.Errorf("a store that does not answer a look: %v: it is waited for for %v, want half a minute", looks, took)
			}
		})
	}
}

// A lease in storage is another's at once when it is broken, and without --yes it stays.
func TestBreakCommand(t *testing.T) {
	for _, at := range []string{"file://" + t.TempDir(), "redis://" + redisServer(t).Addr()} {
		testBreak(t, at)
	}
}

func testBreak(t *testing.T, at string) {
	t.Helper()
	if out, err := command(t, "lease", "init", "--at", at, "--ttl", "30s", "--delay", "200ms"); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	l, err := engine.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	held, err := l.Acquire(t.Context(), tenure.Claim{Name: "n"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = command(t, "lease", "break", "n", "--at", at)
	if wantRefused(t, err, "only if --yes"); held.Check() != nil {
		t.Errorf("without --yes it was broken: %v", held.Check())
	}
	if out, err := command(t, "lease", "break", "n", "--yes", "--at", at); err != nil || !strings.Contains(out, `broke "n"`) {
		t.Errorf("%s, %v", out, err)
	}
	next, err := l.TryAcquire(t.Context(), tenure.Claim{Name: "n"})
	if err != nil || next.Token() <= held.Token() {
		t.Errorf("after the break a claim gets %v, %v, want it held with a greater token than %d", next, err, held.Token())
	}
	if code, out, _ := ran(t, "lease", "break", "n", "--yes", "--token", fmt.Sprint(held.Token()), "--at", at); code != cli.ExitNotAcquired || out != "" || next.Check() != nil {
		t.Errorf("at %s: to break the tenure before once more ends with %d, %q, and the next holder has %v; want %d, and that it holds", at, code, out, next.Check(), cli.ExitNotAcquired)
	}
}
