package broadcast_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

// A Config that makes no sense is refused with the field's name before there is a directory,
// and the listener that Start was given does not stay open.
func TestConfigsThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*broadcast.Config){
		"Timeout is -1ns":    func(c *broadcast.Config) { c.Timeout = -1 },
		"Timeout is 25h":     func(c *broadcast.Config) { c.Timeout = 25 * time.Hour },
		"PendingBytes is -1": func(c *broadcast.Config) { c.PendingBytes = -1 },
		"MemoryBytes is -1":  func(c *broadcast.Config) { c.MemoryBytes = -1 },
		"Clients is -1":      func(c *broadcast.Config) { c.Clients = -1 },
		"is not one of":      func(c *broadcast.Config) { c.ID = 2 },
		"other than 0":       func(c *broadcast.Config) { c.Group = 0 },
		"Dir is missing":     func(c *broadcast.Config) { c.Dir = "" },
		"peer":               func(c *broadcast.Config) { c.Members[2] = "nowhere" }, // found by the transport, in the end
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "member")
		cfg := broadcast.Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: ln.Addr().String()}, Listener: ln, Dir: dir}
		change(&cfg)
		if n, err := broadcast.Start(cfg); err == nil {
			t.Errorf("%s: started", want)
			n.Close()
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
		if _, err := os.Stat(dir); want != "peer" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the directory is there, %v", want, err)
		}
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the listener gives %v, want it closed", want, err)
		}
	}
}

// A member that nobody could reach does not start, if there are others or are to be some.
func TestListenerIsMissing(t *testing.T) {
	for _, cfg := range []broadcast.Config{
		{ID: 1, Members: map[machine.NodeID]string{1: "127.0.0.1:1", 2: "127.0.0.1:2"}},
		{ID: 2, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Join: true},
	} {
		cfg.Group, cfg.Dir = 7, filepath.Join(t.TempDir(), "member")
		if n, err := broadcast.Start(cfg); err == nil || !strings.Contains(err.Error(), "Listener is missing") {
			t.Errorf("member %d of %v without a Listener: got %v", cfg.ID, cfg.Members, err)
			if err == nil {
				n.Close()
			}
		}
		if _, err := os.Stat(cfg.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("member %d of %v without a Listener has a directory: %v", cfg.ID, cfg.Members, err)
		}
	}
}

// Close waits for a snapshot that is being written, which ends at once.
func TestCloseWaitsForASnapshot(t *testing.T) {
	g := newGroup(t, 1)
	g.broadcast(1, "x")
	node := g.nodes[1]
	delete(g.nodes, 1)
	begun, saved, closed := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		saved <- node.Snapshot(1, func(w io.Writer) error {
			close(begun)
			for {
				if _, err := w.Write(make([]byte, 1000)); err != nil {
					select {
					case <-closed:
						t.Error("Close did not wait")
					case <-time.After(50 * time.Millisecond):
					}
					return err
				}
			}
		})
	}()
	patience.Within(t, begun, "the snapshot is being written")
	go func() {
		defer close(closed)
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := patience.Within(t, saved, "the snapshot has ended"); !errors.Is(err, broadcast.ErrClosed) {
		t.Errorf("the snapshot: got %v, want ErrClosed", err)
	}
	patience.Within(t, closed, "Close returns")
	snapshots, err := os.ReadDir(filepath.Join(g.dirs[1], "snap"))
	if err != nil || len(snapshots) > 0 {
		t.Errorf("half of a snapshot is left: %v, %v", snapshots, err)
	}
}
