package rolling

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestRolling: three members with TLS and users, under a rolling restart, a kill -9 and a replacement.
func TestRolling(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute for each kind of token")
	}
	for _, kind := range server.Kinds() {
		for _, tokens := range []string{"simple", "jwt"} {
			t.Run(string(kind)+"/"+tokens, func(t *testing.T) {
				c, err := roll(t, kind, tokens)
				switch {
				case err != nil && kind == server.Tenure:
					t.Fatal(err)
				case err != nil:
					t.Skip(err)
				}
				t.Logf("%d writes, %d without an answer, %d reads, %d locks, %d watches", len(c.acknowledged), c.failed, c.reads, c.locks, len(c.watches))
				if few := len(c.acknowledged) < 100 || c.reads < 100 || c.locks < 5 || len(c.watches) != 3; few && kind == server.Tenure {
					t.Errorf("too little was done")
				}
				for _, line := range listed(c.faults) {
					t.Log(line)
				}
				if fails(kind, c.faults) {
					t.Fail()
				}
			})
		}
	}
}

// roll has clients work at a cluster whose members go and come back, and judges what they saw.
func roll(t *testing.T, kind server.Kind, tokens string) (*clients, error) {
	dir := t.TempDir()
	files, secure, err := newCertificates(dir)
	if err != nil {
		return nil, err
	}
	args := []string{
		"--cert-file=" + files.cert, "--key-file=" + files.key,
		"--peer-cert-file=" + files.cert, "--peer-key-file=" + files.key, "--peer-trusted-ca-file=" + files.ca, "--peer-client-cert-auth",
		"--bcrypt-cost=4", "--auth-token-ttl=5",
	}
	if tokens == "jwt" {
		signed, err := newTokenKey(dir, "5s")
		if err != nil {
			return nil, err
		}
		args = append(args, signed)
	}
	ctx := t.Context()
	cluster, err := server.Start(ctx, server.Config{Kind: kind, Members: 3, Dir: dir, TLS: true, Args: args})
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	c := &clients{endpoints: cluster.Endpoints(), tls: secure, unwatched: make(chan struct{}, 3)}
	root, err := users(ctx, c)
	if err != nil {
		return nil, err
	}
	defer root.Close()

	working, stop := context.WithCancel(ctx)
	defer stop()
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	last := make(chan int64)
	var all error
	for w := range 3 {
		all = errors.Join(all,
			c.start(func(client *clientv3.Client) { c.write(working, client, w) }),
			c.start(func(client *clientv3.Client) { c.watch(watching, client, last) }),
			c.start(func(client *clientv3.Client) { c.keep(working, client, w) }))
	}
	for w := range 2 {
		all = errors.Join(all, c.start(func(client *clientv3.Client) { c.lock(working, client, w) }))
	}
	all = errors.Join(all, c.hold(working))
	if all != nil {
		return nil, all
	}
	c.work.Go(func() { c.change(working, root) })

	if err := disturb(ctx, cluster, root); err != nil {
		return nil, err
	}
	stop()
	end, err := root.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	final := end.Kvs[0].ModRevision
	for _, kv := range end.Kvs {
		final = max(final, kv.ModRevision)
	}
	for range 3 {
		select {
		case last <- final:
		case <-c.unwatched: // which was told
		case <-time.After(time.Minute):
			c.fault("a watch does not listen")
		}
	}
	late := time.AfterFunc(time.Minute, unwatch)
	c.work.Wait()
	late.Stop()
	for _, events := range c.watches {
		c.faults = append(c.faults, judgeWatch(events, end.Kvs)...)
	}
	for _, endpoint := range c.endpoints {
		one, err := c.dial(user, secret, endpoint)
		if err != nil {
			return nil, err
		}
		state, err := one.Get(ctx, prefix, clientv3.WithPrefix())
		one.Close()
		if err != nil {
			return nil, err
		}
		c.faults = append(c.faults, judgeState(c.acknowledged, state.Kvs)...)
	}
	return c, nil
}

// users puts root and app in force, and returns root's client.
func users(ctx context.Context, c *clients) (*clientv3.Client, error) {
	open, err := c.dial("", "", c.endpoints...)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	var all error
	do := func(_ any, err error) { all = errors.Join(all, err) }
	do(open.UserAdd(ctx, "root", "root's"))
	do(open.RoleAdd(ctx, "root"))
	do(open.UserGrantRole(ctx, "root", "root"))
	do(open.RoleAdd(ctx, "apps"))
	do(open.RoleGrantPermission(ctx, "apps", "app/", clientv3.GetPrefixRangeEnd("app/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	do(open.UserAdd(ctx, user, secret))
	do(open.UserGrantRole(ctx, user, "apps"))
	do(open.AuthEnable(ctx))
	if all != nil {
		return nil, all
	}
	return c.dial("root", "root's", c.endpoints...)
}

// disturb restarts each member, kills one, and replaces one by an empty one. The members that stay are
// a majority all the time, and each change waits until the member of the one before is back.
func disturb(ctx context.Context, cluster *server.Cluster, root *clientv3.Client) error {
	settle := func() { time.Sleep(2 * time.Second) } // the clients have time to meet what is new
	settle()
	for _, m := range cluster.Members {
		m.Terminate()
		if err := m.Start(ctx); err != nil {
			return err
		}
		settle()
	}
	cluster.Members[1].Kill()
	if err := cluster.Members[1].Start(ctx); err != nil {
		return err
	}
	settle()
	gone := cluster.Members[2]
	list, err := root.MemberList(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list.Members, func(m *pb.Member) bool { return m.Name == gone.Name })
	if err := insist(ctx, func(ctx context.Context) error {
		_, err := root.MemberRemove(ctx, list.Members[i].ID)
		return err
	}); err != nil {
		return err
	}
	gone.Terminate()
	if err := gone.Renew(); err != nil {
		return err
	}
	if err := insist(ctx, func(ctx context.Context) error {
		_, err := root.MemberAdd(ctx, []string{gone.PeerURL})
		return err
	}); err != nil {
		return err
	}
	if err := gone.Start(ctx); err != nil {
		return err
	}
	settle()
	return nil
}

// insist repeats a change that the members do not take yet, as one that has just come back does not count.
func insist(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := do(ctx)
		if errors.Is(err, rpctypes.ErrMemberNotFound) || errors.Is(err, rpctypes.ErrPeerURLExist) {
			return nil // an answer was lost
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}
