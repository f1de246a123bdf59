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

	"github.com/tenure-lease/tenure/compat/server"

	"github.com/tenure-lease/tenure/internal/chart"
	"github.com/tenure-lease/tenure/internal/load"
)

// variant is a server as it is compared: a kind with an environment and arguments.
type variant struct {
	name string
	kind server.Kind
	env  []string
	args []string
	only string // if set, cases whose names begin so; others are not for it
}

// options are the command line.
type options struct {
	clients  int
	members  int
	duration time.Duration
	leases   float64 // factor on the numbers of leases, for short tests
	runs     int
	only     []string
	variants []variant
	plot     string
	guard    string
	json     bool
}

func main() {
	if os.Getenv(echoVariable) != "" {
		fmt.Fprintln(os.Stderr, echo(os.Args[1:]))
		os.Exit(1)
	}
	opt, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if opt.guard != "" {
		if err := guard(ctx, opt, opt.guard, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	results, err := measure(ctx, opt, os.Stderr)
	if len(results) > 0 {
		medians := load.Medians(results)
		if opt.json {
			json.NewEncoder(os.Stdout).Encode(map[string]any{"runs": results, "medians": medians})
		} else {
			load.Table(os.Stdout, medians, string(server.Etcd))
			printReads(os.Stdout, medians)
		}
		if opt.plot != "" && err == nil {
			err = chart.Write(opt.plot, plot(medians))
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
	fs.IntVar(&opt.clients, "clients", 64, "clients, each with a connection of its own")
	fs.IntVar(&opt.members, "members", 3, "members of each cluster")
	fs.DurationVar(&opt.duration, "duration", 5*time.Second, "time a case is measured, after a warm-up of a fifth of it")
	fs.Float64Var(&opt.leases, "leases", 1, "factor on the number of leases in memory and expiry cases")
	fs.IntVar(&opt.runs, "runs", 3, "runs, interleaved; medians are printed")
	fs.StringVar(&opt.plot, "plot", "", "write the ratios as SVG to this file")
	fs.StringVar(&opt.guard, "guard", "", "measure one member in echoes, and fail if a case costs a quarter more than this file has")
	only := fs.String("only", "", "parts of case names, separated by commas")
	kinds := fs.String("kinds", "etcd,tenure,echo", "the kinds to measure, separated by commas")
	env := fs.String("etcd-env", "", "measure etcd a second time, with these NAME=VALUE, separated by commas")
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
	for kind := range strings.SplitSeq(*kinds, ",") {
		opt.variants = append(opt.variants, variantsOf(server.Kind(kind))...)
	}
	if *env != "" {
		opt.variants = append(opt.variants, variant{name: "etcd+env", kind: server.Etcd, env: strings.Split(*env, ",")})
	}
	if opt.clients < 1 || opt.members < 1 || opt.runs < 1 || opt.duration <= 0 {
		return opt, fmt.Errorf("-clients, -members, -runs and -duration must be positive")
	}
	return opt, nil
}
