package readtorture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leaving is how a member is when it is removed.
type leaving int

const (
	living    leaving = iota
	unaware           // nobody can tell it
	suspended         // by SIGSTOP
	dead
)

func (l leaving) String() string {
	return [...]string{"member replaced", "member replaced that is not told", "member replaced that is stopped", "dead member replaced"}[l]
}

// change replaces a member by another, at the same address: one is removed, and goes on
// for a time if it does not know, while its clients go on asking it. Then a learner is
// added, without data, which is promoted as soon as may be.
type change struct {
	Wait    time.Duration
	Leaving leaving
	Victim  victim
	Goes    time.Duration // on, after it was removed
	Away    time.Duration // until the learner is added
	Learns  time.Duration // before it is promoted
	Killed  bool          // the newcomer, as it begins
}

func (c change) String() string {
	return fmt.Sprintf("membership: after %v %v, %v, which goes on for %v, the next %v later, a learner for %v, killed first: %v",
		c.Wait, c.Leaving, c.Victim, c.Goes, c.Away, c.Learns, c.Killed)
}

func changes(random *rand.Rand, total time.Duration) (list []change) {
	for sum := time.Duration(0); sum < total; {
		c := change{
			Wait: between(random, 1000*ms, 5000*ms), Leaving: leaving(random.IntN(int(dead) + 1)), Victim: drawVictim(random),
			Goes: between(random, 0, 2000*ms), Away: between(random, 0, 1000*ms), Learns: between(random, 0, 2000*ms), Killed: random.IntN(4) == 0,
		}
		list = append(list, c)
		sum += c.Wait + c.Goes + c.Away + c.Learns + 2*time.Second
	}
	return list
}

// carryOut does it, however long it takes: other attacks keep it from being done.
func (a change) carryOut(ctx context.Context, c *cluster) error {
	pause(ctx, a.Wait)
	i := a.Victim.of(ctx, c)
	c.owned[i].Lock()
	defer c.owned[i].Unlock()
	m := c.Members[i]
	var (
		others  []int
		clients council
	)
	for o := range c.Members {
		if o == i {
			continue
		}
		cli, err := c.Client(o)
		if err != nil {
			return err
		}
		defer cli.Close()
		others, clients = append(others, o), append(clients, cli)
	}

	between := func(f func(from, to int)) {
		for _, o := range others {
			f(o, i)
			f(i, o)
		}
	}
	leaver, err := clients.find(ctx, m.PeerURL)
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	switch a.Leaving {
	case unaware:
		between(c.Links.Hold)
		if leaver != nil { // before a write comes that has to wait for it; if this fails it is asked again
			try, cancel := context.WithTimeout(ctx, changeTime)
			clients.one().MemberRemove(try, leaver.ID)
			cancel()
		}
	case suspended:
		m.Pause()
	case dead:
		m.Kill()
	}
	old, err := clients.until(ctx, m.PeerURL, func(ctx context.Context, cli *clientv3.Client, id uint64) error {
		if a.Leaving == unaware {
			between(c.Links.Hold) // another attack's end may have let it go
		}
		_, err := cli.MemberRemove(ctx, id)
		return err
	}, func(is *etcdserverpb.Member) bool { return is == nil })
	if err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	pause(ctx, a.Goes/2)
	m.Resume()
	pause(ctx, a.Goes/2)
	m.Kill()
	between(c.Links.Release)
	if err := m.Renew(); err != nil {
		return err
	}
	pause(ctx, a.Away)
	if _, err := clients.until(ctx, m.PeerURL, func(ctx context.Context, cli *clientv3.Client, _ uint64) error {
		_, err := cli.MemberAddAsLearner(ctx, []string{m.PeerURL})
		return err
	}, func(is *etcdserverpb.Member) bool { return is != nil && is.ID != old }); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	began := time.Now()
	if err := c.begin(ctx, clients, i); err != nil {
		return err
	}
	if a.Killed {
		pause(ctx, time.Duration(a.Learns)/10)
		m.Kill()
		if err := m.Launch(); err != nil {
			return err
		}
	}
	pause(ctx, a.Learns-time.Since(began))
	if _, err := clients.until(ctx, m.PeerURL, func(ctx context.Context, cli *clientv3.Client, id uint64) error {
		if !m.Running() { // it was not told its identity in time
			m.Kill()
			if err := m.Launch(); err != nil {
				return err
			}
		}
		_, err := cli.MemberPromote(ctx, id)
		return err
	}, func(is *etcdserverpb.Member) bool { return is != nil && !is.IsLearner }); err != nil {
		return fmt.Errorf("promote: %w\n%s", err, m.Tail())
	}
	c.did(a.Leaving)
	return nil
}

// begin starts the member that was added, when the links know it.
func (c *cluster) begin(ctx context.Context, clients council, i int) error {
	ids := make([]uint64, len(c.Members))
	for at, m := range c.Members {
		is, err := clients.find(ctx, m.PeerURL)
		if err != nil {
			return err
		}
		if is != nil {
			ids[at] = is.ID
		}
	}
	c.Links.Know(ids)
	return c.Members[i].Launch()
}

// council are clients of the members that stay, one of each. Any may be cut off from the
// leader, so it takes turns at random.
type council []*clientv3.Client

func (all council) one() *clientv3.Client { return all[rand.IntN(len(all))] }

// until asks for a change again and again until the members' list shows it. It returns the
// member that it first found at that address.
func (all council) until(ctx context.Context, url string, ask func(context.Context, *clientv3.Client, uint64) error, done func(*etcdserverpb.Member) bool) (before uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	var last error
	for first := true; ; first = false {
		is, err := all.find(ctx, url)
		if err != nil {
			return before, fmt.Errorf("%w, after %w", err, last)
		}
		if done(is) {
			return before, nil
		}
		id := uint64(0)
		if is != nil {
			id = is.ID
		}
		if first {
			before = id
		}
		try, cancel := context.WithTimeout(ctx, operationTime)
		last = ask(try, all.one(), id)
		cancel()
		pause(ctx, 50*ms)
	}
}

// changeTime is how long one step of a change may take. Most of the time there is a
// majority that may agree on it.
const changeTime = 2 * time.Minute

// find is the member at an address, nil if there is none.
func (all council) find(ctx context.Context, url string) (*etcdserverpb.Member, error) {
	for {
		try, cancel := context.WithTimeout(ctx, operationTime)
		list, err := all.one().MemberList(try)
		cancel()
		if err == nil {
			for _, m := range list.Members {
				if slices.Contains(m.PeerURLs, url) {
					return m, nil
				}
			}
			return nil, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("list the members: %w", err)
		}
		pause(ctx, 20*ms)
	}
}
