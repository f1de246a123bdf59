package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/load"
)

// readCases is how the names of the cases about read leases begin.
const readCases = "reads-"

// readPolicies are measured, each as a variant of its own.
var readPolicies = []string{"off", "leader", "all"}

// variantsOf are those of a kind.
func variantsOf(kind server.Kind) (list []variant) {
	list = []variant{{name: string(kind), kind: kind}}
	switch kind {
	case server.Tenure:
		for _, policy := range readPolicies {
			list = append(list, variant{name: "tenure " + policy, kind: kind, args: []string{"--read-lease=" + policy}, only: readCases})
		}
	case kindEcho:
		list[0].only, list[0].env = readCases, []string{echoVariable + "=1"}
	}
	return list
}

// has reports whether a case is for the variant. Tenure as it is without flags has the
// policy of one of the others.
func (v variant) has(name string) bool {
	switch {
	case strings.HasPrefix(name, readCases):
		return v.only != "" || v.kind == server.Etcd
	case strings.HasPrefix(name, policyCases):
		return v.only != "" && v.kind != kindEcho || v.kind == server.Etcd
	}
	return v.only == ""
}

// binary is the program of a variant, empty for that of its kind.
func (v variant) binary() string {
	if v.kind != kindEcho {
		return ""
	}
	self, err := os.Executable()
	if err != nil {
		return "echo" // which fails, and says so
	}
	return self
}

func measureReadsAtLeader(ctx context.Context, b *bench) (load.Result, error) {
	return b.measureReads(ctx, b.leader)
}

func measureReadsAtFollower(ctx context.Context, b *bench) (load.Result, error) {
	return b.measureReads(ctx, b.follower())
}

func measureSerializableReads(ctx context.Context, b *bench) (load.Result, error) {
	return b.measureReads(ctx, b.follower(), clientv3.WithSerializable())
}

// follower is one of them; alone, a member is its own.
func (b *bench) follower() int {
	if f := b.followers(); len(f) > 0 {
		return f[0]
	}
	return b.leader
}

// measureReads gets single keys at one member.
func (b *bench) measureReads(ctx context.Context, member int, options ...clientv3.OpOption) (load.Result, error) {
	before, err := b.cluster.Members[member].Reads(ctx)
	if err != nil {
		return load.Result{}, err
	}
	r, err := b.Gets(ctx, []int{member}, options...)
	if err != nil {
		return load.Result{}, err
	}
	if len(options) > 0 {
		return r, nil // a serializable read needs no lease
	}
	after, err := b.cluster.Members[member].Reads(ctx)
	r.Local = after.Since(before)
	return r, err
}

// printReads holds reads against the echo, if both were measured.
func printReads(w io.Writer, medians []load.Result) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer tw.Flush()
	header := "\ncase\tserver\tops/s\tof echo\tCPU/op\tof echo\tunder a lease\t"
	last := ""
	for _, r := range medians {
		if !strings.HasPrefix(r.Case, readCases) {
			continue
		}
		if header != "" {
			fmt.Fprintln(tw, header)
			header = ""
		}
		name := r.Case
		if name == last {
			name = ""
		}
		last = r.Case
		var rate, cpu, local string
		for _, echo := range medians {
			if echo.Case == r.Case && echo.Target == string(kindEcho) && echo.Target != r.Target {
				rate, cpu = load.Times(load.Better(echo, r).Rate), load.Times(load.Better(r, echo).CPU)
			}
		}
		if strings.HasPrefix(r.Target, "tenure") && r.Case != readCases+"serializable" {
			local = fmt.Sprintf("%.1f %%", 100*r.Local)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, r.Target, fmt.Sprintf("%.0f", r.Rate), rate, load.Brief(r.CPU), cpu, local)
	}
}
