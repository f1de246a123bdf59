package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/load"
)

// A guard measures what an operation costs one member, in echoes: the CPU of one get that the echo answers.
// That is about the same number on each machine. It fails if a number is above what is allowed in a file.
const (
	guardRounds   = 7 // of which the median counts
	guardAttempts = 3 // the best of which counts: a machine with other work looks slower than it is
	guardLoss     = 1.25
)

// errSlower is for a case that costs a quarter more than it may: a loss of a fifth of what the same CPU did.
var errSlower = errors.New("an operation costs more than it did")

// guard measures the cases that a file names, and compares.
func guard(ctx context.Context, opt options, path string, w io.Writer) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	allowed := map[string]float64{}
	if err := json.Unmarshal(text, &allowed); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var names []string
	for name := range allowed {
		names = append(names, name)
	}
	slices.Sort(names)
	best := map[string]float64{}
	for range guardAttempts {
		costs, err := echoes(ctx, opt, names)
		if err != nil {
			return err
		}
		for name, cost := range costs {
			if known, ok := best[name]; !ok || cost < known {
				best[name] = cost
			}
		}
		if err = judge(w, names, allowed, best); err == nil {
			return nil
		}
		fmt.Fprintln(w, err)
	}
	return errSlower
}

// judge prints what each case costs beside what it may, and refuses one that costs too much.
func judge(w io.Writer, names []string, allowed, costs map[string]float64) error {
	var bad []string
	for _, name := range names {
		fmt.Fprintf(w, "%-18s %5.2f echoes, recorded %5.2f\n", name, costs[name], allowed[name])
		if costs[name] > guardLoss*allowed[name] {
			bad = append(bad, name)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("%w: %v", errSlower, bad)
	}
	return nil
}

// echoes measures the CPU of cases at one member, in echoes. Echo and member take turns.
func echoes(ctx context.Context, opt options, names []string) (map[string]float64, error) {
	opt.members = 1
	echo, err := start(ctx, opt, variantsOf(kindEcho)[0], benchCase{})
	if err != nil {
		return nil, err
	}
	defer echo.stop()
	member, err := start(ctx, opt, variantsOf(server.Tenure)[0], benchCase{})
	if err != nil {
		return nil, err
	}
	defer member.stop()
	costs := map[string][]float64{}
	for range guardRounds {
		unit, err := echo.Gets(ctx, []int{0})
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			i := slices.IndexFunc(load.Cases, func(c load.Case) bool { return c.Name == name })
			if i < 0 {
				return nil, fmt.Errorf("there is no case %q", name)
			}
			r, err := load.Cases[i].Run(ctx, &member.Load)
			if err != nil {
				return nil, err
			}
			costs[name] = append(costs[name], float64(r.CPU)/float64(max(unit.CPU, 1)))
		}
	}
	medians := map[string]float64{}
	for name, all := range costs {
		slices.Sort(all)
		medians[name] = all[len(all)/2]
	}
	return medians, nil
}
