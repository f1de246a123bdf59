package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

// options are the command line.
type options struct {
	dir      string
	runs     int
	costRuns int
	window   time.Duration
	only     []string
	svg      string
	json     bool
}

func main() {
	if os.Getenv(variable) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	opt, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	results, err := measure(ctx, opt, os.Stderr)
	if len(results) > 0 {
		medians := summarize(results)
		if opt.json {
			json.NewEncoder(os.Stdout).Encode(map[string]any{"runs": results, "medians": medians})
		} else {
			table(os.Stdout, medians)
		}
		if opt.svg != "" && err == nil {
			err = draw(opt.svg, medians)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	var opt options
	fs.StringVar(&opt.dir, "dir", "", "where to measure: a directory below this one, on a filesystem with direct I/O (default the system's for temporary files)")
	fs.IntVar(&opt.runs, "runs", 3, "how often each operation is measured; medians are printed")
	fs.IntVar(&opt.costRuns, "cost-runs", 1, "how often the costs are")
	fs.DurationVar(&opt.window, "window", 3*time.Second, "for how long leases are held to see what that costs")
	fs.StringVar(&opt.svg, "svg", "", "draw the CPU of a renewal against the number of leases to this file")
	only := fs.String("only", "", "parts of the names of parts, separated by commas")
	output := fs.String("o", "table", "table or json")
	if err := fs.Parse(args); err != nil {
		return opt, err
	}
	if *only != "" {
		opt.only = strings.Split(*only, ",")
	}
	switch *output {
	case "json":
		opt.json = true
	case "table":
	default:
		return opt, fmt.Errorf("-o %s: want table or json", *output)
	}
	if opt.runs < 1 || opt.costRuns < 1 || opt.window < 2*time.Second {
		return opt, fmt.Errorf("-runs and -cost-runs must be positive, and -window at least 2s")
	}
	return opt, nil
}
