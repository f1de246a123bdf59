package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/wal"
)

// failing gives each member's failures to a channel of its own.
func failing(failures map[string]chan error) func(*Config) {
	return func(cfg *Config) {
		failed := make(chan error, 1)
		failures[cfg.Name] = failed
		cfg.Fail = func(err error) { failed <- err }
	}
}

// wantForgetful waits until a member ends because of what it has forgotten.
func wantForgetful(t *testing.T, failed chan error, says string) {
	t.Helper()
	select {
	case err := <-failed:
		if !errors.Is(err, errForgetful) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "member remove") {
			t.Errorf("it ends with %v; want %v, saying %q and what to do", err, errForgetful, says)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a member that has forgotten what it did takes part again")
	}
}

// A write is acknowledged by two of three. One of these loses its data, and the third, which
// has not got the write, is there when it starts again.
func TestAnEmptiedFounderDoesNotVoteAgain(t *testing.T) {
	failures := map[string]chan error{}
	c := newCluster(t, 3, nimble, failing(failures))
	lead := c.leader()
	emptied, away := (lead+1)%3, (lead+2)%3
	c.put(lead, "k", "before")
	c.kill(away)
	c.put(lead, "k", "acknowledged")
	c.kill(emptied)
	c.kill(lead)

	data := c.cfgs[emptied].DataDir
	c.cfgs[emptied].DataDir = t.TempDir()
	c.start(away)
	c.start(emptied)
	wantForgetful(t, failures[c.cfgs[emptied].Name], "another data directory")
	if _, term, _ := c.nodes[away].Leader(); c.nodes[away].leadership.Load().leader != 0 {
		t.Errorf("the emptied member's vote has made a leader, of term %d", term)
	}
	c.kill(emptied)
	c.start(emptied) // by a unit file that always restarts it
	wantForgetful(t, failures[c.cfgs[emptied].Name], "another data directory")

	// With the data that it had it is welcome.
	c.kill(emptied)
	c.cfgs[emptied].DataDir = data
	c.start(emptied)
	c.start(lead)
	if got := c.get(away, "k"); got != "acknowledged" {
		t.Errorf("the acknowledged write reads %q", got)
	}
}

// Two of three new members must not begin without the third: if one of them were emptied
// later, the third could not know.
func TestFoundersBeginWhenAllHaveMet(t *testing.T) {
	c := newCluster(t, 3, nimble, func(cfg *Config) {
		if cfg.Name == "m2" { // which is not started yet
			cfg.DataDir = ""
		}
	})
	c.until("the two have met", func() bool {
		return len(c.nodes[0].directories.get().Known) == 1 && len(c.nodes[1].directories.get().Known) == 1
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*c.cfgs[0].ElectionTimeout)
	defer cancel()
	if _, err := c.nodes[0].Propose(ctx, &pb.PutRequest{Key: []byte("k")}); err == nil {
		t.Error("two founders have acknowledged a write before they met the third")
	}
	c.cfgs[2].DataDir = t.TempDir()
	c.start(2)
	c.put(0, "k", "v")

	// Once they have met, two are enough, after a restart as well.
	for i := range 3 {
		c.kill(i)
	}
	c.start(0)
	c.start(1)
	if got := c.get(1, "k"); got != "v" {
		t.Errorf("two of three read %q after a restart", got)
	}
}

func copyDir(t *testing.T, from string) (to string) {
	t.Helper()
	to = t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return to
}

// A backup of the directory is put in its place, which has been started since.
func TestAnOlderCopyOfADirectoryIsRefused(t *testing.T) {
	failures := map[string]chan error{}
	c := newCluster(t, 3, nimble, failing(failures))
	c.put(0, "k", "v")
	c.kill(2)
	backup := copyDir(t, c.cfgs[2].DataDir)
	c.start(2)
	c.put(2, "k", "w")
	directory, boot := c.nodes[2].storage.log.ID(), c.nodes[2].admission.boot
	c.until("the others know of its start", func() bool {
		for _, n := range c.nodes[:2] {
			if n.directories.get().Known[c.nodes[2].ID()] != (origin{directory, boot}) {
				return false
			}
		}
		return true
	})
	c.kill(2)

	data := c.cfgs[2].DataDir
	c.cfgs[2].DataDir = backup
	for range 3 { // its number of starts grows
		c.start(2)
		wantForgetful(t, failures["m2"], "older copy")
		c.kill(2)
	}
	c.cfgs[2].DataDir = data
	c.start(2)
	c.put(2, "k", "x")
}

// One that joined is known by its directory as soon as it has asked, whether the cluster
// knows its name or not.
func TestAnEmptiedNewcomerIsRefused(t *testing.T) {
	c := newCluster(t, 3, nimble)
	i, _ := c.newcomer(0, "m3", "127.0.0.1:0", false)
	c.get(i, "k")
	id := c.nodes[i].storage.identity
	if len(id.Witnesses) != 3 {
		t.Fatalf("it has %d witnesses, want 3", len(id.Witnesses))
	}
	c.kill(i)
	dir := t.TempDir()
	s, _, err := openStorage(dir, id, wal.Options{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.log.Close(); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	c.cfgs[i].DataDir, c.cfgs[i].Fail = dir, func(err error) { failed <- err }
	c.start(i)
	wantForgetful(t, failed, "another data directory")
}

func TestADirectoryWithoutItsLogIsRefused(t *testing.T) {
	c := newCluster(t, 2, nimble)
	c.put(0, "k", "v")
	c.kill(1)
	for _, sub := range []string{"wal", "snap"} {
		if err := os.RemoveAll(filepath.Join(c.cfgs[1].DataDir, sub)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg := c.cfgs[1]
		cfg.PeerListener = l
		if n, err := Start(cfg); !errors.Is(err, errForgetful) {
			t.Errorf("a directory whose log was removed: %v, want %v", err, errForgetful)
			if err == nil {
				n.Stop()
			}
		}
	}
}

func TestJudge(t *testing.T) {
	start := func(n uint64) origin { return origin{Directory: 5, Boot: n<<32 | 7} }
	m := memory{Known: map[uint64]origin{1: start(3)}}
	for _, tt := range []struct {
		name             string
		of               uint64
		g                greeting
		started, founder bool
		want             judgement
	}{
		{"as it was", 1, greeting{Origin: start(3)}, true, true, familiar},
		{"started again", 1, greeting{Origin: start(4)}, true, true, news},
		{"an older copy", 1, greeting{Origin: start(2)}, true, true, forgetful},
		{"one of two copies", 1, greeting{Origin: origin{5, 3<<32 | 8}}, true, true, forgetful},
		{"an empty directory", 1, greeting{Origin: origin{6, 1 << 32}, First: true}, false, true, forgetful},
		{"another directory", 1, greeting{Origin: origin{6, 9 << 32}}, true, true, forgetful},
		{"a new founder, to a new founder", 2, greeting{Origin: start(1), First: true}, false, true, news},
		{"a new founder, to a member", 2, greeting{Origin: start(1), First: true}, true, true, forgetful},
		{"a newcomer, to a member", 2, greeting{Origin: start(1), First: true}, true, false, news},
		{"an old member, of before greetings", 2, greeting{Origin: start(9)}, true, true, news},
	} {
		if got := m.judge(tt.of, tt.g, tt.started, tt.founder); got != tt.want {
			t.Errorf("%s: judged %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestWitnesses(t *testing.T) {
	for _, tt := range []struct {
		id   identity
		list string
		n    int
	}{
		{identity{Member: 1, Voters: []uint64{1}}, "[]", 0},
		{identity{Member: 1, Voters: []uint64{1, 2, 3}}, "[2 3]", 2},
		{identity{Member: 2, Voters: []uint64{1, 2, 3, 4, 5}}, "[1 3 4 5]", 4},
		{identity{Member: 9, Voters: []uint64{1}, Joined: true, Witnesses: []uint64{1}}, "[1]", 1},
		{identity{Member: 9, Voters: []uint64{1}, Joined: true, Witnesses: []uint64{1, 2}}, "[1 2]", 2},
		{identity{Member: 9, Voters: []uint64{1}, Joined: true, Witnesses: []uint64{1, 2, 3}}, "[1 2 3]", 2},
		{identity{Member: 9, Voters: []uint64{1}, Joined: true}, "[]", 0},
	} {
		if list, n := tt.id.witnesses(); fmt.Sprint(list) != tt.list || n != tt.n {
			t.Errorf("%+v: %d of %v have to confirm it, want %d of %s", tt.id, n, list, tt.n, tt.list)
		}
	}
}

// A founder that lost its data must not come in by the door for newcomers either.
func TestAFounderCannotJoin(t *testing.T) {
	c := newCluster(t, 2, nimble)
	c.put(0, "k", "v")
	c.kill(1)
	l, err := net.Listen("tcp", c.cfgs[1].Peers["m1"][len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.cfgs[1]
	cfg.PeerListener, cfg.DataDir, cfg.Existing, cfg.RequestTimeout = l, t.TempDir(), true, 20*time.Second
	n, err := Start(cfg)
	if err == nil {
		n.Stop()
		t.Fatal("a founder without data has joined its own cluster")
	}
	if !strings.Contains(err.Error(), "remove it and add it again") {
		t.Errorf("it is told %v, want what to do", err)
	}
}
