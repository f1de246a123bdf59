package flease_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/engine/flease"
	"github.com/tenure-lease/tenure/machine"
)

// TestBadFiles: what a list of members must be.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "members")
	for text, want := range map[string]string{
		"":                             `no line "epoch N"`,
		"epoch 0\n1 a:1":               `"0" is no epoch`,
		"epoch 1":                      "there are no members",
		"epoch 1\n1 a:1 b:1":           "line 2: want",
		"epoch 1\none a:1":             `"one" is no index`,
		"epoch 1\n1 a:1\n1 b:1":        "two peers with index 1, a:1 and b:1",
		"epoch 1\n1 a:1\n2 a:1":        "a:1 is listed twice",
		"epoch 1\n1 a:http":            `"http" is not a port`,
		"epoch 1\n1024 a:1":            "give it one from 1 to 1023",
		"# a comment\n\nepoch 1\n1 :1": "as others reach it",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := engine.FromFile(file)(t.Context(), engine.Members{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestMembersChange: a file gives the cluster a fourth and a fifth peer and takes the first
// two away. The only cell changes, so the lease that is held runs out, and the new
// cell, of which a majority has never heard of it, gives it to nobody before.
func TestMembersChange(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "members")
	cfg := brief
	var addrs []string
	write := func(epoch int, indices ...int) {
		t.Helper()
		text := fmt.Sprintf("epoch %d\n", epoch)
		for _, i := range indices {
			text += fmt.Sprintf("%d %s\n", i, addrs[i-1])
		}
		if epoch == 2 {
			for i := range 3 {
				text += fmt.Sprintf("was %d %s\n", i+1, addrs[i])
			}
		}
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	c := newCluster(t, 5, cfg) // only for their addresses: they are free a moment later
	for i := range c.peers {
		addrs = append(addrs, c.addr(i))
		if err := c.peers[i].Close(); err != nil {
			t.Fatal(err)
		}
	}
	c.cfg.Membership = engine.FromFile(file)
	write(1, 1, 2, 3)
	for i := range 3 {
		c.start(i, listen(t, addrs[i]))
	}
	all := c.peers
	c.peers = all[:3]
	c.ready()
	l := c.peers[2].Leaser()
	defer l.Close()
	held, err := l.Acquire(t.Context(), tenure.Claim{Name: "held", TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	write(2, 3, 4, 5)
	c.peers = all
	for i := 3; i < 5; i++ {
		c.start(i, listen(t, addrs[i]))
	}
	for _, gone := range []int{0, 1} {
		select {
		case <-c.peers[gone].Done():
		case <-time.After(30 * time.Second):
			t.Fatalf("peer %d is no member any more and goes on: %+v", gone+1, c.peers[gone].Status())
		}
		if err := c.peers[gone].Err(); !strings.Contains(err.Error(), "no member any more since epoch 2") {
			t.Errorf("peer %d ends with %v", gone+1, err)
		}
	}
	for end := time.Now().Add(20 * time.Second); c.peers[3].Status().Active != 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the newcomer: %+v", c.peers[3].Status())
		}
	}
	newcomer := c.peers[3].Leaser()
	defer newcomer.Close()
	next, err := newcomer.Acquire(t.Context(), tenure.Claim{Name: "held", TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := held.Check(); !errors.Is(err, tenure.ErrLost) {
		t.Errorf("the next holds, and Check of the one before the change returns %v", err)
	}
	if next.Token() <= held.Token() {
		t.Errorf("token %d after %d", next.Token(), held.Token())
	}
}

// TestLateList: a newcomer whose list says nothing of the epoch before does not start
// while others are in that.
func TestLateList(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, brief)
	c.ready()
	l := listen(t, "127.0.0.1:0")
	defer l.Close()
	cfg := c.config(0, l)
	m := engine.Members{Epoch: 2, Addrs: map[machine.NodeID]string{3: c.addr(2), 4: l.Addr().String()}}
	cfg.Self, cfg.Membership = l.Addr().String(), engine.Fixed(m)
	if p, err := engine.Start(t.Context(), cfg); !errors.Is(err, engine.ErrConfig) || !strings.Contains(err.Error(), "is in epoch 1, and the list of this one is of epoch 2") {
		if err == nil {
			p.Close()
		}
		t.Errorf("it starts: %v", err)
	}
}
