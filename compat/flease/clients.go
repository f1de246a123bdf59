package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
)

// clients are callers of flease's peers over their sockets, each with a connection of its
// own, as callers of etcd and ZooKeeper have one.
type clients struct {
	peers *peers
	dir   string
	paths []string
	conns []*engine.Client
}

func startFleaseClients(ctx context.Context, dir string) (contestant, error) {
	p, err := startFlease(ctx, dir)
	if err != nil {
		return nil, err
	}
	c := &clients{peers: p.(*peers)}
	if c.dir, err = os.MkdirTemp("", "f"); err != nil { // short: a socket's path has 107 bytes
		c.close()
		return nil, err
	}
	for i, one := range c.peers.all {
		path := filepath.Join(c.dir, strconv.Itoa(i))
		l, err := engine.ListenSocket(path, 0o600)
		if err != nil {
			c.close()
			return nil, err
		}
		go func() { _ = one.Serve(l) }()
		c.paths = append(c.paths, path)
	}
	return c, nil
}

func (c *clients) caller(ctx context.Context, i int) (map[string]call, error) {
	l, err := engine.Dial(ctx, c.paths[i%len(c.paths)])
	if err != nil {
		return nil, err
	}
	c.conns = append(c.conns, l)
	return map[string]call{
		"turn": func(ctx context.Context, name string) error {
			lease, err := l.Acquire(ctx, tenure.Claim{Name: name, TTL: ttl})
			if err != nil {
				return err
			}
			return lease.Release(ctx)
		},
		"take": func(ctx context.Context, name string) error {
			_, err := l.Acquire(ctx, tenure.Claim{Name: name, TTL: ttl})
			return err
		},
	}, nil
}

func (c *clients) cpu() time.Duration { return 0 }

func (c *clients) close() {
	var err error
	for _, l := range c.conns {
		err = errors.Join(err, l.Close())
	}
	_ = err // a lease that was taken ends by itself
	c.peers.close()
	os.RemoveAll(c.dir)
}
