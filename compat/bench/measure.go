package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/load"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// bench is what a case works with.
type bench struct {
	options
	load.Load
	cluster *server.Cluster
	leader  int
	dir     string
	variant variant
}

// benchCase is a named measurement.
type benchCase struct {
	name string
	run  func(context.Context, *bench) (load.Result, error)
	own  bool // starts its own cluster
}

// cases are those that a user can measure, too, and those for which a cluster has to be started or killed.
var cases = slices.Concat(shared(), []benchCase{
	{name: "reads-leader", run: measureReadsAtLeader},
	{name: "reads-follower", run: measureReadsAtFollower},
	{name: "reads-serializable", run: measureSerializableReads},
	{name: "policy-put", run: policyPut},
	{name: "policy-get", run: policyGet},
	{name: "policy-leader-dies", run: policyLeaderDies, own: true},
	{name: "policy-holder-dies", run: policyHolderDies, own: true},
	{name: "gap-open", run: gapOpen, own: true},
	{name: "gap-closed", run: gapClosed, own: true},
	{name: "memory", run: memory, own: true},
	{name: "expiry-10k", run: expiry10k, own: true},
	{name: "expiry-100k", run: expiry100k, own: true},
})

func shared() (list []benchCase) {
	for _, c := range load.Cases {
		list = append(list, benchCase{name: c.Name, run: func(ctx context.Context, b *bench) (load.Result, error) { return c.Run(ctx, &b.Load) }})
	}
	return list
}

func (o options) wants(name string) bool {
	return len(o.only) == 0 || slices.ContainsFunc(o.only, func(part string) bool { return strings.Contains(name, part) })
}

// measure runs the wanted cases on each variant in turn, and tells progress.
func measure(ctx context.Context, opt options, progress io.Writer) (results []load.Result, err error) {
	for run := range opt.runs {
		for i := range opt.variants {
			v := opt.variants[(i+run)%len(opt.variants)]
			more, err := measureVariant(ctx, opt, v, run, progress)
			results = append(results, more...)
			if err != nil {
				return results, fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	return results, nil
}

func measureVariant(ctx context.Context, opt options, v variant, run int, progress io.Writer) (results []load.Result, err error) {
	var shared *bench
	defer func() {
		if shared != nil {
			shared.stop()
		}
	}()
	for _, c := range cases {
		if !opt.wants(c.name) || !v.has(c.name) {
			continue
		}
		b := shared
		if b == nil || c.own {
			if b, err = start(ctx, opt, v, c); err != nil {
				return results, fmt.Errorf("%s: %w", c.name, err)
			}
			if !c.own {
				shared = b
			}
		}
		r, err := c.run(ctx, b)
		if c.own {
			b.stop()
		}
		if err != nil {
			return results, fmt.Errorf("%s: %w", c.name, err)
		}
		r.Case, r.Target, r.Run = c.name, v.name, run
		fmt.Fprintf(progress, "run %d  %-13s %-19s %s\n", run+1, v.name, c.name, line(r))
		results = append(results, r)
	}
	return results, nil
}

func start(ctx context.Context, opt options, v variant, c benchCase) (*bench, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	env, members := v.env, opt.members
	if v.kind == kindEcho {
		members = 1
	}
	if c.name == "memory" {
		env = append(slices.Clone(env), "GOGC=10")
	}
	b := &bench{options: opt, dir: dir, variant: v}
	if b.cluster, err = server.Start(ctx, server.Config{Kind: v.kind, Members: members, Dir: dir, Env: env, Args: v.args, Binary: v.binary()}); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	if b.leader, err = b.cluster.Leader(ctx); err != nil {
		b.stop()
		return nil, err
	}
	b.Load = load.Load{Target: target{b}, Clients: b.clients, Time: b.duration, Prefix: "bench/"}
	return b, nil
}

func (b *bench) stop() {
	b.cluster.Stop()
	os.RemoveAll(b.dir)
}

// target is the cluster of a bench, as its cases see it.
type target struct{ *bench }

func (t target) Size() int                               { return len(t.cluster.Members) }
func (t target) Leader() int                             { return t.leader }
func (t target) Connect(m int) (*clientv3.Client, error) { return t.cluster.Client(m) }
func (t target) CPU(context.Context) time.Duration       { return t.cpu() }

// cpu is the time of all members so far.
func (b *bench) cpu() (sum time.Duration) {
	for _, m := range b.cluster.Members {
		sum += m.CPU()
	}
	return sum
}

// all are the members, by index.
func (b *bench) all() (list []int) {
	for i := range b.cluster.Members {
		list = append(list, i)
	}
	return list
}

// followers are the members that do not lead.
func (b *bench) followers() []int {
	return slices.DeleteFunc(b.all(), func(i int) bool { return i == b.leader })
}

// connect opens n clients, each to one of the members given, in turn.
func (b *bench) connect(n int, members ...int) ([]*clientv3.Client, error) {
	if len(members) == 0 {
		members = b.all()
	}
	var clients []*clientv3.Client
	for i := range n {
		cli, err := b.cluster.Client(members[i%len(members)])
		if err != nil {
			closeAll(clients)
			return nil, err
		}
		clients = append(clients, cli)
	}
	return clients, nil
}

func closeAll(clients []*clientv3.Client) {
	for _, c := range clients {
		c.Close()
	}
}

// line is a result in words.
func line(r load.Result) string {
	var parts []string
	if r.Rate > 0 {
		parts = append(parts, fmt.Sprintf("%.0f/s", r.Rate))
	}
	if r.P99 > 0 {
		parts = append(parts, fmt.Sprintf("p50 %s  p99 %s", load.Brief(r.P50), load.Brief(r.P99)))
	}
	if r.CPU > 0 {
		parts = append(parts, fmt.Sprintf("CPU/op %s", load.Brief(r.CPU)))
	}
	if r.Local > 0 {
		parts = append(parts, fmt.Sprintf("%.0f %% under a lease", 100*r.Local))
	}
	if r.Bytes != 0 {
		parts = append(parts, fmt.Sprintf("%.0f bytes", r.Bytes))
	}
	return strings.Join(parts, "  ")
}
