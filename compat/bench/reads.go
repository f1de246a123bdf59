package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"text/tabwriter"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/compat/server"
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

func measureReadsAtLeader(ctx context.Context, b *bench) (result, error) {
	return b.measureReads(ctx, b.leader)
}

func measureReadsAtFollower(ctx context.Context, b *bench) (result, error) {
	return b.measureReads(ctx, b.follower())
}

func measureSerializableReads(ctx context.Context, b *bench) (result, error) {
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
func (b *bench) measureReads(ctx context.Context, member int, options ...clientv3.OpOption) (result, error) {
	cli, err := b.cluster.Client(member)
	if err != nil {
		return result{}, err
	}
	defer cli.Close()
	const some = 100
	for i := range some {
		if _, err := cli.Put(ctx, key(i), value); err != nil {
			return result{}, err
		}
	}
	before, err := b.cluster.Members[member].Reads(ctx)
	if err != nil {
		return result{}, err
	}
	r, err := b.each(ctx, []int{member}, func(ctx context.Context, cli *clientv3.Client) error {
		got, err := cli.Get(ctx, key(rand.IntN(some)), options...)
		if err == nil && len(got.Kvs) != 1 {
			err = fmt.Errorf("%d keys, want 1", len(got.Kvs))
		}
		return err
	})
	if err != nil {
		return result{}, err
	}
	after, err := b.cluster.Members[member].Reads(ctx)
	r.Local = after.Since(before)
	return r, err
}

// printReads holds reads against the echo, if both were measured.
func printReads(w io.Writer, medians []result) {
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
			if echo.Case == r.Case && echo.Variant == string(kindEcho) && echo.Variant != r.Variant {
				rate, cpu = times(ratio(r.Rate, echo.Rate)), times(ratio(float64(r.CPU), float64(echo.CPU)))
			}
		}
		if strings.HasPrefix(r.Variant, "tenure") && r.Case != readCases+"serializable" {
			local = fmt.Sprintf("%.1f %%", 100*r.Local)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, r.Variant, number(r.Rate), rate, duration(r.CPU), cpu, local)
	}
}
