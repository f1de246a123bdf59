package readtorture

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenure-lease/tenure/compat/server"
)

// Outcome counts what a run saw, so that a run in which nothing happened does not pass
// for a good one.
type Outcome struct {
	Operations, Unknown, Events int
	Policies, Restarts          int // how often a policy was set, and a member started again
	Snapshots                   int // that were sent to members
	Reads                       Counts
	Faults                      Faults
	Violations                  []error
}

func (o Outcome) String() string {
	return fmt.Sprintf("%d violations in %d operations (%d without an answer), %d events, %v\n  %d policies set, %d restarts, %d snapshots sent, %v",
		len(o.Violations), o.Operations, o.Unknown, o.Events, o.Reads, o.Policies, o.Restarts, o.Snapshots, o.Faults)
}

// Run carries a plan out, with members that keep their data and logs in dir, and judges
// what came of it. An error means that no judgement was possible. With violations, the
// history is kept in dir.
func Run(ctx context.Context, p Plan, dir string, progress func(string)) (out Outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	env := func(i, n int) []string { return p.env(dir, i, n) }
	servers, err := server.Start(ctx, server.Config{Kind: server.Tenure, Members: p.Members, Dir: dir, Links: true, ArgsOf: p.args, EnvOf: env, Binary: p.Binary})
	if err != nil {
		return out, err
	}
	defer servers.Close()
	c := &cluster{Cluster: servers, plan: &p, dir: dir, owned: make([]sync.Mutex, p.Members), faults: Faults{}}
	for i, to := range p.Apart {
		for j, d := range to {
			c.Links.Delay(i, j, d)
		}
	}
	l := &load{start: time.Now(), life: p.Life}
	ws, err := watch(ctx, l, c.Cluster)
	if err != nil {
		return out, err
	}
	defer ws.stop()
	counts := newCounter()
	if err := p.carryOut(ctx, c, l, counts, &out, progress); err != nil {
		return out, err
	}
	for _, m := range c.Members {
		out.Restarts += m.Starts() - 1
	}
	out.Faults, out.Reads = c.faults, counts.sum()
	ends, err := settle(ctx, c.Cluster)
	if err != nil {
		return out, err
	}
	settling, cancelSettling := context.WithTimeout(ctx, 30*time.Second)
	defer cancelSettling()
	shown, err := ws.finish(settling, ends[0].Header.Revision)
	if err != nil {
		return out, err
	}
	if out.Snapshots, err = c.snapshots(); err != nil {
		return out, err
	}
	out.judge(&p, l.history, shown, ends)
	if len(out.Violations) > 0 {
		err = keep(filepath.Join(dir, "history.json"), &p, l.history, shown)
	}
	return out, err
}

// carryOut has clients work while faults come and go.
func (p *Plan) carryOut(ctx context.Context, c *cluster, l *load, counts *counter, out *Outcome, progress func(string)) error {
	working, stop := context.WithCancel(ctx)
	defer stop()
	var (
		all, attacks sync.WaitGroup
		errs         [7]error
	)
	all.Go(func() { errs[0] = l.run(working, c.Cluster, p.Seed) })
	all.Go(func() { errs[1] = counts.run(working, c.Cluster) })
	if len(p.Policies) > 1 || p.divides() {
		all.Go(func() { out.Policies, errs[2] = turns(working, c.Cluster, p) })
	}
	all.Go(func() {
		for pause(working, 5*time.Second); working.Err() == nil; pause(working, 5*time.Second) {
			progress(fmt.Sprintf("seed %d at %v of about %v: %d operations, %v", p.Seed, l.now().Round(time.Second), p.Time, l.done(), counts.sum().all()))
		}
	})
	attacks.Go(func() { errs[3] = carryOut(ctx, c, p.Processes) })
	attacks.Go(func() { errs[4] = carryOut(ctx, c, p.Links) })
	attacks.Go(func() { errs[5] = carryOut(ctx, c, p.Changes) })
	if p.Hooked {
		attacks.Go(func() { errs[6] = carryOut(ctx, c, p.Insides) })
	}
	attacks.Wait()
	stop()
	all.Wait()
	return errors.Join(errs[:]...)
}

// attack is something that is done to the cluster.
type attack interface {
	fmt.Stringer
	carryOut(context.Context, *cluster) error
}

// carryOut does one after the other.
func carryOut[A attack](ctx context.Context, c *cluster, list []A) error {
	for _, a := range list {
		if err := a.carryOut(ctx, c); err != nil {
			return fmt.Errorf("%v: %w", a, err)
		}
	}
	return nil
}

var errEnded = errors.New("has ended by itself")

// settle waits until each member is well, and reads all of it.
func settle(ctx context.Context, c *server.Cluster) (ends []*clientv3.GetResponse, err error) {
	for i, m := range c.Members {
		if !m.Running() {
			return nil, fmt.Errorf("%s %w\n%s", m.Name, errEnded, m.Tail())
		}
		if err := m.WaitReady(ctx); err != nil {
			return nil, err
		}
		cli, err := c.Client(i)
		if err != nil {
			return nil, err
		}
		defer cli.Close()
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if i == 0 {
			if _, err := cli.Put(try, root+"end", "the end"); err != nil {
				return nil, fmt.Errorf("a put after all faults were undone: %w", err)
			}
		}
		got, err := cli.Get(try, root, clientv3.WithPrefix())
		if err != nil {
			return nil, fmt.Errorf("a get at %s after all faults were undone: %w", m.Name, err)
		}
		ends = append(ends, got)
	}
	return ends, nil
}

// judge has all judges look.
func (o *Outcome) judge(p *Plan, history []operation, shown [][]event, ends []*clientv3.GetResponse) {
	o.Operations = len(history)
	for i := range history {
		if !history[i].Known {
			o.Unknown++
		}
	}
	events, faults := agree(shown)
	o.Events = len(events)
	v := newVersions(events)
	faults = append(faults, audit(history, v)...)
	faults = append(faults, unasked(history, v)...)
	if p.strict() {
		faults = append(faults, strictFloors(history, events)...)
	} else {
		faults = append(faults, keyFloors(history, events, v)...)
	}
	for i, got := range ends {
		faults = append(faults, adds(i, got, v)...)
	}
	o.Violations = append(faults, linearizable(history, v, 20*time.Second)...)
}
