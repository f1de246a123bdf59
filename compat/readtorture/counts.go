package readtorture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/readleasepb"
)

// ReadCounts are linearizable reads by the way in which they were answered.
type ReadCounts struct{ Local, Rounds, Forwarded uint64 }

func (c ReadCounts) String() string {
	return fmt.Sprintf("%d reads under a lease, %d by rounds, %d forwarded", c.Local, c.Rounds, c.Forwarded)
}

// counter asks each member for its counts, which begin anew with each life.
type counter struct {
	mu    sync.Mutex
	lives map[[2]int]ReadCounts // by member and number of starts
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
	got, err := readleasepb.NewReadLeaseClient(cli.ActiveConnection()).Get(ctx, &readleasepb.GetRequest{})
	if err != nil || m.Starts() != life {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lives[[2]int{i, life}] = ReadCounts{got.Reads.GetLocal(), got.Reads.GetRounds(), got.Reads.GetForwarded()}
}

func (c *counter) sum() (all ReadCounts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.lives {
		all.Local += n.Local
		all.Rounds += n.Rounds
		all.Forwarded += n.Forwarded
	}
	return all
}

// turns sets the policies one after the other, a second each, at any member, until ctx
// ends. It returns how often that was acknowledged.
func turns(ctx context.Context, c *server.Cluster, p *Plan) (done int, err error) {
	random := rand.New(rand.NewPCG(p.Seed, 3))
	clients := make([]*clientv3.Client, len(c.Members))
	for i := range clients {
		if clients[i], err = c.Client(i); err != nil {
			return done, err
		}
		defer clients[i].Close()
	}
	for {
		pause(ctx, time.Second)
		if ctx.Err() != nil {
			return done, nil
		}
		policy, at := p.Policies[random.IntN(len(p.Policies))], random.IntN(len(clients))
		try, cancel := context.WithTimeout(ctx, operationTime)
		_, err := readleasepb.NewReadLeaseClient(clients[at].ActiveConnection()).Set(try, &readleasepb.SetRequest{Policy: policy})
		cancel()
		if err == nil {
			done++
		}
	}
}
