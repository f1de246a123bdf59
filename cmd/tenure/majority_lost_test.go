package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// lossy are members on this machine, each a process, of which some are lost.
type lossy struct {
	t       *testing.T
	dir     string
	members map[string]*served
	peers   map[string]string // URL by name
	clients map[string]string
}

// threeMembers starts a cluster of a, b and c.
func threeMembers(t *testing.T) *lossy {
	t.Helper()
	l := &lossy{t: t, dir: t.TempDir(), members: map[string]*served{}, peers: map[string]string{}, clients: map[string]string{}}
	addr := freeAddresses(t, 10)
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		l.peers[name], l.clients[name] = "http://"+addr[2*i], "http://"+addr[2*i+1]
	}
	for _, name := range []string{"a", "b", "c"} {
		l.start(name, l.cluster("a", "b", "c"))
	}
	for _, name := range []string{"a", "b", "c"} {
		l.members[name].await(t, "ready to serve client requests")
	}
	return l
}

func (l *lossy) data(name string) string { return filepath.Join(l.dir, name) }

// cluster is the value of --initial-cluster for some members.
func (l *lossy) cluster(names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, name+"="+l.peers[name])
	}
	return strings.Join(list, ",")
}

// start starts a member over its directory.
func (l *lossy) start(name, cluster string, args ...string) *served {
	l.t.Helper()
	s := &served{url: l.clients[name]}
	s.cmd = exec.Command("tenure", append([]string{
		"serve", "--name", name, "--data-dir", l.data(name), "--initial-cluster", cluster, "--listen-client-urls", s.url,
		"--listen-peer-urls", l.peers[name], "--initial-advertise-peer-urls", l.peers[name],
	}, args...)...)
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	l.members[name] = s
	return s
}

func (l *lossy) kill(name string) {
	l.t.Helper()
	_ = l.members[name].cmd.Process.Kill()
	_ = l.members[name].cmd.Wait()
}

func (l *lossy) client(name string) *clientv3.Client {
	l.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{l.clients[name]}})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { c.Close() })
	return c
}

// join adds a member at another one, and starts it.
func (l *lossy) join(name, at string, cluster string) {
	l.t.Helper()
	if _, err := l.client(at).MemberAdd(l.t.Context(), []string{l.peers[name]}); err != nil {
		l.t.Fatalf("member %s is not added: %v", name, err)
	}
	l.start(name, cluster, "--initial-cluster-state", "existing").await(l.t, "ready to serve client requests")
}

// written puts a key under a lease, and returns the lease and the revision.
func (l *lossy) written() (clientv3.LeaseID, int64) {
	l.t.Helper()
	c := l.client("a")
	granted, err := c.Grant(l.t.Context(), 600)
	if err != nil {
		l.t.Fatal(err)
	}
	put, err := c.Put(l.t.Context(), "k", "v", clientv3.WithLease(granted.ID))
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.client("c").Get(l.t.Context(), "k"); err != nil { // c has it
		l.t.Fatal(err)
	}
	return granted.ID, put.Header.Revision
}

// judge judges what a client finds in a cluster that has begun anew, and returns the cluster's ID and revision.
func (l *lossy) judge(at string, lease clientv3.LeaseID, seen int64, members int) (uint64, int64) {
	l.t.Helper()
	c := l.client(at)
	got, err := c.Get(l.t.Context(), "k")
	if err != nil || len(got.Kvs) != 1 || got.Kvs[0].Lease != int64(lease) {
		l.t.Fatalf("at %s the key is %v, %v; want it with its lease", at, got, err)
	}
	if left, err := c.TimeToLive(l.t.Context(), lease); err != nil || left.TTL < 500 {
		l.t.Errorf("at %s the lease is %+v, %v; want it with most of 600 s left", at, left, err)
	}
	put, err := c.Put(l.t.Context(), "later", "v")
	if err != nil || put.Header.Revision <= seen {
		l.t.Errorf("at %s a write is revision %d, %v; a client has seen %d", at, put.Header.GetRevision(), err, seen)
	}
	list, err := c.MemberList(l.t.Context())
	if err != nil || len(list.Members) != members {
		l.t.Errorf("at %s the members are %v, %v; want %d", at, list, err, members)
	}
	return put.Header.ClusterId, put.Header.Revision
}

// wantAway checks that a member of the former cluster serves nobody: it neither leads nor follows.
func (l *lossy) wantAway(name, another string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Second)
	defer cancel()
	c := l.client(name)
	if got, err := c.Get(ctx, "later"); err == nil {
		l.t.Errorf("a former member answers a read: %v", got)
	}
	if _, err := c.Put(ctx, "k", "of a former member"); err == nil {
		l.t.Error("a former member acknowledges a write")
	}
	if st, err := c.Status(l.t.Context(), l.clients[name]); err == nil && st.Leader != 0 {
		l.t.Errorf("a former member follows %x", st.Leader)
	}
	if got, err := l.client(another).Get(l.t.Context(), "k"); err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "v" {
		l.t.Errorf("with a former member back the key is %v, %v", got, err)
	}
}

// Two members of three are lost for good. The third goes on by --force-new-cluster with all that it has, two others join it, and
// a former member that comes back takes no part. The flag that is left in the third one's unit file does no harm.
func TestForceNewCluster(t *testing.T) {
	l := threeMembers(t)
	lease, seen := l.written()
	for _, name := range []string{"a", "b", "c"} {
		l.kill(name)
	}
	const unit = "--force-new-cluster"
	flags := l.cluster("a", "b", "c")
	l.start("c", flags, unit).await(t, "ready to serve client requests")
	first, rev := l.judge("c", lease, seen, 1)
	l.join("d", "c", l.cluster("c", "d"))
	l.join("e", "c", l.cluster("c", "d", "e"))
	l.start("a", flags).await(t, "cluster ids differ")
	l.wantAway("a", "d")

	l.kill("c")
	l.start("c", flags, unit).await(t, "ready to serve client requests")
	l.members["c"].await(t, "--force-new-cluster has no effect")
	if again, _ := l.judge("c", lease, rev, 3); again != first {
		t.Errorf("the flag has made cluster %x of %x: c left d and e", again, first)
	}
}

// The other way: a snapshot of the member that is left, without a majority, and restores of it.
func TestRestoredAfterTheMajorityIsLost(t *testing.T) {
	l := threeMembers(t)
	lease, seen := l.written()
	l.kill("a")
	l.kill("b")
	file := filepath.Join(l.dir, "left.db")
	if out, err := command(t, "snapshot", "save", file, "--at", "etcd://"+strings.TrimPrefix(l.clients["c"], "http://")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l.kill("c")
	former := l.data("a")
	if err := errors.Join(os.Rename(former, former+".former"), os.RemoveAll(l.data("b")), os.RemoveAll(l.data("c"))); err != nil {
		t.Fatal(err)
	}
	flags := l.cluster("a", "b", "c")
	for _, name := range []string{"b", "c"} {
		if out, err := command(t, "snapshot", "restore", file, "--name", name, "--data-dir", l.data(name),
			"--initial-advertise-peer-urls", l.peers[name], "--initial-cluster", l.cluster("b", "c")); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, name := range []string{"b", "c"} {
		l.start(name, l.cluster("b", "c"))
	}
	for _, name := range []string{"b", "c"} {
		l.members[name].await(t, "ready to serve client requests")
		l.judge(name, lease, seen, 2)
	}
	if err := os.Rename(former+".former", former); err != nil {
		t.Fatal(err)
	}
	l.start("a", flags).await(t, "cluster ids differ")
	l.wantAway("a", "b")
	l.kill("a")
	if err := os.RemoveAll(former); err != nil {
		t.Fatal(err)
	}
	l.join("a", "b", flags)
	l.judge("a", lease, seen, 3)
}
