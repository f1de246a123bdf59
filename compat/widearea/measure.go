package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/compat/server"
	"github.com/tenure-lease/tenure/internal/lab/widearea"
	"github.com/tenure-lease/tenure/internal/lab/widearea/live"
)

// timeouts are those of both kinds, in milliseconds: the longest round trip of all, and
// ten times as long.
var timeouts = []string{"--heartbeat-interval=300", "--election-timeout=3000"}

// measure has every system do all workloads in each round, and tells progress.
func measure(ctx context.Context, opt options, progress io.Writer) (results []result, err error) {
	for round := range opt.rounds {
		for i := range opt.systems {
			s := opt.systems[(i+round)%len(opt.systems)]
			more, err := s.measure(ctx, opt)
			for _, r := range more {
				r.Round = round + 1
				fmt.Fprintf(progress, "round %d  %-16s %-10s %s\n", r.Round, r.System, r.Workload, r)
				results = append(results, r)
			}
			if err != nil {
				return results, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return results, nil
}

func (s system) measure(ctx context.Context, opt options) (results []result, err error) {
	dir, err := os.MkdirTemp("", "widearea")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c, err := server.Start(ctx, server.Config{Kind: s.kind, Members: len(widearea.Sites), Dir: dir, Args: append(timeouts[:len(timeouts):len(timeouts)], s.args...), Links: true})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := lead(ctx, c, widearea.Leader); err != nil {
		return nil, err
	}
	live.Stretch(c.Links)
	p := place{cluster: c}
	defer p.close()
	if err := p.connect(opt.size.Clients); err != nil {
		return nil, err
	}
	if err := p.load(ctx, opt.size.Keys); err != nil {
		return nil, fmt.Errorf("load %d keys: %w", opt.size.Keys, err)
	}
	for _, w := range opt.workloads {
		r, err := p.run(ctx, opt, w)
		if err != nil {
			return results, err
		}
		r.System = s.name
		results = append(results, r)
	}
	return results, nil
}

// lead has a member lead, which etcd can be asked for and Tenure cannot: for a while it is the only
// one that all can hear.
func lead(ctx context.Context, c *server.Cluster, site int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	each := func(f func(from, to int)) {
		for from := range c.Members {
			for to := range c.Members {
				if from != to && from != site && to != site {
					f(from, to)
				}
			}
		}
	}
	if now, err := c.Leader(ctx); err != nil || now == site {
		return err
	}
	each(c.Links.Hold)
	defer each(c.Links.Release)
	for {
		agreed := 0
		for i, m := range c.Members {
			st, err := m.Status(ctx)
			if err == nil && st.Leader != 0 && (i != site || st.Leader == st.Header.MemberId) {
				agreed++
			}
		}
		if now, err := c.Leader(ctx); err == nil && now == site && agreed == len(c.Members) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not come to lead: %w", widearea.Sites[site], ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// place is a cluster with its clients, by site.
type place struct {
	cluster *server.Cluster
	clients [len(widearea.Sites)][]*clientv3.Client
}

func (p *place) close() {
	for _, site := range p.clients {
		for _, cli := range site {
			cli.Close()
		}
	}
}

// connect opens clients at each site, each with a connection of its own.
func (p *place) connect(each int) error {
	for site := range p.clients {
		for range each {
			cli, err := p.cluster.Client(site)
			if err != nil {
				return err
			}
			p.clients[site] = append(p.clients[site], cli)
		}
	}
	return nil
}

// value is as long as in the paper's code, which keeps integers.
const value = "8 bytes."

// load writes all keys, at the leader: each for itself, for what is written together goes
// together in the eyes of a policy.
func (p *place) load(ctx context.Context, keys int) error {
	const atOnce = 100
	cli, errs := p.clients[widearea.Leader][0], make([]error, atOnce)
	var all sync.WaitGroup
	for w := range atOnce {
		all.Go(func() {
			for i := w; i < keys && errs[w] == nil; i += atOnce {
				_, errs[w] = cli.Put(ctx, widearea.KeyName(i), value)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// run has the clients work.
func (p *place) run(ctx context.Context, opt options, w widearea.Workload) (result, error) {
	term, err := p.term(ctx)
	if err != nil {
		return result{}, err
	}
	// Reads are counted from when they are measured on.
	var settled []server.Reads
	counting := make(chan error, 1)
	go func() {
		select {
		case <-time.After(widearea.Settling(opt.duration)):
		case <-ctx.Done():
		}
		var err error
		settled, err = p.reads(ctx)
		counting <- err
	}()
	o := live.Clients{Seed: opt.seed, Workload: w, Size: opt.size, For: opt.duration, Pause: opt.pause, Operate: p.operate}.Play(ctx, "")
	if err := <-counting; err != nil {
		return result{}, err
	}
	reads, err := p.reads(ctx)
	if err != nil {
		return result{}, err
	}
	later, err := p.term(ctx)
	if err != nil {
		return result{}, err
	}
	r := result{Workload: w.Name, Mean: o.Mean, Stale: o.Stale, Failed: o.Failed, Elections: int(later - term)}
	for i, s := range o.Sites {
		r.Sites = append(r.Sites, site{
			Site: s.Site, Gets: latencies{s.Reads.Count, s.Reads.P50, s.Reads.P99}, Puts: latencies{s.Writes.Count, s.Writes.P50, s.Writes.P99},
			Under10: s.Reads.Under10, Local: reads[i].Since(settled[i]),
		})
	}
	return r, nil
}

// operate gets a key, linearizably, or puts it, and returns the revision that it has then.
func (p *place) operate(ctx context.Context, site, client int, key string, read bool) (int64, error) {
	cli := p.clients[site][client]
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if !read {
		put, err := cli.Put(ctx, key, value)
		if err != nil {
			return 0, err
		}
		return put.Header.Revision, nil
	}
	got, err := cli.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	if len(got.Kvs) != 1 {
		return 0, fmt.Errorf("%s, which was written, is not there", key)
	}
	return got.Kvs[0].ModRevision, nil
}

// reads counts those of each member so far.
func (p *place) reads(ctx context.Context) (all []server.Reads, err error) {
	for _, m := range p.cluster.Members {
		r, err := m.Reads(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s counts its reads: %w", m.Name, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// term is that which the member knows that is to lead. If it changes, another may have led.
func (p *place) term(ctx context.Context) (uint64, error) {
	st, err := p.cluster.Members[widearea.Leader].Status(ctx)
	if err != nil {
		return 0, err
	}
	return st.RaftTerm, nil
}
