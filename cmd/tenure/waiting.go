package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
)

// A wait tells programs of its beginning by an event, and people of each holder, in sentences. There
// are people only at a terminal: the mail of a cron job and the log of a service stay as they are.

// people is where sentences for people go: standard error if it is a terminal, else nil.
func people() io.Writer {
	if cli.IsTerminal(os.Stderr) {
		return os.Stderr
	}
	return nil
}

// lookLimit is how long the first look at the holder may hold up the wait itself.
const lookLimit = time.Second

// tellWait says at once that we wait and for whom, and again when another holds the name, until the
// function is called. held is what is known without a look.
func (t *tenancy) tellWait(ctx context.Context, l tenure.Leaser, held tenure.HeldError) (quiet func()) {
	ev := event{Event: "waiting", Name: t.claim.Name}
	if t.words == nil && t.events.lines == nil {
		return func() {}
	}
	first, cancel := context.WithTimeout(ctx, lookLimit)
	s, err := l.Observe(first, t.claim.Name)
	cancel()
	if err == nil && len(s.Holders) > 0 {
		ev.Holder, ev.Token, ev.Deadline = s.Holders[0].Holder, s.Holders[0].Token, &s.Holders[0].Until
	}
	t.events.print(ev)
	if t.words == nil {
		return func() {}
	}
	var mu sync.Mutex // words are ours while it is held and silent is false
	silent := false
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if !silent {
			fmt.Fprintf(t.words, "tenure: "+format+"\n", args...)
		}
	}
	switch {
	case ev.Holder != "":
		say("waiting for %q: %s%s%s", s.Name, heldBy(s), until(s.Holders[0].Until), others(s.Waiting))
	case held.Holder != "":
		say("waiting for %q: %s holds it%s", t.claim.Name, held.Holder, until(held.Until))
	default:
		say("waiting for %q", t.claim.Name)
	}
	ctx, cancel = context.WithCancel(ctx)
	s.Name = t.claim.Name
	go func() {
		for {
			next, err := tenure.Await(ctx, l, s)
			switch {
			case ctx.Err() != nil || errors.Is(err, tenure.ErrClosed):
				return
			case err != nil: // the wait itself outlasts trouble, too
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
				continue
			case len(next.Holders) > 0 && next.Holders[0].Holder != t.claim.Holder:
				// We are one of those that wait.
				say("still waiting for %q: %s since %s%s", s.Name, heldBy(next), time.Now().Format(time.TimeOnly), others(next.Waiting-1))
			}
			s = next
		}
	}()
	return func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		silent = true
	}
}

// heldBy names the holders of a name that is held.
func heldBy(s tenure.State) string {
	first := s.Holders[0].Holder
	switch n := len(s.Holders) - 1; n {
	case 0:
		return first + " holds it"
	case 1:
		return first + " and another hold it"
	default:
		return fmt.Sprintf("%s and %d others hold it", first, n)
	}
}

func until(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return ", until " + t.Local().Format(time.TimeOnly) + " unless it renews"
}

func others(n int) string {
	switch {
	case n <= 0:
		return ""
	case n == 1:
		return "; another waits"
	}
	return fmt.Sprintf("; %d others wait", n)
}
