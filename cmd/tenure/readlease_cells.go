package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tenure-lease/tenure/api/readleasepb"
)

// askCells adds the holders of keys, by the member that knows most.
func (s *readLeases) askCells(ctx context.Context, client *clientv3.Client, members []*pb.Member) error {
	at := slices.IndexFunc(members, func(m *pb.Member) bool { return m.ID == s.best })
	if s.Order != "key" || at < 0 {
		return nil
	}
	return atMember(ctx, client, members[at], func(ctx context.Context, service readleasepb.ReadLeaseClient) error {
		got, err := service.Get(ctx, &readleasepb.GetRequest{Cells: true}, grpc.MaxCallRecvMsgSize(math.MaxInt32))
		s.Cells = got.GetCells()
		return err
	})
}

// errNoCells tells that the keys are not divided.
var errNoCells = errors.New("the keys are not divided: each holder holds all of them")

// allCells prints the holders of keys as `set --cells` takes them.
func (s *readLeases) allCells(w io.Writer) error {
	if len(s.Cells) == 0 {
		return fmt.Errorf("with policy %s %w", s.Policy, errNoCells)
	}
	_, err := fmt.Fprintln(w, strings.Join(s.Cells, ";\n"))
	return err
}

// cellLines is how many lines are shown of keys and ranges, and how many of hash buckets.
const cellLines = 8

// someCells prints as much of it as fits on a screen: some of the keys and ranges, the number
// of hash buckets of each set of holders, and the default.
func (s *readLeases) someCells(w io.Writer) {
	if len(s.Cells) == 0 {
		return
	}
	last := len(s.Cells) - 1
	first := slices.IndexFunc(s.Cells, func(cell string) bool { return strings.HasPrefix(cell, "hash:") })
	if first < 0 {
		first = last
	}
	fmt.Fprintln(w, "\nholders of keys:")
	for _, cell := range s.Cells[:min(first, cellLines)] {
		fmt.Fprintln(w, " ", cell)
	}
	more := max(0, first-cellLines)
	sets := countHolders(s.Cells[first:last])
	for _, h := range sets[:min(len(sets), cellLines)] {
		fmt.Fprintf(w, "  %d hash buckets=%s\n", h.buckets, h.names)
	}
	for _, h := range sets[min(len(sets), cellLines):] {
		more += h.buckets
	}
	fmt.Fprintln(w, " ", s.Cells[last])
	switch {
	case more > 0:
		fmt.Fprintf(w, "  and %d more: tenure read-lease --cells shows all\n", more)
	case first < last:
		fmt.Fprintln(w, "  tenure read-lease --cells shows all buckets")
	}
}

// bucketHolders are members that hold some hash buckets together.
type bucketHolders struct {
	names   string
	buckets int
}

// countHolders counts what each set of members holds, the greatest share first.
func countHolders(cells []string) (list []bucketHolders) {
	count := map[string]int{}
	for _, cell := range cells {
		_, names, _ := strings.Cut(cell, "=")
		count[names]++
	}
	for names, n := range count {
		list = append(list, bucketHolders{names, n})
	}
	slices.SortFunc(list, func(a, b bucketHolders) int {
		return cmp.Or(cmp.Compare(b.buckets, a.buckets), cmp.Compare(a.names, b.names))
	})
	return list
}
