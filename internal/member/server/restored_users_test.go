package server

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/crypto/bcrypt"

	"github.com/tenure-lease/tenure/internal/member/backup"
	"github.com/tenure-lease/tenure/internal/member/login"
	"github.com/tenure-lease/tenure/internal/member/node"
)

// A cluster that begins with a snapshot has its users, in force.
func TestARestoredClusterHasItsUsers(t *testing.T) {
	cheap := func(c *Config) { c.Logins = login.Config{Cost: bcrypt.MinCost} }
	_, endpoints := startWith(t, 1, cheap)
	enableUsers(t, dial(t, endpoints[0]))
	root, err := dialAs(t, "root", "root", endpoints[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.Put(t.Context(), "a", "1"); err != nil {
		t.Fatal(err)
	}
	snapshot, err := root.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "snapshot.db")
	if err := os.WriteFile(path, data[:len(data)/512*512], 0o600); err != nil { // without the sum
		t.Fatal(err)
	}
	c, err := backup.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	state, err := c.Store()
	if err != nil {
		t.Fatal(err)
	}
	_, endpoints = startWith(t, 1, func(cfg *Config) {
		cheap(cfg)
		cfg.Node.DataDir = filepath.Join(t.TempDir(), "data")
		r := node.Restoration{
			DataDir: cfg.Node.DataDir, Name: cfg.Node.Name, Peers: cfg.Node.Peers, State: state, Users: c.Users(),
			Digest: "d", Logger: slog.New(slog.DiscardHandler),
		}
		if _, err := node.Restore(r); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := dial(t, endpoints[0]).Get(t.Context(), "a"); !errors.Is(err, rpctypes.ErrUserEmpty) {
		t.Errorf("nobody reads what was restored: %v", err)
	}
	ann, err := dialAs(t, "ann", "ann", endpoints[0])
	if err != nil {
		t.Fatal(err)
	}
	if r, err := ann.Get(t.Context(), "a"); err != nil || len(r.Kvs) != 1 {
		t.Errorf("ann reads what was restored: %v, %v", r, err)
	}
}
