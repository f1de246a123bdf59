package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/lab/widearea"
	"github.com/tenure-lease/tenure/internal/lab/ycsb"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// system is what is measured: a kind of server with arguments.
type system struct {
	name string
	kind server.Kind
	args []string
}

// options are the command line.
type options struct {
	systems   []system
	workloads []widearea.Workload
	size      widearea.Size
	duration  time.Duration
	pause     time.Duration
	rounds    int
	seed      uint64
	json      bool
}

func main() {
	opt, err := parse(os.Args[1:])
	switch {
	case err == flag.ErrHelp:
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	results, err := measure(ctx, opt, os.Stderr)
	medians := summarize(results)
	if opt.json {
		json.NewEncoder(os.Stdout).Encode(map[string]any{"rounds": results, "medians": medians})
	} else {
		table(os.Stdout, medians)
	}
	if err == nil {
		err = judge(medians)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	fs := flag.NewFlagSet("widearea", flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), `Measures etcd and Tenure side by side at five sites whose distances are emulated.

  go run ./widearea
  go run ./widearea -policies all,all/key,cost/key -rounds 1
  go run ./widearea -reads 0.9,1 -pause 20ms -o json > result.json

`)
		fs.PrintDefaults()
	}
	var opt options
	fs.IntVar(&opt.size.Clients, "clients", 10, "clients at each site")
	fs.IntVar(&opt.size.Keys, "keys", 1000, "keys, all there from the beginning")
	fs.DurationVar(&opt.duration, "duration", time.Minute, "length of a run, of which the first third does not count")
	fs.DurationVar(&opt.pause, "pause", 0, "mean time that a client rests between operations")
	fs.IntVar(&opt.rounds, "rounds", 3, "rounds; medians are printed")
	fs.Uint64Var(&opt.seed, "seed", 1, "of what the clients ask for")
	policies := fs.String("policies", "off,all,cost/key", "policies of read leases, separated by commas")
	reads := fs.String("reads", "0.9", "shares of reads, separated by commas: a run each")
	kinds := fs.String("kinds", "etcd,tenure", "the kinds to measure, separated by commas")
	output := fs.String("o", "table", "table or json")
	if err := fs.Parse(args); err != nil {
		return opt, err
	}
	switch *output {
	case "json":
		opt.json = true
	case "table":
	default:
		return opt, fmt.Errorf("-o %s: want table or json", *output)
	}
	for share := range strings.SplitSeq(*reads, ",") {
		x, err := strconv.ParseFloat(share, 64)
		if err != nil || x < 0 || x > 1 {
			return opt, fmt.Errorf("-reads %s: want shares from 0 to 1", *reads)
		}
		opt.workloads = append(opt.workloads, widearea.Workload{Name: fmt.Sprintf("%g %% reads", 100*x), Theta: ycsb.Theta, Reads: x})
	}
	for kind := range strings.SplitSeq(*kinds, ",") {
		switch server.Kind(kind) {
		case server.Etcd:
			opt.systems = append(opt.systems, system{kind, server.Etcd, nil})
		case server.Tenure:
			for policy := range strings.SplitSeq(*policies, ",") {
				if _, err := quorumlease.ParsePolicy(policy); err != nil {
					return opt, fmt.Errorf("-policies: %w", err)
				}
				opt.systems = append(opt.systems, system{kind + " " + policy, server.Tenure, []string{"--read-lease=" + policy}})
			}
		default:
			return opt, fmt.Errorf("-kinds %s: want etcd and tenure", *kinds)
		}
	}
	if opt.size.Clients < 1 || opt.size.Keys < 1 || opt.rounds < 1 || opt.duration <= 0 || opt.pause < 0 {
		return opt, fmt.Errorf("-clients, -keys, -rounds and -duration must be positive, and -pause not less than 0")
	}
	return opt, nil
}
