package flease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/holder"
	"github.com/tenure-lease/tenure/internal/protocol/flease"
)

// TestErrorsCrossTheSocket: a client's errors are the same as those of a caller in the peer's process,
// and have the peer's words.
func TestErrorsCrossTheSocket(t *testing.T) {
	until := time.Unix(1_800_000_000, 0).UTC()
	kinds := []error{ErrBusy, tenure.ErrClaim, tenure.ErrTTLTooShort, tenure.ErrClosed, tenure.ErrLost, tenure.ErrUnavailable}
	for _, sent := range append([]error{errors.New("something else"), tenure.HeldError{Name: "x", Holder: "web-3", Until: until}}, kinds...) {
		sent = fmt.Errorf("in words: %w", sent)
		line, err := json.Marshal(event{Event: "refused", ID: 3}.fill(sent))
		if err != nil {
			t.Fatal(err)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		got := e.err()
		if got == nil || got.Error() != sent.Error() || e.ID != 3 {
			t.Errorf("%v comes as %v", sent, got)
		}
		for _, kind := range kinds {
			if errors.Is(got, kind) != errors.Is(sent, kind) {
				t.Errorf("%v comes as an error that is %v: %v", sent, kind, errors.Is(got, kind))
			}
		}
		var was, is tenure.HeldError
		if held := errors.As(sent, &was); errors.As(got, &is) != held || is.Name != was.Name || is.Holder != was.Holder || !is.Until.Equal(was.Until) {
			t.Errorf("%+v comes as %+v", was, is)
		}
	}
	if err := (event{Event: "observed"}).err(); err != nil {
		t.Errorf("an event without an error has %v", err)
	}
}

// TestWhatCallersHear: an error names its call, and wraps ErrUnavailable and the caller's own reason if
// the caller gave up. A refusal stays as it is.
func TestWhatCallersHear(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("the caller's reason")
	cancel(mine)
	refused := told{"it is held", tenure.ErrClaim}
	held := tenure.HeldError{Name: "x", Holder: "web-3"}
	for name, tt := range map[string]struct {
		outer  context.Context
		closed bool
		err    error
		is     []error
		says   string
	}{
		"nothing":                  {t.Context(), false, nil, nil, ""},
		"closed":                   {t.Context(), true, tenure.ErrUnavailable, []error{tenure.ErrClosed}, tenure.ErrClosed.Error()},
		"closed, of who gave up":   {over, true, mine, []error{mine, tenure.ErrUnavailable}, `observe "x": `},
		"held":                     {t.Context(), false, fmt.Errorf("gave up: %w", held), nil, "gave up: " + held.Error()},
		"refused":                  {t.Context(), false, refused, []error{tenure.ErrClaim}, "it is held"},
		"unavailable":              {t.Context(), false, fmt.Errorf("%w: no peer", tenure.ErrUnavailable), []error{tenure.ErrUnavailable}, `observe "x": ` + tenure.ErrUnavailable.Error() + ": no peer"},
		"unavailable, who gave up": {over, false, fmt.Errorf("%w: no peer", tenure.ErrUnavailable), []error{tenure.ErrUnavailable, mine}, `observe "x": the caller's reason: `},
		"something else":           {t.Context(), false, errors.New("no idea"), []error{tenure.ErrUnavailable}, "the peer at path: no idea"},
	} {
		c := &Client{cfg: ClientConfig{Socket: "path"}}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		if tt.closed {
			c.cancel()
		}
		got := c.final(tt.outer, "observe", "x", tt.err)
		c.cancel()
		if (got == nil) != (tt.err == nil) || !strings.Contains(fmt.Sprint(got), tt.says) {
			t.Errorf("%s: a client's caller hears %v, want %q", name, got, tt.says)
		}
		for _, is := range tt.is {
			if !errors.Is(got, is) {
				t.Errorf("%s: a client's caller hears %v, want that it is %v", name, got, is)
			}
		}
	}
	for name, tt := range map[string]struct {
		outer  context.Context
		closed bool
		err    error
		is     []error
		says   string
	}{
		"closed":                 {t.Context(), true, flease.ErrNoMajority, []error{tenure.ErrClosed}, tenure.ErrClosed.Error()},
		"closed, of who gave up": {over, true, mine, []error{mine, tenure.ErrUnavailable}, `observe "x": `},
		"a bad claim":            {t.Context(), false, fmt.Errorf("%w: made up", tenure.ErrClaim), []error{tenure.ErrClaim}, tenure.ErrClaim.Error() + ": made up"},
		"nobody answers":         {t.Context(), false, flease.ErrNoMajority, []error{tenure.ErrUnavailable, flease.ErrNoMajority}, "(nobody vouches for the clock)"},
	} {
		p := barePeer(t, Config{})
		p.serving, p.clock = true, errors.New("nobody vouches for the clock")
		l := p.Leaser()
		if tt.closed {
			l.calls.Close()
		}
		got := l.final(tt.outer, "observe", "x", tt.err)
		if got == nil || !strings.Contains(got.Error(), tt.says) {
			t.Errorf("%s: a caller hears %v, want %q", name, got, tt.says)
		}
		for _, is := range tt.is {
			if !errors.Is(got, is) {
				t.Errorf("%s: a caller hears %v, want that it is %v", name, got, is)
			}
		}
	}
	p := barePeer(t, Config{})
	p.serving, p.clock = true, errors.New("nobody vouches for the clock")
	for err, want := range map[error]error{flease.ErrBusy: ErrBusy, flease.ErrNoMajority: tenure.ErrUnavailable} {
		got := engine{p.Leaser()}.Explain(holder.Call{}, tenure.Claim{Name: "x"}, err)
		if !errors.Is(got, want) || !errors.Is(got, err) || !strings.Contains(got.Error(), `acquire "x": `) || errors.Is(got, ErrBusy) != (err == flease.ErrBusy) {
			t.Errorf("%v: a caller hears %v, want that it is %v", err, got, want)
		}
	}
}
