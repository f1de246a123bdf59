package readtorture

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/compat/server"
)

// ReadCounts are linearizable reads by the way in which they were answered.
type ReadCounts struct {
	Local, Rounds, Forwarded uint64
	// Part are those of Local at a member that held some keys and not all.
	Part uint64
}

func (c ReadCounts) plus(d ReadCounts) ReadCounts {
	return ReadCounts{c.Local + d.Local, c.Rounds + d.Rounds, c.Forwarded + d.Forwarded, c.Part + d.Part}
}

func (c ReadCounts) String() string {
	return fmt.Sprintf("%d reads under a lease (%d where some keys are held only), %d by rounds, %d forwarded", c.Local, c.Part, c.Rounds, c.Forwarded)
}

// Counts are all of a run, by the policy that the members knew of when they were asked.
type Counts struct {
	ByPolicy map[string]ReadCounts
	// Divisions is how often the keys were seen divided in another way than before, and
	// Sets how many sets of holders one division had at most.
	Divisions, Sets int
}

func (c Counts) all() (sum ReadCounts) {
	for _, n := range c.ByPolicy {
		sum = sum.plus(n)
	}
	return sum
}

func (c Counts) String() string {
	s := c.all().String()
	for _, policy := range slices.Sorted(maps.Keys(c.ByPolicy)) {
		s += fmt.Sprintf("\n  %s: %v", policy, c.ByPolicy[policy])
	}
	if c.Divisions > 0 {
		s += fmt.Sprintf("\n  keys divided anew %d times, among up to %d sets of holders", c.Divisions, c.Sets)
	}
	return s
}

// counter asks each member for its counts, which begin anew with each life.
type counter struct {
	mu     sync.Mutex
	lives  map[[2]int]ReadCounts // as told last, by member and number of starts
	counts Counts
	cells  string
}

func newCounter() *counter {
	return &counter{lives: map[[2]int]ReadCounts{}, counts: Counts{ByPolicy: map[string]ReadCounts{}}}
}

// run asks until ctx ends, and once more.
func (c *counter) run(ctx context.Context, cluster *server.Cluster) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, m := range cluster.Members {
		cli, err := cluster.Client(i)
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer cli.Close()
			for over := false; !over; {
				over = ctx.Err() != nil
				c.ask(cli, i, m)
				pause(ctx, 50*time.Millisecond)
			}
		})
	}
	return nil
}

func (c *counter) ask(cli *clientv3.Client, i int, m *server.Member) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	life := m.Starts()
	// The first tells of cells for all, as long as it lives.
	got, err := readleasepb.NewReadLeaseClient(cli.ActiveConnection()).Get(ctx, &readleasepb.GetRequest{Cells: i == 0})
	if err != nil || m.Starts() != life {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	is, was := got.Reads, c.lives[[2]int{i, life}]
	now := ReadCounts{Local: is.GetLocal(), Rounds: is.GetRounds(), Forwarded: is.GetForwarded()}
	c.lives[[2]int{i, life}] = now
	if now.Local < was.Local || now.Rounds < was.Rounds || now.Forwarded < was.Forwarded {
		return // a life that began since
	}
	since := ReadCounts{Local: now.Local - was.Local, Rounds: now.Rounds - was.Rounds, Forwarded: now.Forwarded - was.Forwarded}
	if slices.ContainsFunc(got.Holders, func(h *readleasepb.Holder) bool { return h.Member.GetId() == got.MemberId && h.Partial }) {
		since.Part = since.Local
	}
	if cells := strings.Join(got.Cells, ";"); cells != "" && cells != c.cells {
		c.cells = cells
		c.counts.Divisions++
		sets := map[string]bool{}
		for _, part := range got.Cells {
			sets[part[strings.LastIndexByte(part, '=')+1:]] = true
		}
		c.counts.Sets = max(c.counts.Sets, len(sets))
	}
	if since != (ReadCounts{}) {
		c.counts.ByPolicy[got.Policy] = c.counts.ByPolicy[got.Policy].plus(since)
	}
}

func (c *counter) sum() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.counts
	all.ByPolicy = maps.Clone(all.ByPolicy)
	return all
}
