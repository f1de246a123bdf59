package node

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/lab/bubble"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/protocol/quorumlease"
	"go.etcd.io/raft/v3/raftpb"
)

// alone is a member's configuration without connections, in simulated time.
func alone(cfg Config, force bool) Config {
	origin := time.Now()
	cfg.Peers = map[string]string{cfg.Name: cfg.Peers[cfg.Name]}
	cfg.ForceNewCluster, cfg.PeerListener = force, nil
	cfg.Now = func() machine.Now {
		return machine.Now{Mono: machine.Mono(time.Hour + time.Since(origin)), Wall: machine.Wall(time.Now().UnixNano())}
	}
	return cfg
}

func propose(t testing.TB, n *Node, key string) *pb.ResponseHeader {
	t.Helper()
	resp, err := n.Propose(t.Context(), &pb.PutRequest{Key: []byte(key), Value: []byte("v"), Lease: 7})
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*pb.PutResponse).Header
}

// lost runs a cluster of three with a lease of 60 s and keys, stops it, and returns the last header that a client has seen,
// and the configuration of the member that is left.
func lost(t *testing.T, adjust func(*Config)) (Config, *pb.ResponseHeader, uint64) {
	t.Helper()
	c := newCluster(t, 3, nimble, adjust)
	if err := c.nodes[0].Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.nodes[0].Propose(t.Context(), &pb.LeaseGrantRequest{ID: 7, TTL: 60}); err != nil {
		t.Fatal(err)
	}
	var seen *pb.ResponseHeader
	for i := range 20 {
		seen = propose(t, c.nodes[0], fmt.Sprint("k", i))
	}
	if err := c.nodes[2].Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	former := c.nodes[2].ClusterID()
	seen.MemberId, seen.RaftTerm = c.nodes[2].ID(), c.nodes[2].applied().term
	for i := range c.nodes {
		c.kill(i)
	}
	return c.cfgs[2], seen, former
}

// A member that is left goes on alone, as another cluster, with all keys and leases, at a revision, an index and a term beyond
// those that clients know. It does not before every read lease of the others has run out. Started so again it goes on as it is.
func TestANewClusterByForce(t *testing.T) {
	for _, place := range []string{"inside", "elsewhere"} {
		t.Run(place, func(t *testing.T) {
			logs := ""
			if place == "elsewhere" {
				logs = t.TempDir()
			}
			cfg, seen, former := lost(t, func(cfg *Config) {
				if cfg.Name == "m2" {
					cfg.WAL.LogDir = logs
				}
			})
			bubble.Test(t, func(t *testing.T) {
				cfg := alone(cfg, true)
				began := time.Now()
				n, err := Start(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(began); waited < quorumlease.Bound(quorumlease.MaxTTL) {
					t.Errorf("the new cluster was there after %v: a member that was cut off may read by a read lease for %v", waited, quorumlease.Bound(quorumlease.MaxTTL))
				}
				if err := n.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				goesOn(t, n, seen, former)
				first := n.ClusterID()
				after := propose(t, n, "second")
				n.Stop()

				began = time.Now()
				if n, err = Start(cfg); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(began); waited > time.Second {
					t.Errorf("a second start by force waits for %v, as if it began anew", waited)
				}
				if err := n.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n.ClusterID() != first || n.View().Revision() != after.Revision {
					t.Errorf("started by force a second time the cluster is %x at revision %d, was %x at %d", n.ClusterID(), n.View().Revision(), first, after.Revision)
				}
				n.Stop()
			})
			if left, _ := filepath.Glob(filepath.Join(cfg.DataDir, "former-1", "snap")); len(left) != 1 {
				t.Error("the former data is not kept in former-1")
			}
			if left, _ := filepath.Glob(filepath.Join(cfg.DataDir, "anew.*")); len(left) > 0 {
				t.Errorf("left over are %v", left)
			}
		})
	}
}

// goesOn judges a cluster that began anew.
func goesOn(t *testing.T, n *Node, seen *pb.ResponseHeader, former uint64) {
	t.Helper()
	if n.ClusterID() == former || n.ID() == seen.MemberId {
		t.Errorf("the new cluster is %x and its member %x: members of the former one, %x, could take part", n.ClusterID(), n.ID(), former)
	}
	ro := n.applied().roster
	if len(ro.Members) != 1 || !slices.Equal(ro.ConfState().GetVoters(), []uint64{n.ID()}) {
		t.Errorf("the members are %v, want this one alone", ro.Members)
	}
	all, err := n.View().Range(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}})
	if err != nil || len(all.Kvs) != 20 {
		t.Errorf("%d keys are there, %v; want 20", len(all.GetKvs()), err)
	}
	if left, granted, err := n.TimeToLive(t.Context(), 7); err != nil || granted != 60 || left < 55 {
		t.Errorf("the lease has %d of %d s left, %v; want its whole TTL of 60 s", left, granted, err)
	}
	h := propose(t, n, "first")
	if h.Revision < seen.Revision+1_000_000 {
		t.Errorf("the first write is revision %d, and clients may have seen %d and more", h.Revision, seen.Revision)
	}
	if term := n.applied().term; term <= seen.RaftTerm {
		t.Errorf("the first write is of term %d, clients have seen %d", term, seen.RaftTerm)
	}
}

// Entries that are not known to be committed are not lost: the member may have acknowledged them.
func TestTheEndOfTheLogCounts(t *testing.T) {
	cfg, seen, _ := lost(t, func(*Config) {})
	s, log, err := openStorage(cfg.DataDir, identity{}, cfg.WAL, cfg.Logger)
	if err != nil {
		t.Fatal(err)
	}
	early := log.Snapshot.GetIndex()
	if err := s.persist([]any{replica.Record{HardState: &raftpb.HardState{Term: log.HardState.Term, Commit: &early}}}, true); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	bubble.Test(t, func(t *testing.T) {
		n, err := Start(alone(cfg, true))
		if err != nil {
			t.Fatal(err)
		}
		defer n.Stop()
		if err := n.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if rev := n.View().Revision(); rev != seen.Revision+anewRevisions {
			t.Errorf("the revision is %d, want that of the last entry of the log, %d, raised", rev, seen.Revision)
		}
	})
}

// An empty directory begins no cluster by force, and that of a member that was removed does not either.
func TestNoNewClusterByForce(t *testing.T) {
	cfg := Config{Name: "a", DataDir: t.TempDir(), Peers: map[string]string{"a": "http://127.0.0.1:1"}, ForceNewCluster: true}
	if _, err := Start(cfg); err == nil || !strings.Contains(err.Error(), "has no data of a member") {
		t.Errorf("from an empty directory: %v, want that it has no data", err)
	}
	if err := cfg.setDefaults(); err != nil {
		t.Fatal(err)
	}
	if err := noteRemoval(cfg.DataDir, cfg.WAL.FS, "removed"); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(cfg); err == nil || !strings.Contains(err.Error(), "permanently removed") {
		t.Errorf("from the directory of a member that was removed: %v, want that it was", err)
	}
}
