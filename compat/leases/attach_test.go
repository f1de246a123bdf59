package leases

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func expiryDeletesKeys(f *fixture) {
	lease, sent := f.grant(shortTTL)
	wait := f.deletions()
	for i := range 3 {
		f.put(key(i), clientv3.WithLease(lease))
	}
	ends := wait(3, sent.Add(shortTTL*time.Second+late))
	f.inTime(ends, sent, shortTTL)
	for i, e := range ends {
		if e.revision != ends[0].revision || e.key != f.prefix+key(i) {
			f.Errorf("end %d is %+v, want %s in revision %d", i, e, key(i), ends[0].revision)
		}
	}
	if r, err := f.cli.TimeToLive(f.ctx, lease); err != nil || r.TTL != -1 {
		f.Errorf("time to live of an expired lease: %+v, %v; want -1", r, err)
	}
	if _, err := f.cli.KeepAliveOnce(f.ctx, lease); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		f.Errorf("a renewal of an expired lease: %v, want %v", err, rpctypes.ErrLeaseNotFound)
	}
}

func overwriteDetaches(f *fixture) {
	lease, _ := f.grant(600)
	f.put("stays", clientv3.WithLease(lease))
	f.put("goes", clientv3.WithLease(lease))
	f.put("stays")
	f.wantKeys(lease, "goes")
	f.revoke(lease)
	if n := f.count(); n != 1 {
		f.Errorf("%d keys after the revocation, want the one put again", n)
	}
}

func overwriteMoves(f *fixture) {
	first, _ := f.grant(600)
	second, _ := f.grant(600)
	f.put("k", clientv3.WithLease(first))
	f.put("k", clientv3.WithLease(second))
	f.wantKeys(first)
	f.wantKeys(second, "k")
	f.revoke(first)
	if n := f.count(); n != 1 {
		f.Errorf("%d keys after the old lease's end, want 1", n)
	}
	f.revoke(second)
	if n := f.count(); n != 0 {
		f.Errorf("%d keys after the new lease's end, want 0", n)
	}
}

func deleteDetaches(f *fixture) {
	lease, _ := f.grant(600)
	f.put("k", clientv3.WithLease(lease))
	if _, err := f.cli.Delete(f.ctx, f.prefix+"k"); err != nil {
		f.Fatal(err)
	}
	f.put("k")
	f.wantKeys(lease)
	f.revoke(lease)
	if n := f.count(); n != 1 {
		f.Errorf("%d keys, want 1", n)
	}
}

func revokeMany(f *fixture) {
	const n, together = 2000, 100
	lease, _ := f.grant(600)
	for i := 0; i < n; i += together {
		var ops []clientv3.Op
		for j := range together {
			ops = append(ops, clientv3.OpPut(f.prefix+key(i+j), "", clientv3.WithLease(lease)))
		}
		if _, err := f.cli.Txn(f.ctx).Then(ops...).Commit(); err != nil {
			f.Fatal(err)
		}
	}
	wait := f.deletions()
	before, err := f.cli.Get(f.ctx, "x")
	if err != nil {
		f.Fatal(err)
	}
	r := f.revoke(lease)
	if r.Header.Revision != before.Header.Revision+1 {
		f.Errorf("revision %d before, %d after", before.Header.Revision, r.Header.Revision)
	}
	ends := wait(n, time.Now().Add(10*time.Second))
	for i, e := range ends {
		if e.key != f.prefix+key(i) || e.revision != r.Header.Revision {
			f.Fatalf("end %d is %+v, want %s in revision %d", i, e, key(i), r.Header.Revision)
		}
	}
}

// everyMember asks each member about a lease, and renews through each.
func everyMember(f *fixture) {
	lease, _ := f.grant(600)
	f.put("k", clientv3.WithLease(lease))
	for i, m := range f.cluster.Members {
		cli, err := f.cluster.Client(i)
		if err != nil {
			f.Fatal(err)
		}
		defer cli.Close()
		if r, err := cli.KeepAliveOnce(f.ctx, lease); err != nil || r.TTL != 600 {
			f.Errorf("%s: renewal: %+v, %v; want a TTL of 600", m.Name, r, err)
		}
		r, err := cli.TimeToLive(f.ctx, lease, clientv3.WithAttachedKeys())
		if err != nil || r.GrantedTTL != 600 || r.TTL < 590 || r.TTL > 600 || len(r.Keys) != 1 {
			f.Errorf("%s: time to live: %+v, %v; want nearly 600 with a key", m.Name, r, err)
		}
		all, err := cli.Leases(f.ctx)
		if err != nil || !slices.Contains(all.Leases, clientv3.LeaseStatus{ID: lease}) {
			f.Errorf("%s: leases: %+v, %v; want %x among them", m.Name, all, err, lease)
		}
		if _, err := cli.Revoke(f.ctx, 12345); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			f.Errorf("%s: revocation of no lease: %v", m.Name, err)
		}
	}
}

func (f *fixture) revoke(lease clientv3.LeaseID) *clientv3.LeaseRevokeResponse {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	defer cancel()
	r, err := f.cli.Revoke(ctx, lease)
	if err != nil {
		f.Fatal(err)
	}
	return r
}

// wantKeys wants a lease to have just these keys of this case.
func (f *fixture) wantKeys(lease clientv3.LeaseID, keys ...string) {
	f.Helper()
	r, err := f.cli.TimeToLive(f.ctx, lease, clientv3.WithAttachedKeys())
	if err != nil {
		f.Fatal(err)
	}
	var got []string
	for _, k := range r.Keys {
		got = append(got, string(k))
	}
	slices.Sort(got)
	var want []string
	for _, k := range keys {
		want = append(want, f.prefix+k)
	}
	if !slices.Equal(got, want) {
		f.Errorf("keys of the lease %q, want %q", got, want)
	}
}
