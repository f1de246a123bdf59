package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
)

// watchEvery is how long `lease list --watch` pauses between two looks.
const watchEvery = time.Second

// changedLease is a line of `lease list --watch -o json`.
type changedLease struct {
	Time time.Time `json:"time"`
	tenure.State
}

// watchLeases prints the names that are held, and then each whose holders are others than at the look
// before, until the context ends or the reader has gone. If the store does not answer for a while,
// words say so, and it is looked at again; all its changes until then are one.
func watchLeases(ctx context.Context, l tenure.Leaser, prefix string, o cli.Output, w, words io.Writer) error {
	known := map[string]tenure.State{}
	silent := false
	for first := true; ; first = false {
		states, err := lookAtAll(ctx, l, prefix)
		switch {
		case ctx.Err() != nil:
			return nil // this is how it ends
		case err != nil && (first || !errors.Is(err, tenure.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded)):
			return err
		case err != nil && !silent:
			fmt.Fprintln(words, "tenure: no answer, and looks on:", err)
		case err == nil:
			for _, s := range changes(known, states) {
				if err := (changedLease{time.Now(), s}).print(o, w); err != nil {
					return err
				}
			}
		}
		silent = err != nil
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// watchAt opens the engine for it.
func watchAt(ctx context.Context, at place, prefix string, o cli.Output, w, words io.Writer) error {
	l, err := lookAt(ctx, at)
	if err != nil {
		return cli.Interrupted(stoppedBy(ctx, err))
	}
	defer l.Close()
	return cli.Otherwise(cli.ExitUnavailable, watchLeases(ctx, l, prefix, o, w, words))
}

// lookAtAll is one look, which does not take forever.
func lookAtAll(ctx context.Context, l tenure.Leaser, prefix string) ([]tenure.State, error) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	return leaseStates(ctx, l, prefix)
}

// changes returns the states, in the order of names, that show other holders than known does, and notes
// them there. A name that is in no state is free.
func changes(known map[string]tenure.State, states []tenure.State) (changed []tenure.State) {
	now := map[string]tenure.State{}
	for _, s := range states {
		now[s.Name] = s
	}
	for name := range known {
		if _, there := now[name]; !there {
			now[name] = tenure.State{Name: name}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		s := now[name]
		if !tenure.SameHolders(s, known[name]) {
			changed = append(changed, s)
		}
		if known[name] = s; len(s.Holders) == 0 {
			delete(known, name)
		}
	}
	return changed
}

func (c changedLease) print(o cli.Output, w io.Writer) error {
	if o == "json" {
		return cli.Line(w, c)
	}
	holders := []string{"(free)"}
	for i, h := range c.Holders {
		if i == 0 {
			holders = nil
		}
		holders = append(holders, fmt.Sprintf("%s (token %d)", h.Holder, h.Token))
	}
	_, err := fmt.Fprintf(w, "%s\t%s\t%s\n", c.Time.Format(time.RFC3339), c.Name, strings.Join(holders, ", "))
	return err
}
