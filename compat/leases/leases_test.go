package leases

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/compat/server"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// shortTTL, in seconds, is the least that may live through a change of leader
// at etcd's default timeouts.
const shortTTL = 3

// late is how much later than its TTL a lease may end on this machine, loaded
// as it may be.
const late = 3 * time.Second

// fixture is a case's view of the cluster all cases of a kind share.
type fixture struct {
	*testing.T
	ctx     context.Context
	cluster *server.Cluster
	cli     *clientv3.Client // of all members
	prefix  string           // keys of this case
}

func TestLeases(t *testing.T) {
	for _, kind := range server.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			c, err := server.Start(ctx, server.Config{Kind: kind, Members: 3, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Stop()
			for _, tc := range cases {
				t.Run(tc.name, func(t *testing.T) {
					if tc.slow && testing.Short() {
						t.Skip("slow")
					}
					cli, err := c.Client()
					if err != nil {
						t.Fatal(err)
					}
					defer cli.Close()
					f := &fixture{T: t, ctx: ctx, cluster: c, cli: cli, prefix: tc.name + "/"}
					f.leader()
					tc.run(f)
				})
			}
		})
	}
}

var cases = []struct {
	name string
	run  func(*fixture)
	slow bool // left out with -short
}{
	{"expiry deletes all keys in one revision", expiryDeletesKeys, false},
	{"a key put again without the lease stays", overwriteDetaches, false},
	{"a key put again with another lease goes with that", overwriteMoves, false},
	{"a deleted and created key is not attached", deleteDetaches, false},
	{"revocation of 2000 keys is one revision", revokeMany, false},
	{"every member answers for a lease", everyMember, false},
	{"a lease that is broken by force is another's at once", brokenByForce, false},
	{"1000 leases end together", manyExpire, true},
	{"renewals hold a lease through the leader's death", renewalsThroughDeath, true},
	{"the leader's death does not end a lease early, nor keep it for ever", deathKeepsTime, true},
	{"a leader stopped beyond the TTL ends nothing", stoppedLeader, true},
	{"a restart of all keeps leases and their keys", restartAll, true},
	{"without a leader renewals fail", noLeader, true},
}

func (f *fixture) leader() int {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, 30*time.Second)
	defer cancel()
	i, err := f.cluster.Leader(ctx)
	if err != nil {
		f.Fatal(err)
	}
	return i
}

// grant grants a lease and tells when the request was sent.
func (f *fixture) grant(ttl int64) (clientv3.LeaseID, time.Time) {
	f.Helper()
	sent := time.Now()
	lease, err := f.cli.Grant(f.ctx, ttl)
	if err != nil {
		f.Fatal(err)
	}
	return lease.ID, sent
}

// put puts a key of this case.
func (f *fixture) put(key string, options ...clientv3.OpOption) {
	f.Helper()
	if _, err := f.cli.Put(f.ctx, f.prefix+key, key, options...); err != nil {
		f.Fatal(err)
	}
}

// count is the number of keys of this case.
func (f *fixture) count() int64 {
	f.Helper()
	r, err := f.cli.Get(f.ctx, f.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		f.Fatal(err)
	}
	return r.Count
}

// end is the deletion of a key.
type end struct {
	key      string
	revision int64
	at       time.Time
}

// deletions starts to watch this case's keys; the function it returns waits for
// n of them to be deleted, until the deadline.
func (f *fixture) deletions() func(n int, deadline time.Time) []end {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	f.Cleanup(cancel)
	events := f.cli.Watch(ctx, f.prefix, clientv3.WithPrefix(), clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
	if r := <-events; !r.Created {
		f.Fatalf("a watch began with %+v", r)
	}
	return func(n int, deadline time.Time) (ends []end) {
		f.Helper()
		timeout := time.After(time.Until(deadline))
		for len(ends) < n {
			select {
			case r := <-events:
				if r.Err() != nil {
					f.Fatal(r.Err())
				}
				for _, e := range r.Events {
					if e.Type == mvccpb.Event_DELETE {
						ends = append(ends, end{string(e.Kv.Key), e.Kv.ModRevision, time.Now()})
					}
				}
			case <-timeout:
				f.Fatalf("%d of %d keys deleted by the deadline", len(ends), n)
			}
		}
		return ends
	}
}

// inTime wants every end between the TTL after sent and a while later.
func (f *fixture) inTime(ends []end, sent time.Time, ttl int64) {
	f.Helper()
	due := sent.Add(time.Duration(ttl) * time.Second)
	for _, e := range ends {
		if e.at.Before(due) {
			f.Errorf("%s was deleted %v early", e.key, due.Sub(e.at))
		}
		if e.at.After(due.Add(late)) {
			f.Errorf("%s was deleted %v late", e.key, e.at.Sub(due))
		}
	}
}

// renewed keeps a lease alive until the case ends or stop is called, and wants
// the lease never to be lost.
func (f *fixture) renewed(lease clientv3.LeaseID) (stop func()) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	answers, err := f.cli.KeepAlive(ctx, lease)
	if err != nil {
		f.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range answers {
		}
		if ctx.Err() == nil {
			f.Errorf("lease %x was lost while it was renewed", lease)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	f.Cleanup(stop)
	return stop
}

func key(i int) string { return fmt.Sprintf("%04d", i) }
