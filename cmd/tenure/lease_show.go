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
	return o.Print(w, shownLease{s, stores}, func() {
		leaseTable(w, []tenure.State{s})
		if len(stores) > 0 {
			fmt.Fprintln(w)
			storeTable(w, stores)
		}
	})
}

// storesOf asks the stores of leases in storage, a second long at most.
func storesOf(ctx context.Context, l tenure.Leaser, name string) (stores []shownStore, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	switch l := l.(type) {
	case *file.Leaser:
		all, err := l.Health(ctx, name)
		for _, h := range all {
			s := shownStoreOf(h.Path, h.Health)
			s.Handles, s.Damage = h.Handles, h.Damage
			stores = append(stores, s)
		}
		return stores, err
	case *redis.Leaser:
		all, err := l.Health(ctx, name)
		for _, h := range all {
			s := shownStoreOf(h.Addr, h.Health)
			s.Warning = h.Warning
			stores = append(stores, s)
		}
		return stores, err
	}
	return nil, nil
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
