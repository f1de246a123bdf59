package node

import (
	"os"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestCommitIndexOutlivesTheProcess: a commit index alone is never worth an fsync, but it is written
// soon. So a process that is killed and started again shows no older state than before, even while it
// finds no majority.
func TestCommitIndexOutlivesTheProcess(t *testing.T) {
	cfg := single(t, t.TempDir())
	n, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Stop()
	if _, err := n.Propose(t.Context(), &pb.PutRequest{Key: []byte("k")}); err != nil {
		t.Fatal(err)
	}
	var got, want uint64
	for deadline := time.Now().Add(5 * time.Second); got == 0 || got != want; {
		if time.Now().After(deadline) {
			t.Fatalf("a process killed now would remember that %d was committed, want %d", got, want)
		}
		st, _ := n.Status()
		want, got = st.Commit, committedOnDisk(t, cfg, n)
	}
}

// committedOnDisk is the commit index that a process would find if this one were killed: everything
// that the kernel was given counts.
func committedOnDisk(t *testing.T, cfg Config, n *Node) uint64 {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(cfg.DataDir)); err != nil {
		t.Fatal(err)
	}
	s, log, err := openStorage(dir, identity{Cluster: n.cluster, Member: uint64(n.id)}, cfg.WAL, n.logger)
	if err != nil {
		t.Fatal(err)
	}
	s.log.Close()
	return log.HardState.GetCommit()
}
