package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/chart"
	"github.com/tenure-lease/tenure/internal/load"
)

// options are the command line.
type options struct {
	kind server.Kind
	only []string
	top  int // of keys, leases and watchers
	time time.Duration
	dir  string
}

// point is the cost of an operation at a size.
type point struct {
	Size   int     `json:"size"`
	Line   string  `json:"line"` // the operation, or memory
	Micros float64 `json:"cpu_us,omitempty"`
	Bytes  float64 `json:"bytes,omitempty"`
}

func main() {
	var o options
	kind := flag.String("kind", string(server.Tenure), "etcd or tenure")
	only := flag.String("only", "", "which to measure, separated by commas: keys, leases, watchers, members, bytes, clients")
	flag.IntVar(&o.top, "top", 1_000_000, "the most keys and leases; watchers a tenth of it")
	flag.DurationVar(&o.time, "duration", 3*time.Second, "time for which each point is measured")
	flag.StringVar(&o.dir, "dir", "", "write a picture of each to this directory")
	flag.Parse()
	o.kind = server.Kind(*kind)
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run measures what is wanted, prints it as JSON, and draws it.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	for _, name := range o.only {
		if !slices.ContainsFunc(axes, func(a axis) bool { return a.name == name }) {
			return fmt.Errorf("-only %s: there is nothing of this name to grow", name)
		}
	}
	all := map[string][]point{}
	for _, a := range axes {
		if len(o.only) > 0 && !slices.Contains(o.only, a.name) {
			continue
		}
		tell := func(p point) {
			all[a.name] = append(all[a.name], p)
			what := fmt.Sprintf("%.1f µs", p.Micros)
			if p.Bytes > 0 {
				what = fmt.Sprintf("%.1f MiB", p.Bytes/(1<<20))
			}
			fmt.Fprintf(progress, "%-9s %8d  %-18s %s\n", a.name, p.Size, p.Line, what)
		}
		if err := a.measure(ctx, o, a.sizes(o), tell); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if o.dir != "" {
			if err := chart.Write(filepath.Join(o.dir, "growth-"+a.name+".svg"), drawn(a, all[a.name])); err != nil {
				return err
			}
		}
	}
	return json.NewEncoder(out).Encode(all)
}

// drawn is the picture of one axis: CPU by size, a line for each operation.
func drawn(a axis, points []point) chart.Chart {
	c := chart.Chart{Title: "CPU of all members for one operation", X: a.label, Y: "µs"}
	for _, p := range points {
		if p.Micros == 0 {
			continue
		}
		i := slices.IndexFunc(c.Lines, func(l chart.Line) bool { return l.Name == p.Line })
		if i < 0 {
			i = len(c.Lines)
			c.Lines = append(c.Lines, chart.Line{Name: p.Line})
		}
		c.Lines[i].Points = append(c.Lines[i].Points, [2]float64{float64(p.Size), p.Micros})
	}
	return c
}

// costs measures some cases, and tells each as the point of a size.
func costs(ctx context.Context, l *load.Load, size int, tell func(point), names ...string) error {
	for _, name := range names {
		i := slices.IndexFunc(load.Cases, func(c load.Case) bool { return c.Name == name })
		r, err := load.Cases[i].Run(ctx, l)
		if err != nil {
			return fmt.Errorf("%s at %d: %w", name, size, err)
		}
		tell(point{Size: size, Line: name, Micros: float64(r.CPU.Nanoseconds()) / 1000})
	}
	return nil
}
