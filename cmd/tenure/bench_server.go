package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/internal/cli"
	"github.com/tenure-lease/tenure/internal/holder/etcd"
	"github.com/tenure-lease/tenure/internal/load"
)

// serverBench is a command line of `bench server`.
type serverBench struct {
	at, beside place
	cases      []string
	report     string
	output     cli.Output
	plan       load.Plan
}

// serverBenched is what `bench server` prints.
type serverBenched struct {
	Began    time.Time         `json:"began"`
	Servers  map[string]string `json:"servers"` // versions, by name
	Machine  string            `json:"machine"` // of the load
	Clients  int               `json:"clients"`
	Seconds  float64           `json:"seconds"` // of each measurement
	Medians  []load.Result     `json:"medians"`
	Runs     []load.Result     `json:"runs"`
	baseline string
}

// The names of the two clusters in what is printed.
const (
	benchedAt     = "at"
	benchedBeside = "beside"
)

func benchServerCommand() *cobra.Command {
	var b serverBench
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Measure a server, beside an etcd that you name",
		Long: `Measures a cluster by as much load as --clients make, and another beside it: puts, gets,
renewals, locks, watches. Both are measured in turn, case by case, and medians of all runs
are printed. × is by what factor a value is better than with --beside.

CPU/op is what all members together spend on one operation, from their metrics. Give
addresses of each member where those that the cluster knows do not lead there.

The servers are kept busy meanwhile: do not measure those that others need. Keys are
written below tenure-bench/, and deleted when it ends, as leases are.`,
		Example: `  tenure bench server --at etcd://127.0.0.1:2379
  tenure bench server --beside http://10.0.0.9:2379 --report server.html
  tenure bench server --cases put,get --clients 256 --runs 5 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	flags := cmd.Flags()
	serverFlag(flags, &b.at)
	flags.StringVar(&b.beside.url, "beside", "", "`URL` of a server to compare with: http://host:port,… or etcd://…, etcds://… as --at; --user is for both")
	flags.StringSliceVar(&b.cases, "cases", nil, "measure only cases whose `names` contain one of these")
	flags.IntVar(&b.plan.Clients, "clients", 64, "`number` of clients, each with a connection of its own")
	flags.IntVar(&b.plan.Runs, "runs", 3, "`number` of times that each case is measured")
	flags.DurationVar(&b.plan.Time, "duration", 5*time.Second, "`time` for which a case is measured, after a warm-up of a fifth")
	flags.StringVar(&b.report, "report", "", "write a page with plots to this `file`")
	b.output.Register(cmd)
	return cmd
}

// check completes the command line, and refuses one that makes no sense.
func (b *serverBench) check() error {
	ok := false
	switch b.plan.Cases, ok = load.Named(b.cases); {
	case !ok:
		var names []string
		for _, c := range load.Cases {
			names = append(names, c.Name)
		}
		return cli.Usagef("--cases %s: want parts of %s", strings.Join(b.cases, ","), strings.Join(names, ", "))
	case b.plan.Clients < 1 || b.plan.Runs < 1:
		return cli.Usagef("--clients %d --runs %d: want at least 1 of each", b.plan.Clients, b.plan.Runs)
	case b.plan.Time <= 0:
		return cli.Usagef("--duration %v: want some time", b.plan.Time)
	}
	b.beside.asUser = b.at.asUser
	for _, plain := range [][2]string{{"http://", "etcd://"}, {"https://", "etcds://"}} {
		if rest, ok := strings.CutPrefix(b.beside.url, plain[0]); ok {
			b.beside.url = plain[1] + rest
		}
	}
	if b.beside.url != "" && !b.beside.served() {
		return cli.Usagef("--beside %s is no server's URL: write http://host:port", b.beside)
	}
	return nil
}

func (b *serverBench) run(cmd *cobra.Command) error {
	if err := b.check(); err != nil {
		return err
	}
	for _, at := range b.places() {
		if err := at.ready(); err != nil {
			return err
		}
	}
	page, err := b.page()
	if err != nil {
		return err
	}
	if page != nil {
		defer page.Close()
	}
	ctx, stop := cli.UntilSignal(cmd.Context())
	defer stop()
	done, err := b.measure(ctx)
	if err := stoppedBy(ctx, err); err != nil {
		if page != nil {
			os.Remove(b.report) // it is empty
		}
		return cli.Otherwise(cli.ExitUnavailable, cli.Interrupted(err))
	}
	if page != nil {
		if err := done.report(b, page); err != nil {
			return err
		}
	}
	return b.output.Print(cmd.OutOrStdout(), done, func() { load.Table(cmd.OutOrStdout(), done.Medians, done.baseline) })
}

// places are those of the clusters that are measured.
func (b *serverBench) places() []place {
	if b.beside.url == "" {
		return []place{b.at}
	}
	return []place{b.at, b.beside}
}

// page opens the file of the report, if there is to be one: before minutes are spent.
func (b *serverBench) page() (*os.File, error) {
	if b.report == "" {
		return nil, nil
	}
	f, err := os.Create(b.report)
	if err != nil {
		return nil, cli.Usagef("--report: %w", err)
	}
	return f, nil
}

// measure runs the plan on the clusters that the command line names.
func (b *serverBench) measure(ctx context.Context) (serverBenched, error) {
	done := serverBenched{Began: time.Now(), Servers: map[string]string{}, Machine: loadMachine(), Clients: b.plan.Clients, Seconds: b.plan.Time.Seconds()}
	if b.beside.url != "" {
		done.baseline = benchedBeside
	}
	for i, at := range b.places() {
		name := []string{benchedAt, benchedBeside}[i]
		cluster, err := clusterAt(ctx, at)
		if err != nil {
			return done, fmt.Errorf("%s: %w", at, err)
		}
		done.Servers[name] = fmt.Sprintf("%s, %d members, version %s", at, cluster.Size(), cluster.Version)
		b.plan.Targets = append(b.plan.Targets, load.NamedTarget{Name: name, Target: cluster})
	}
	b.plan.Prefix = "tenure-bench/" + rand.Text() + "/"
	bar, n := cli.NewProgress(os.Stderr, b.plan.Steps(), "measurements"), 0
	bar.Show(0, 0)
	var err error
	done.Runs, err = b.plan.Run(ctx, func(load.Result) { n++; bar.Show(n, 0) })
	bar.Clear()
	done.Medians = load.Medians(done.Runs)
	return done, err
}

// clusterAt finds the members of a cluster.
func clusterAt(ctx context.Context, at place) (*load.Cluster, error) {
	cfg, err := at.config()
	if err != nil {
		return nil, err
	}
	var transport http.RoundTripper
	if cfg.TLS != nil {
		transport = &http.Transport{TLSClientConfig: cfg.TLS.Clone()}
	}
	dial := func(ctx context.Context, endpoint string) (*clientv3.Client, error) {
		one := cfg
		one.Endpoints = []string{endpoint}
		return etcd.Dial(ctx, one)
	}
	cluster, err := load.Dial(ctx, cfg.Endpoints, dial, transport)
	if refused := at.refused(err); refused != nil {
		return nil, refused
	}
	return cluster, err
}

// loadMachine says where the load ran.
func loadMachine() string {
	return fmt.Sprintf("%s/%s, %d CPUs, tenure %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), versionOf().Tenure)
}

func (done serverBenched) report(b *serverBench, w io.Writer) error {
	r := load.Report{
		Title: "Tenure measured", Began: done.Began, Baseline: done.baseline, Medians: done.Medians, Runs: done.Runs,
		Command: fmt.Sprintf("tenure bench server --at %s --clients %d --runs %d --duration %v", b.at, b.plan.Clients, b.plan.Runs, b.plan.Time),
		Facts:   [][2]string{{"load", done.Machine}, {benchedAt, done.Servers[benchedAt]}},
	}
	if done.baseline != "" {
		r.Beside = b.beside.String()
		r.Command += " --beside " + b.beside.String()
		r.Facts = append(r.Facts, [2]string{benchedBeside, done.Servers[benchedBeside]})
	}
	if len(b.cases) > 0 {
		r.Command += " --cases " + strings.Join(b.cases, ",")
	}
	return r.HTML(w)
}
