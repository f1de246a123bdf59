package leases

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func manyExpire(f *fixture) {
	const n = 1000
	wait := f.deletions()
	due := map[string]time.Time{}
	for i := range n {
		lease, sent := f.grant(shortTTL * 3)
		f.put(key(i), clientv3.WithLease(lease))
		due[f.prefix+key(i)] = sent.Add(shortTTL * 3 * time.Second)
	}
	for _, e := range wait(n, time.Now().Add(shortTTL*3*time.Second+2*late)) {
		if e.at.Before(due[e.key]) {
			f.Errorf("%s was deleted %v early", e.key, due[e.key].Sub(e.at))
		}
	}
}

func renewalsThroughDeath(f *fixture) {
	lease, _ := f.grant(shortTTL)
	f.put("k", clientv3.WithLease(lease))
	stop := f.renewed(lease)
	for range 2 {
		leader := f.leader()
		f.cluster.Members[leader].Kill()
		f.leader()
		f.restart(leader)
	}
	time.Sleep(2 * shortTTL * time.Second)
	if n := f.count(); n != 1 {
		f.Errorf("%d keys, want 1", n)
	}
	stop()
}

// deathKeepsTime kills the leader when most of the TTL is over. A new leader
// may give the lease all its time again, and no more.
func deathKeepsTime(f *fixture) {
	wait := f.deletions()
	lease, sent := f.grant(2 * shortTTL)
	f.put("k", clientv3.WithLease(lease))
	time.Sleep(time.Until(sent.Add(shortTTL * time.Second * 3 / 2)))
	leader := f.leader()
	f.cluster.Members[leader].Kill()
	f.leader()
	elected := time.Now()
	ends := wait(1, elected.Add(2*shortTTL*time.Second+late))
	if due := sent.Add(2 * shortTTL * time.Second); ends[0].at.Before(due) {
		f.Errorf("the lease ended %v early", due.Sub(ends[0].at))
	}
	f.restart(leader)
}

// stoppedLeader stops the leader until the lease would be over by its clock,
// while the lease is renewed at the others. A follower may wait for the stopped
// leader with a renewal, so these have short time limits and are repeated.
func stoppedLeader(f *fixture) {
	const ttl = 2 * shortTTL * time.Second
	lease, last := f.grant(2 * shortTTL)
	f.put("k", clientv3.WithLease(lease))
	old := f.leader()
	var others []*clientv3.Client
	for i := range f.cluster.Members {
		if i != old {
			cli, err := f.cluster.Client(i)
			if err != nil {
				f.Fatal(err)
			}
			defer cli.Close()
			others = append(others, cli)
		}
	}
	f.cluster.Members[old].Pause()
	paused, resumed := time.Now(), false
	for n := 0; time.Since(paused) < 2*ttl; n++ {
		if !resumed && time.Since(paused) > ttl+2*time.Second {
			f.cluster.Members[old].Resume()
			resumed = true
		}
		sent := time.Now()
		ctx, cancel := context.WithTimeout(f.ctx, 700*time.Millisecond)
		_, err := others[n%2].KeepAliveOnce(ctx, lease)
		cancel()
		switch {
		case err == nil:
			last = sent
			time.Sleep(300 * time.Millisecond)
		case time.Since(last) > ttl:
			f.cluster.Members[old].Resume()
			f.Fatalf("no renewal succeeded in the TTL: %v", err)
		}
	}
	if n := f.count(); n != 1 {
		f.Errorf("%d keys, want 1", n)
	}
}

func restartAll(f *fixture) {
	lease, _ := f.grant(4 * shortTTL)
	f.put("k", clientv3.WithLease(lease))
	f.cluster.Stop()
	if err := f.cluster.Restart(f.ctx); err != nil {
		f.Fatal(err)
	}
	back := time.Now()
	f.leader()
	wait := f.deletions()
	f.wantKeys(lease, "k")
	wait(1, back.Add(4*shortTTL*time.Second+2*late))
}

// noLeader leaves one member of three, and asks it to renew.
func noLeader(f *fixture) {
	lease, _ := f.grant(600)
	last := f.leader()
	var killed []int
	for i := range f.cluster.Members {
		if i != last {
			f.cluster.Members[i].Kill()
			killed = append(killed, i)
		}
	}
	defer func() {
		// Neither is ready before the other runs.
		for _, i := range killed {
			if err := f.cluster.Members[i].Launch(); err != nil {
				f.Fatal(err)
			}
		}
		f.leader()
	}()
	cli, err := f.cluster.Client(last)
	if err != nil {
		f.Fatal(err)
	}
	defer cli.Close()
	ctx, cancel := context.WithTimeout(f.ctx, 40*time.Second)
	defer cancel()

	answer := func(ctx context.Context) error {
		stream, err := pb.NewLeaseClient(cli.ActiveConnection()).LeaseKeepAlive(ctx)
		if err != nil {
			return err
		}
		for { // it may be answered until the member knows that it leads no more
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease)}); err != nil {
				_, err = stream.Recv()
				return err
			}
			r, err := stream.Recv()
			if err != nil {
				return err
			}
			if r.TTL <= 0 {
				return fmt.Errorf("the lease is gone: %v", r)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	if err := answer(clientv3.WithRequireLeader(ctx)); status.Code(err) != codes.Unavailable || rpctypes.ErrorDesc(err) != rpctypes.ErrorDesc(rpctypes.ErrGRPCNoLeader) {
		f.Errorf("a renewal that requires a leader: %v, want %v", err, rpctypes.ErrGRPCNoLeader)
	}
	if err := answer(ctx); status.Code(err) != codes.Unavailable {
		f.Errorf("a renewal without a leader: %v, want it unavailable", err)
	}
	events := cli.Watch(clientv3.WithRequireLeader(ctx), f.prefix)
	if r := <-events; !r.Canceled || r.Err() != rpctypes.ErrNoLeader {
		f.Errorf("a watch that requires a leader: %+v, want %v", r, rpctypes.ErrNoLeader)
	}
}

func (f *fixture) restart(i int) {
	f.Helper()
	if err := f.cluster.Members[i].Start(f.ctx); err != nil {
		f.Fatal(err)
	}
}
