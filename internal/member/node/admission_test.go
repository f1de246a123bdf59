package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/tenure-lease/tenure/internal/core/replica"
	"github.com/tenure-lease/tenure/internal/host/wal/waltest"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/tenure-lease/tenure/internal/host/peer"
	"github.com/tenure-lease/tenure/internal/machine"
)

// failing sends the failures of each member to a channel of its own.
func failing(failures map[string]chan error) func(*Config) {
	return func(cfg *Config) {
		failed := make(chan error, 1)
		failures[cfg.Name] = failed
		cfg.Fail = func(err error) { failed <- err }
	}
}

// wantForgetful waits until a member ends because it has lost data.
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

// Two of three members acknowledge a write. One of them loses its data. The third, which does not have
// the write, is running when the emptied one starts again.
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

// Two of three new members must not begin without the third. If one of the two were emptied later, the
// third could not know that it had run before.
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

// A directory is replaced by a backup, after it has been started again since the backup.
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
		name string
		of   uint64
		g    greeting
		who  parties
		want judgement
	}{
		{"as it was", 1, greeting{Origin: start(3)}, parties{started: true, founder: true}, familiar},
		{"started again", 1, greeting{Origin: start(4)}, parties{started: true, founder: true}, news},
		{"an older copy", 1, greeting{Origin: start(2)}, parties{started: true, founder: true}, forgetful},
		{"one of two copies", 1, greeting{Origin: origin{5, 3<<32 | 8}}, parties{started: true, founder: true}, forgetful},
		{"an empty directory", 1, greeting{Origin: origin{6, 1 << 32}, First: true}, parties{founder: true}, forgetful},
		{"another directory", 1, greeting{Origin: origin{6, 9 << 32}}, parties{started: true, founder: true}, forgetful},
		{"a new founder, to a new founder", 2, greeting{Origin: start(1), First: true}, parties{founder: true}, news},
		{"a new founder, to a member", 2, greeting{Origin: start(1), First: true}, parties{started: true, founder: true}, forgetful},
		{"a new founder, to one that joined", 2, greeting{Origin: start(1), First: true}, parties{started: true, joined: true, founder: true}, unlikely},
		{"a new founder, to one that joins", 2, greeting{Origin: start(1), First: true}, parties{joined: true, founder: true}, unlikely},
		{"a founder, to one that joined", 2, greeting{Origin: start(2)}, parties{started: true, joined: true, founder: true}, news},
		{"a newcomer, to a member", 2, greeting{Origin: start(1), First: true}, parties{started: true}, news},
		{"a newcomer that has told its name", 2, greeting{Origin: start(2)}, parties{started: true, named: true}, news},
		{"another directory of a newcomer that has told its name", 2, greeting{Origin: start(1), First: true}, parties{started: true, named: true}, unlikely},
		{"a member in its first directory, which is remembered", 1, greeting{Origin: start(3), First: true}, parties{started: true, named: true}, familiar},
		{"an old member, of before greetings", 2, greeting{Origin: start(9)}, parties{started: true, founder: true}, news},
	} {
		if got := m.judge(tt.of, tt.g, tt.who); got != tt.want {
			t.Errorf("%s: judged %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestWitnesses(t *testing.T) {
	for _, tt := range []struct {
		id   identity
		want string
	}{
		{identity{Member: 1, Voters: []uint64{1}}, "[]"},
		{identity{Member: 1, Voters: []uint64{1, 2, 3}}, "[2 3]"},
		{identity{Member: 2, Voters: []uint64{1, 2, 3, 4, 5}}, "[1 3 4 5]"},
		{identity{Member: 9, Voters: []uint64{1}, Joined: true, Witnesses: []uint64{1, 2}}, "[1 2]"},
		{identity{Member: 9, Voters: []uint64{1}, Joined: true}, "[]"},
	} {
		if got := fmt.Sprint(tt.id.witnesses()); got != tt.want {
			t.Errorf("%+v: the witnesses are %s, want %s", tt.id, got, tt.want)
		}
	}
}

// A founder that lost its data must not come back as a newcomer either.
func TestAFounderCannotJoin(t *testing.T) {
	c := newCluster(t, 2, nimble)
	c.put(0, "k", "v")
	c.kill(1)
	l := listenAgain(t, c.cfgs[1].Peers["m1"][len("http://"):])
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

// The first message on a connection is a greeting, even if the member has requests for votes (F6). An
// older copy of its directory must not be heard before it is judged.
func TestAGreetingComesBeforeVotes(t *testing.T) {
	c := newCluster(t, 2, nimble)
	c.put(0, "k", "v")
	id, addr := machine.NodeID(c.nodes[1].ID()), c.cfgs[1].Peers["m1"][len("http://"):]
	c.kill(1)
	ln := listenAgain(t, addr)
	first := make(chan byte, 1)
	other, err := peer.New(peer.Config{
		Self: id, ClusterID: c.nodes[0].cluster, Listener: ln, Logger: slog.New(slog.DiscardHandler),
		Peers: map[machine.NodeID]string{machine.NodeID(c.nodes[0].ID()): c.cfgs[0].Peers["m0"][len("http://"):]},
		Deliver: func(_ machine.NodeID, msgs [][]byte) {
			select {
			case first <- msgs[0][0]:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	select {
	case kind := <-first:
		if kind != wireGreeting {
			t.Errorf("a message of kind %d comes before the greeting", kind)
		}
	case <-time.After(20 * time.Second):
		t.Error("nothing is said on a connection")
	}
}

// While a member waits to be admitted, its log says every ten election timeouts which members it waits
// for, and what to do.
func TestAWaitForAdmissionIsToldNowAndThen(t *testing.T) {
	for _, joins := range []bool{false, true} {
		var log strings.Builder
		n := &Node{id: 1, logger: slog.New(slog.NewTextHandler(&log, nil)), cfg: Config{Name: "a", ElectionTimeout: time.Second, Peers: map[string]string{"a": "http://a:1"}}}
		n.ahead.Store(&[]*state{{roster: replica.Roster{Members: []*pb.Member{{ID: 0xabc}, {ID: 0xdef}, {ID: 1}}}}})
		a := &n.admission
		began := time.Unix(1000, 0)
		a.warned, a.joins = began, joins
		a.confirmed = map[uint64][]uint64{0xdef: {}}
		if a.need = []uint64{0xabc, 0xdef}; joins {
			a.need, a.voted = nil, a.need
		}
		var at []int
		for s := range 32 {
			log.Reset()
			a.look(n, began.Add(time.Duration(s)*time.Second))
			if log.Len() == 0 {
				continue
			}
			at = append(at, s)
			wants := []string{"level=WARN", "missing=abc", "tenure member remove 1", "--peer-urls=http://a:1"}
			if joins {
				wants = []string{"level=WARN", `"confirmed by"=def`, `asked="abc def"`, "a majority of the voters", "tenure member remove 1"}
			}
			for _, want := range wants {
				if !strings.Contains(log.String(), want) {
					t.Errorf("joins: %v: the log says %s, want %s", joins, log.String(), want)
				}
			}
		}
		if want := []int{11, 22}; !slices.Equal(at, want) {
			t.Errorf("joins: %v: it is told after %v election timeouts, want %v", joins, at, want)
		}
		a.open.Store(true)
		log.Reset()
		if a.look(n, began.Add(time.Hour)); log.Len() > 0 {
			t.Errorf("joins: %v: one that takes part waits: %s", joins, log.String())
		}
	}
}

// A member that cannot record its meetings with others, or its admission, ends. It acts on neither.
func TestAMemberThatCannotRememberEnds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before int // greetings before the disk breaks; one more is heard
	}{{"whom it has met", 0}, {"that it is admitted", 3}} {
		t.Run(tt.name, func(t *testing.T) {
			var broken atomic.Bool
			disk := waltest.NewDisk().FS()
			disk.Fault = func(_, path string) error {
				if broken.Load() && strings.Contains(path, directoriesFile) {
					return errDisk
				}
				return nil
			}
			failed := make(chan error, 1)
			n := lonely(t, func(cfg *Config) {
				cfg.DataDir, cfg.WAL.FS = "/data", disk
				cfg.Fail = func(err error) { failed <- err }
			})
			b, c := uint64(memberID("http://127.0.0.1:1", "", "")), uint64(memberID("http://127.0.0.1:2", "", ""))
			for i, from := range []uint64{b, c, b, c}[:tt.before+1] {
				broken.Store(i >= tt.before)
				g := greeting{Origin: origin{from, 1 << 32}, First: true}
				if i > 1 {
					g.Yours = n.admission.me
				}
				p, err := json.Marshal(g)
				if err != nil {
					t.Fatal(err)
				}
				n.deliver(machine.NodeID(from), [][]byte{append([]byte{wireGreeting}, p...)})
			}
			select {
			case err := <-failed:
				if !errors.Is(err, errDisk) {
					t.Errorf("it ends with %v, want %v", err, errDisk)
				}
			case <-time.After(20 * time.Second):
				t.Error("it goes on")
			}
			if n.admission.open.Load() {
				t.Error("it takes part")
			}
			if tt.before == 0 && len(n.directories.get().Known) > 0 {
				t.Errorf("it remembers %v", n.directories.get().Known)
			}
		})
	}
}

// A member ends if another one's memory of it exceeds its own. The error says why.
func TestWhatOthersRemember(t *testing.T) {
	n := lonely(t, func(*Config) {})
	n.admission.mu.Lock()
	me := origin{Directory: 0xd1, Boot: 5<<32 | 7}
	n.admission.me = me
	n.admission.mu.Unlock()
	for _, tt := range []struct {
		name string
		g    greeting
		want string
	}{
		{"nothing", greeting{}, ""},
		{"this start", greeting{Yours: me}, ""},
		{"an earlier start", greeting{Yours: origin{0xd1, 4 << 32}}, ""},
		{"another directory", greeting{Yours: origin{0xd2, 1 << 32}}, "has run before, from another data directory (d2) than this one (d1), as member b remembers"},
		{"no directory, and refuses it", greeting{Refused: true}, "has run before: by member b its cluster began long ago"},
		{"a later start", greeting{Yours: origin{0xd1, 6 << 32}}, "it was started 5 times, and member b has heard of start 6"},
		{"another start of the same number", greeting{Yours: origin{0xd1, 5<<32 | 8}}, "it was started 5 times, and member b has heard of start 5"},
	} {
		err := n.judged(0xb, tt.g)
		if tt.want == "" && err != nil || tt.want != "" && (!errors.Is(err, errForgetful) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "tenure member remove")) {
			t.Errorf("another member remembers %s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if d := n.directories.get().Doubt; d == nil || d.Boot != me.Boot || !slices.Equal(d.By, []uint64{0xb}) {
		t.Errorf("the doubt of one member is noted as %+v", d)
	}
}
