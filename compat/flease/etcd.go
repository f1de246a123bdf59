package main

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/tenure-lease/tenure/compat/server"
)

// etcd is a cluster of stock members.
type etcd struct {
	cluster *server.Cluster
	clients []*clientv3.Client
}

func startEtcd(ctx context.Context, dir string) (contestant, error) {
	c, err := server.Start(ctx, server.Config{Kind: server.Etcd, Members: members, Dir: dir})
	if err != nil {
		return nil, err
	}
	return &etcd{cluster: c}, nil
}

func (e *etcd) caller(ctx context.Context, i int) (map[string]call, error) {
	cli, err := e.cluster.Client(i % members)
	if err != nil {
		return nil, err
	}
	e.clients = append(e.clients, cli)
	session, err := concurrency.NewSession(cli, concurrency.WithTTL(int(ttl.Seconds())))
	if err != nil {
		return nil, err
	}
	stream, err := pb.NewLeaseClient(cli.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]call{
		"turn": func(ctx context.Context, name string) error {
			m := concurrency.NewMutex(session, name)
			if err := m.Lock(ctx); err != nil {
				return err
			}
			return m.Unlock(ctx)
		},
		"take": func(ctx context.Context, _ string) error {
			_, err := cli.Grant(ctx, int64(ttl.Seconds()))
			return err
		},
		"renew": func(context.Context, string) error {
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(session.Lease())}); err != nil {
				return err
			}
			r, err := stream.Recv()
			if err == nil && r.TTL <= 0 {
				err = errors.New("the lease has expired")
			}
			return err
		},
	}, nil
}

func (e *etcd) cpu() (sum time.Duration) {
	for _, m := range e.cluster.Members {
		sum += m.CPU()
	}
	return sum
}

func (e *etcd) close() {
	for _, c := range e.clients {
		c.Close()
	}
	e.cluster.Close()
}
