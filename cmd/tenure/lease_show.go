package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tenure-lease/tenure"
	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/file"
	"github.com/tenure-lease/tenure/internal/holder/redis"
	"github.com/tenure-lease/tenure/internal/holder/storage"
)

// shownLease is what `lease show` prints.
type shownLease struct {
	tenure.State
	Stores []shownStore `json:"stores,omitempty"` // of leases in storage
	// LastRun is the last run of a periodic job (lock --every), if the name is that of one.
	LastRun      *tenure.Run `json:"last_run,omitempty"`
	LastRunError string      `json:"last_run_error,omitempty"` // why it is not known
}

type shownStore struct {
	Store   string   `json:"store"`           // path or address
	TookMS  float64  `json:"took_ms"`         // to look
	Error   string   `json:"error,omitempty"` // why it does not count
	Handles int      `json:"handles,omitempty"`
	Damage  []string `json:"damage,omitempty"`
	Warning string   `json:"warning,omitempty"`
}

func showLease(ctx context.Context, l tenure.Leaser, name string, o cli.Output, w io.Writer) error {
	stores, err := storesOf(ctx, l, name)
	if err != nil {
		return err
	}
	s, err := l.Observe(ctx, name)
	if err != nil {
		return err
	}
	shown := shownLease{State: s, Stores: stores}
	shown.addLastRun(ctx, l)
	return o.Print(w, shown, func() {
		leaseTable(w, []tenure.State{s})
		switch {
		case shown.LastRun != nil:
			fmt.Fprintf(w, "\nlast run: %s\n", shown.LastRun)
		case shown.LastRunError != "":
			fmt.Fprintf(w, "\nlast run: not known: %s\n", shown.LastRunError)
		}
		if len(stores) > 0 {
			fmt.Fprintln(w)
			storeTable(w, stores)
		}
	})
}

// addLastRun adds the last run of a periodic job, where the engine keeps records.
func (s *shownLease) addLastRun(ctx context.Context, l tenure.Leaser) {
	if _, ok := l.(tenure.Recorder); !ok {
		return
	}
	// Last does not depend on the period, and any will do.
	run, err := tenure.Periodic{Leaser: l, Claim: tenure.Claim{Name: s.Name}, Every: 1}.Last(ctx)
	switch {
	case err != nil:
		s.LastRunError = err.Error()
	case !run.Started.IsZero():
		s.LastRun = &run
	}
}

// storesOf asks the stores of leases in storage for their state.
func storesOf(ctx context.Context, l tenure.Leaser, name string) ([]shownStore, error) {
	switch l := l.(type) {
	case *file.Leaser:
		return healthOf(ctx, name, l.Health, shownFiles)
	case *redis.Leaser:
		return healthOf(ctx, name, l.Health, shownServer)
	}
	return nil, nil
}

// healthOf asks stores for their state, for a second at most.
func healthOf[H any](ctx context.Context, name string, ask func(context.Context, string) ([]H, error), show func(H) shownStore) (stores []shownStore, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all, err := ask(ctx, name)
	for _, h := range all {
		stores = append(stores, show(h))
	}
	return stores, err
}

func shownFiles(h file.Health) shownStore {
	s := shownStoreOf(h.Path, h.Health)
	s.Handles, s.Damage = h.Handles, h.Damage
	return s
}

func shownServer(h redis.Health) shownStore {
	s := shownStoreOf(h.Addr, h.Health)
	s.Warning = h.Warning
	return s
}

func shownStoreOf(at string, h storage.Health) shownStore {
	s := shownStore{Store: at, TookMS: float64(h.Took) / float64(time.Millisecond)}
	if h.Err != nil {
		s.Error = h.Err.Error()
	}
	return s
}

func storeTable(w io.Writer, stores []shownStore) {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "STORE\tANSWERS IN\tHANDLES\tSTATE")
	for _, s := range stores {
		state, took := "good", fmt.Sprintf("%.1f ms", s.TookMS)
		switch {
		case s.Error != "":
			state, took = strings.ReplaceAll(s.Error, "\n", " "), "-"
		case len(s.Damage) > 0:
			state = "damaged: " + strings.Join(s.Damage, "; ")
		case s.Warning != "":
			state = s.Warning
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\n", s.Store, took, s.Handles, state)
	}
	tw.Flush()
}
