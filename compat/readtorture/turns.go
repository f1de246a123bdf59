package readtorture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/compat/server"
)

// turns sets the policies one after the other, a second each, at any member, until ctx
// ends; where keys are divided by hand, each time in another way. It returns how often
// that was acknowledged.
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
		set, at := &readleasepb.SetRequest{Policy: p.Policies[random.IntN(len(p.Policies))]}, random.IntN(len(clients))
		if set.Policy == static {
			set.Cells = cells(random, c.Members)
		}
		try, cancel := context.WithTimeout(ctx, operationTime)
		_, err := readleasepb.NewReadLeaseClient(clients[at].ActiveConnection()).Set(try, set)
		cancel()
		if err == nil {
			done++
		}
	}
}

// cells divides the keys: some objects as a whole, those of others by their hash, so that
// keys that are read and written together are held by different members.
func cells(random *rand.Rand, members []*server.Member) string {
	holders := func() string {
		var names []string
		for _, m := range members {
			if random.IntN(2) == 0 {
				names = append(names, m.Name)
			}
		}
		if len(names) == 0 {
			names = []string{"*"}
		}
		return strings.Join(names, ",")
	}
	parts := []string{"default=" + holders()}
	for n := range objects {
		if random.IntN(2) == 0 {
			parts = append(parts, fmt.Sprintf("prefix:%s%d/=%s", root, n, holders()))
		}
	}
	for i := range 8 {
		if random.IntN(3) > 0 {
			parts = append(parts, fmt.Sprintf("hash:%d/8=%s", i, holders()))
		}
	}
	return strings.Join(parts, "; ")
}
