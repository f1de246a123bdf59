package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/tenure-lease/tenure/internal/host/wal"
	"github.com/tenure-lease/tenure/internal/machine"
)

// A newcomer's directory is known as soon as it has asked, whether the cluster knows its name or not.
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

func TestWhoHasToConfirm(t *testing.T) {
	type says map[uint64][]uint64
	for _, tt := range []struct {
		name      string
		joins     bool
		need      []uint64
		confirmed says
		want      bool
	}{
		{"a founder, by nobody", false, []uint64{2, 3}, nil, false},
		{"a founder, by one of the others", false, []uint64{2, 3}, says{2: {2, 3}}, false},
		{"a founder, by all others", false, []uint64{2, 3}, says{2: {2, 3}, 3: {2, 3}}, true},
		{"the only founder", false, nil, nil, true},
		{"a newcomer, by nobody", true, []uint64{1, 2, 3}, nil, false},
		{"a newcomer, by the only voter", true, []uint64{1}, says{1: {1}}, true},
		{"a newcomer, by one of two", true, []uint64{1, 2}, says{1: {1, 2}}, false},
		{"a newcomer, by two of three", true, []uint64{1, 2, 3}, says{1: {1, 2, 3}, 3: {1, 2, 3}}, true},
		{"a newcomer, by half", true, []uint64{1, 2, 3, 4}, says{1: {1, 2, 3, 4}, 3: {1, 2, 3, 4}}, false},
		{"a newcomer, by those who vote now", true, []uint64{1, 2, 3}, says{3: {3, 4, 5}, 4: {3, 4, 5}}, true},
		{"a newcomer, by two of whom one knows of a change that the other does not", true, []uint64{1, 2, 3}, says{1: {1, 2, 3}, 3: {1, 3, 4}}, false},
		{"a newcomer, by some that do not vote", true, []uint64{1, 2, 3}, says{3: {3, 4, 5}, 8: {3, 4, 5}, 9: {3, 4, 5}}, false},
		{"a newcomer, by one that knows no voters", true, []uint64{1, 2, 3}, says{3: {}}, false},
	} {
		a := &admission{joins: tt.joins, confirmed: tt.confirmed}
		if tt.joins {
			a.voted = tt.need
		} else {
			a.need = tt.need
		}
		if got := a.enough(); got != tt.want {
			t.Errorf("%s: confirmed %v, want %v", tt.name, got, tt.want)
		}
	}
}

// stranded adds a newcomer that has asked to join and has been silent since, while all but one of the
// voters of that time were replaced. It is not started.
func (c *cluster) stranded() (i int) {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	m := c.add(2, url, true)
	asked := c.nodes[2].storage.identity
	id := identity{Cluster: asked.Cluster, Member: m.ID, Voters: asked.Voters, Founders: asked.Founders, Joined: true, Witnesses: asked.Voters}
	cfg := Config{
		Name: "late", DataDir: c.t.TempDir(), PeerListener: l, Existing: true, Logger: slog.New(slog.DiscardHandler),
		Peers: map[string]string{"late": url, "m2": c.cfgs[2].Peers["m2"]},
		Fail:  func(err error) { c.t.Errorf("the newcomer failed: %v", err) },
	}
	nimble(&cfg)
	s, _, err := openStorage(cfg.DataDir, id, wal.Options{}, cfg.Logger)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := s.log.Close(); err != nil {
		c.t.Fatal(err)
	}
	for old := range 2 {
		i, _ := c.newcomer(2, fmt.Sprintf("n%d", old), "127.0.0.1:0", false)
		c.get(i, "k")
		c.eventually("a removal", func() bool {
			_, err := c.nodes[i].RemoveMember(c.ctx(), c.nodes[old].ID())
			return err == nil || errors.Is(err, rpctypes.ErrGRPCMemberNotFound)
		})
		c.kill(old)
	}
	c.get(2, "k") // so that it knows who votes now
	c.cfgs, c.nodes = append(c.cfgs, cfg), append(c.nodes, nil)
	return len(c.nodes) - 1
}

// A newcomer whose witnesses are replaced while it joins is admitted by the present voters.
func TestANewcomerOutlivesItsWitnesses(t *testing.T) {
	c := newCluster(t, 3, nimble, func(cfg *Config) { cfg.Fail = func(error) {} })
	c.put(2, "k", "v")
	i := c.stranded()
	c.start(i)
	c.eventually("those who vote now admit a newcomer whose witnesses are gone", c.nodes[i].admission.open.Load)
	if got := c.get(i, "k"); got != "v" {
		t.Errorf("the newcomer reads %q", got)
	}
}

// A member whose name is in the log has taken part before, so a new directory of it is not confirmed.
func TestANewDirectoryOfOneThatToldItsNameIsNotConfirmed(t *testing.T) {
	c := newCluster(t, 1, nimble)
	n := c.nodes[0]
	m, _, err := n.AddMember(c.ctx(), []string{"http://127.0.0.1:1"}, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Propose(c.ctx(), &pb.Member{ID: m.ID, Name: "late"}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		g    greeting
		want uint64
	}{
		{greeting{Origin: origin{7, 1 << 32}, First: true}, 0},
		{greeting{Origin: origin{8, 2 << 32}}, 8},
	} {
		p, err := json.Marshal(tt.g)
		if err != nil {
			t.Fatal(err)
		}
		n.deliver(machine.NodeID(m.ID), [][]byte{append([]byte{wireGreeting}, p...)})
		if got := n.directories.get().Known[m.ID].Directory; got != tt.want {
			t.Errorf("greeted with %+v: it remembers directory %d of a member that has told its name, want %d", tt.g, got, tt.want)
		}
	}
}

// A founder waits for another founder since the first day. A member that joined meanwhile meets it,
// and does not judge that it has lost data. Nor does that member remember an unused directory: the
// founder may have been started from the wrong one by mistake.
func TestOnlyFoundersJudgeNewFounders(t *testing.T) {
	c := newCluster(t, 3, nimble)
	c.put(0, "k", "v")
	id := c.nodes[2].ID()
	c.kill(2)
	i, _ := c.newcomer(0, "late", "127.0.0.1:0", true)
	c.get(i, "k")
	for _, tt := range []struct {
		first bool
		want  uint64 // the directory that is remembered
	}{{true, 0}, {false, 7}} {
		n := c.nodes[i]
		p, err := json.Marshal(greeting{Origin: origin{7, 1 << 32}, First: tt.first})
		if err != nil {
			t.Fatal(err)
		}
		n.deliver(machine.NodeID(id), [][]byte{append([]byte{wireGreeting}, p...)})
		if _, refused := n.admission.refused.Load(machine.NodeID(id)); refused {
			t.Errorf("one that joined refuses a founder that it has not met, whose directory is new: %v", tt.first)
		}
		if got := n.directories.get().Known[id].Directory; got != tt.want {
			t.Errorf("one that joined remembers a founder's directory as %d, want %d; that was new: %v", got, tt.want, tt.first)
		}
	}
}

// The confirmation of a member that is not admitted itself does not count. It may have forgotten that
// it confirmed another directory.
func TestOnlyAdmittedMembersConfirmANewcomer(t *testing.T) {
	c := newCluster(t, 3, nimble, func(cfg *Config) { cfg.Fail = func(error) {} })
	c.put(2, "k", "v")
	i := c.stranded()
	c.nodes[2].Stop() // of those who vote now nobody says anything
	for j := 3; j < i; j++ {
		c.kill(j)
	}
	voters := c.nodes[2].State().roster.ConfState().GetVoters()
	c.nodes[2] = nil
	c.start(i)
	n := c.nodes[i]
	hear := func(first bool) {
		for _, id := range voters {
			p, err := json.Marshal(greeting{Origin: origin{id, 1 << 32}, First: first, Yours: n.admission.me, Voters: voters})
			if err != nil {
				t.Fatal(err)
			}
			n.deliver(machine.NodeID(id), [][]byte{append([]byte{wireGreeting}, p...)})
		}
	}
	if hear(true); n.admission.open.Load() {
		t.Error("a newcomer is admitted by members that are not admitted themselves")
	}
	if hear(false); !n.admission.open.Load() {
		t.Error("a newcomer is not admitted by all who vote")
	}
}
