package memberworld

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tenure-lease/tenure/api/readleasepb"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
)

// job is a task of the operator, which does one after the other, and each until it is done, as
// persons do: with a look at the members before each step. A member that has lost its data is
// replaced before the job goes on, which may wait for that very member.
type job struct {
	what string // replace, add, promote, remove, lead, move, or a policy of read leases
	h    *host
}

// operate does the jobs until the world is over.
func (c *cluster) operate() {
	cl := c.client("operator")
	defer cl.Close()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			c.attend(cl)
		case j := <-c.jobs:
			c.w.Trace.Add("operator: %s %s", j.what, j.h.name)
			switch j.what {
			case "replace":
				c.replace(cl, j.h)
			case "add":
				c.addMember(cl, j.h, true)
			case "promote":
				c.promote(cl, j.h)
			case "remove":
				c.removeMember(cl, j.h)
			case "lead":
				c.moveLeader(j.h)
			case "move":
				c.moveMember(cl, j.h)
			default:
				c.setPolicy(cl, j.h, j.what)
			}
			c.w.Count("changes: "+j.what, 1)
			c.busy.Add(-1)
		case <-c.gone:
			return
		}
	}
}

// employ gives the operator a job, unless there are enough.
func (c *cluster) employ(what string, h *host) (taken bool) {
	c.busy.Add(1)
	select {
	case c.jobs <- job{what, h}:
		return true
	default:
		c.busy.Add(-1)
		return false
	}
}

// member finds the member of a host.
func (c *cluster) member(cl *clientv3.Client, h *host) (m *pb.Member, err error) {
	ctx, cancel := within(3 * time.Second)
	defer cancel()
	resp, err := cl.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range resp.Members {
		if m.PeerURLs[0] == h.url() {
			return m, nil
		}
	}
	return nil, nil
}

// attend replaces members that lost their data and say so.
func (c *cluster) attend(cl *clientv3.Client) {
	for _, h := range c.hosts {
		h.mu.Lock()
		lost := h.lost && (refused(h.lastErr) || h.advised.Load())
		h.mu.Unlock()
		if !lost {
			continue
		}
		c.w.Count("members that noticed that they lost data", 1)
		c.busy.Add(1)
		c.w.Trace.Add("operator: replace %s, which has lost its data", h.name)
		c.replace(cl, h)
		c.w.Count("changes: replace", 1)
		c.busy.Add(-1)
	}
}

// until tries again until it is done, or the world is over.
func (c *cluster) until(cl *clientv3.Client, step func(ctx context.Context) (done bool, err error)) {
	for !c.over() {
		c.attend(cl)
		ctx, cancel := within(3 * time.Second)
		done, err := step(ctx)
		cancel()
		if done && err == nil {
			return
		}
		if err != nil {
			c.w.Trace.Add("operator: %v", err)
		}
		c.pause(500 * time.Millisecond)
	}
}

// replace puts a new member, with an empty disk, in the place of one that lost its own, and
// waits until it has joined: until then the cluster has a voter less. While another one has
// lost its data no second one is given up, and none before all founders have met.
func (c *cluster) replace(cl *clientv3.Client, h *host) {
	for c.losing.Lock(); !c.begun(); c.losing.Lock() {
		c.losing.Unlock()
		if c.over() {
			return
		}
		c.pause(500 * time.Millisecond)
	}
	for _, o := range c.hosts {
		if o != h && o.isLost() {
			c.losing.Unlock()
			c.w.Trace.Add("operator: not now, for %s has lost its data", o.name)
			return
		}
	}
	h.hold(1)
	h.end(nil, empties)
	h.mu.Lock()
	h.lost, h.lastErr = false, nil
	h.mu.Unlock()
	h.advised.Store(false)
	c.losing.Unlock()
	c.removeID(cl, h)
	h.mu.Lock()
	h.existing, h.flags.older = true, false // newcomers have the newest version
	h.disk.Empty()
	h.mu.Unlock()
	c.addMember(cl, h, false)
	h.hold(-1)
	c.until(cl, func(context.Context) (bool, error) {
		m, err := c.member(cl, h)
		return m == nil || m.Name != "", err
	})
}

// removeID removes a host's member from the cluster.
func (c *cluster) removeID(cl *clientv3.Client, h *host) {
	c.until(cl, func(ctx context.Context) (bool, error) {
		m, err := c.member(cl, h)
		if err != nil || m == nil {
			return true, err
		}
		_, err = cl.MemberRemove(ctx, m.ID)
		return false, err
	})
}

// addMember adds a host's member, and starts it if it was never there.
func (c *cluster) addMember(cl *clientv3.Client, h *host, learner bool) {
	c.until(cl, func(ctx context.Context) (bool, error) {
		m, err := c.member(cl, h)
		if err != nil || m != nil {
			return true, err
		}
		if learner {
			_, err = cl.MemberAddAsLearner(ctx, []string{h.url()})
		} else {
			_, err = cl.MemberAdd(ctx, []string{h.url()})
		}
		return false, err
	})
	h.mu.Lock()
	h.existing = true
	unheard := h.starts == 0
	h.mu.Unlock()
	if unheard {
		c.work.Go(h.run)
	}
}

func (c *cluster) promote(cl *clientv3.Client, h *host) {
	c.until(cl, func(ctx context.Context) (bool, error) {
		m, err := c.member(cl, h)
		if err != nil || m == nil || !m.IsLearner {
			return true, err
		}
		_, err = cl.MemberPromote(ctx, m.ID)
		return false, err
	})
}

// removeMember removes a host's member. Its host is not told, and starts it again and again, as
// systemd does.
func (c *cluster) removeMember(cl *clientv3.Client, h *host) {
	c.removeID(cl, h)
	h.mu.Lock()
	h.removed = true
	h.mu.Unlock()
}

// refused reports whether a member said that it must not go on with its data.
func refused(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "permanently removed") || strings.Contains(err.Error(), "lacks records") || strings.Contains(err.Error(), "eplace the member") || strings.Contains(err.Error(), "remove it and add it again"))
}

// moveLeader asks the leader to hand over to a host's member, which it may refuse, or not manage.
func (c *cluster) moveLeader(to *host) {
	next := to.running()
	if next == nil {
		return
	}
	for _, h := range c.hosts {
		srv := h.running()
		if srv == nil {
			continue
		}
		if leader, _, _ := srv.Node.Leader(); leader != srv.Node.ID() || h == to {
			continue
		}
		ctx, cancel := within(3 * time.Second)
		defer cancel()
		if err := srv.Node.MoveLeader(ctx, next.Node.ID()); err == nil {
			c.w.Count("leaders moved", 1)
		}
		return
	}
}

// moveMember gives a host's member another port for members: the cluster is told first, and then the
// member starts again there, with flags that say so. The other members keep their flags until they
// start again.
func (c *cluster) moveMember(cl *clientv3.Client, h *host) {
	for c.losing.Lock(); !c.begun() || slices.ContainsFunc(c.hosts, (*host).isLost); c.losing.Lock() {
		c.losing.Unlock()
		if c.over() {
			return
		}
		c.w.Trace.Add("operator: not now")
		c.attend(cl)
		c.pause(500 * time.Millisecond)
	}
	c.moved.Store(true)
	c.losing.Unlock()
	from := h.url()
	to := h.port.Load() + 1
	c.until(cl, func(ctx context.Context) (bool, error) {
		resp, err := cl.MemberList(ctx)
		if err != nil {
			return false, err
		}
		for _, m := range resp.Members {
			if m.PeerURLs[0] == from {
				_, err := cl.MemberUpdate(ctx, m.ID, []string{fmt.Sprintf("http://%s:%d", h.name, to)})
				return false, err
			}
		}
		return true, nil
	})
	h.port.Store(to)
	h.end(nil, exits)
}

// divided assigns keys to holders, for the policy that asks for that: to one member the
// registers, to two the accounts, to all the rest.
const divided = "prefix:k/ = m0; prefix:a/ = m1,m2; default = *"

// setPolicy asks a host's member for another policy of read leases.
func (c *cluster) setPolicy(cl *clientv3.Client, h *host, policy string) {
	asked := &readleasepb.SetRequest{Policy: policy}
	if quorumlease.Policy(policy) == quorumlease.Static {
		asked.Cells = divided
	}
	to := c.client("operator", h)
	defer to.Close()
	c.until(cl, func(ctx context.Context) (bool, error) {
		_, err := readleasepb.NewReadLeaseClient(to.ActiveConnection()).Set(ctx, asked)
		if status.Code(err) == codes.InvalidArgument || status.Code(err) == codes.PermissionDenied {
			c.w.Fail("policy %s is refused: %v", policy, err)
			return true, nil
		}
		return err == nil, err
	})
}
