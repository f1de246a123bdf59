package main

import (
	"context"
	"os"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/load"
	clientv3 "go.etcd.io/etcd/client/v3"

	"time"
)

// axis is something that grows.
type axis struct {
	name, label string
	sizes       func(options) []int
	measure     func(ctx context.Context, o options, sizes []int, tell func(point)) error
}

var axes = []axis{
	{"keys", "keys", decades(1_000, 1), measureKeys},
	{"leases", "leases", decades(1_000, 1), measureLeases},
	{"watchers", "watchers of one key", decades(1, 10), measureWatchers},
	{"members", "members", these(1, 3, 5, 7), measureMembers},
	{"bytes", "bytes of a value", these(16, 256, 4<<10, 64<<10, 1<<20), measureBytes},
	{"clients", "clients", these(1, 4, 16, 64, 256, 1000), measureClients},
}

// decades are tenfold from a size up to a part of the top.
func decades(from, part int) func(options) []int {
	return func(o options) (sizes []int) {
		for n := from; n <= max(o.top/part, from); n *= 10 {
			sizes = append(sizes, n)
		}
		return sizes
	}
}

func these(sizes ...int) func(options) []int { return func(options) []int { return sizes } }

const usualClients = 64

// cluster is one that is measured.
type cluster struct {
	*server.Cluster
	leader int
	dir    string
}

func (c *cluster) Size() int                               { return len(c.Members) }
func (c *cluster) Leader() int                             { return c.leader }
func (c *cluster) Connect(m int) (*clientv3.Client, error) { return c.Client(m) }
func (c *cluster) CPU(context.Context) (sum time.Duration) {
	for _, m := range c.Members {
		sum += m.CPU()
	}
	return sum
}

// memory is that of the member that leads.
func (c *cluster) memory() float64 { return float64(c.Members[c.leader].Memory()) }

func start(ctx context.Context, o options, members int) (*cluster, *load.Load, error) {
	dir, err := os.MkdirTemp("", "growth")
	if err != nil {
		return nil, nil, err
	}
	c := &cluster{dir: dir}
	if c.Cluster, err = server.Start(ctx, server.Config{Kind: o.kind, Members: members, Dir: dir}); err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	if c.leader, err = c.Cluster.Leader(ctx); err != nil {
		c.stop()
		return nil, nil, err
	}
	return c, &load.Load{Target: c, Clients: usualClients, Time: o.time, Prefix: "growth/"}, nil
}

func (c *cluster) stop() {
	c.Stop()
	os.RemoveAll(c.dir)
}
