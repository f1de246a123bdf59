package flease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenure-lease/tenure"
	engine "github.com/tenure-lease/tenure/internal/holder/flease"
	"github.com/tenure-lease/tenure/internal/machine"
)

// TestBadFiles: a bad list of members is refused with a reason.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "members")
	for text, want := range map[string]string{
		"":                                     `no line "epoch N"`,
		"epoch 0\n1 a:1":                       `"0" is no epoch`,
		"epoch 1":                              "there are no members",
		"epoch 1\n1 a:1 b:1":                   "line 2: want",
		"epoch 1\none a:1":                     `"one" is no index`,
		"epoch 1\n1 a:1\n1 b:1":                "two peers with index 1, a:1 and b:1",
		"epoch 1\n1 a:1\n2 a:1":                "a:1 is listed twice",
		"epoch 1\n1 a:http":                    `"http" is not a port`,
		"epoch 1\n1024 a:1":                    "give it one from 1 to 1023",
		"# a comment\n\nepoch 1\n1 :1":         "as others reach it",
		"epoch 1\n0 a:1":                       "give it one from 1 to 1023",
		"epoch 1\n1 a:0":                       `"0" is not a port`,
		"epoch 1\n1 a:65536":                   `"65536" is not a port`,
		"epoch 1\n1 a:1\nwas 1 a:1":            "there is no epoch before the first",
		"epoch 2\n1 a:1\nwas 1 a:x":            `of the epoch before: peer 1 is at "a:x"`,
		"epoch 2\n1 a:1\nwas 1 b:1":            "a peer that moves is a new one",
		"epoch 2\n1 a:1\nwas 1":                `"was" is no index`,
		"epoch 2\n1 a:1\nwas 2 b:1\nwas 2 c:1": "two peers with index 2, b:1 and c:1",
		"epoch 1\n1 a:1\n#" + strings.Repeat(" ", 1<<16) + "\n2 b:1": "token too long",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := engine.FromFile(file)(t.Context(), engine.Members{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	if _, err := engine.FromFile(file+"x")(t.Context(), engine.Members{}); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "members: ") {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(file, []byte("1 a:1\n2 b:1\nepoch 7\nwas 3 c:1 # it has left\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := engine.FromFile(file)(t.Context(), engine.Members{})
	if err != nil || m.String() != "epoch 7: 1=a:1 2=b:1" || len(m.Was) != 1 || m.Was[3] != "c:1" {
		t.Errorf("%v, before %v, %v", m, m.Was, err)
	}
	// What is new of a list that is known already is shown at once: another epoch, or other members of the same.
	for name, known := range map[string]engine.Members{
		"another epoch":     {Epoch: 6, Addrs: m.Addrs},
		"another address":   {Epoch: 7, Addrs: map[machine.NodeID]string{1: "a:1", 2: "b:2"}},
		"a member is new":   {Epoch: 7, Addrs: map[machine.NodeID]string{1: "a:1"}},
		"a member has left": {Epoch: 7, Addrs: map[machine.NodeID]string{1: "a:1", 2: "b:1", 3: "c:1"}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := engine.FromFile(file)(ctx, known); err != nil || got.String() != m.String() {
			t.Errorf("%s: known is %v, and the file shows %v, %v; want %v", name, known, got, err, m)
		}
	}
	why := errors.New("the peer has ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if got, err := engine.FromFile(file)(ctx, m); !errors.Is(err, why) || got.String() != m.String() {
		t.Errorf("nothing is new when the peer ends: %v, %v; want %v and %v", got, err, m, why)
	}
}

// TestMembersChange: a file gives the cluster a fourth and a fifth peer and takes the first two away.
// The only cell changes, so the lease that is held runs out. A majority of the new cell has never
// heard of the lease, and does not give it to another claim before.
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

// TestNobodySpeaksToTheGone: when a view is active, its members have no streams to peers that are not
// in it, and try to have none.
func TestNobodySpeaksToTheGone(t *testing.T) {
	var due atomic.Bool
	cfg := brief
	cfg.Membership = func(ctx context.Context, known engine.Members) (engine.Members, error) {
		m := engine.Members{Epoch: 1, Addrs: map[machine.NodeID]string{1: "h1:7000", 2: "h2:7000", 3: "h3:7000"}}
		for known.Epoch == 1 && !due.Load() {
			select {
			case <-ctx.Done():
				return known, context.Cause(ctx)
			case <-time.After(time.Second):
			}
		}
		if due.Load() {
			m.Epoch = 2
			delete(m.Addrs, 3)
		}
		if known.Epoch == m.Epoch {
			return engine.Fixed(m)(ctx, known)
		}
		return m, nil
	}
	inLab(t, 3, cfg, func(l *lab) {
		for _, p := range l.peers[:2] {
			if !p.Speaks(3) {
				t.Error("members of one view do not speak to each other")
			}
		}
		due.Store(true)
		select {
		case <-l.peers[2].Done():
		case <-time.After(time.Minute):
			t.Fatalf("it is no member any more, and goes on: %+v", l.peers[2].Status())
		}
		time.Sleep(time.Minute)
		for _, p := range l.peers[:2] {
			if s := p.Status(); s.Active != 2 {
				t.Errorf("the view is not active: %+v", s)
			}
			if p.Speaks(3) {
				t.Errorf("peer %d still has, or tries to have, a stream to one that is no member any more", p.id)
			}
			if !p.Speaks(3 - p.id) {
				t.Errorf("peer %d has no stream to the other member", p.id)
			}
		}
	})
}

// TestLateList: a newcomer whose list does not name the members before does not start while others
// are in the epoch before.
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

// membersFile is a list of members that changes.
type membersFile struct {
	t    *testing.T
	path string
}

func newMembersFile(t *testing.T) *membersFile {
	return &membersFile{t, filepath.Join(t.TempDir(), "members")}
}

func (f *membersFile) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path+".new", []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		f.t.Fatal(err)
	}
}

// TestListsByOne: a list that skips an epoch is refused by running peers and by those that start with
// it. A list that comes before the last one is active waits.
func TestListsByOne(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	cfg := brief
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	file := newMembersFile(t)
	a, b, d := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	defer d.Close()
	pair := fmt.Sprintf("1 %s\n2 %s\n", a.Addr(), b.Addr())
	file.write("epoch 1\n" + pair)
	cfg.Membership = engine.FromFile(file.path)
	peers := []*engine.Peer{begin(t, cfg, a), begin(t, cfg, b)}
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %+v, %+v\n%s", what, peers[0].Status(), peers[1].Status(), log.String())
			}
		}
	}
	both := func(ok func(engine.Status) bool) func() bool {
		return func() bool { return ok(peers[0].Status()) && ok(peers[1].Status()) }
	}

	far := fmt.Sprintf("epoch 3\n2 %s\n4 %s\n", b.Addr(), d.Addr())
	file.write(far + fmt.Sprintf("was 2 %s\nwas 4 %s\n", b.Addr(), d.Addr()))
	until("nobody says what to write", func() bool { return strings.Count(log.String(), "write epoch 2") >= 2 })
	newcomer := cfg
	newcomer.Self, newcomer.Listener = d.Addr().String(), d
	if p, err := engine.Start(t.Context(), newcomer); !errors.Is(err, engine.ErrConfig) || !strings.Contains(err.Error(), "first let epoch 2 become active") {
		if err == nil {
			p.Close()
		}
		t.Errorf("a peer that starts with epoch 3 beside epoch 1: %v", err)
	}
	if s := peers[0].Status(); s.Epoch != 1 || s.Active != 1 {
		t.Errorf("a list that was refused: %+v", s)
	}

	file.write("epoch 2\n" + pair + "4 " + d.Addr().String() + "\n")
	until("epoch 2 is not taken", both(func(s engine.Status) bool { return s.Epoch == 2 }))
	file.write("epoch 3\n" + pair)
	until("epoch 3 never comes", both(func(s engine.Status) bool { return s.Epoch == 3 && s.Active == 3 }))

	file.write("epoch 4\n1 " + a.Addr().String() + "\n2 " + d.Addr().String() + "\n")
	until("a peer moves", func() bool { return strings.Contains(log.String(), "a peer that moves is a new one") })
}

// TestOldList: no peer starts with a list that is older than that of the others, or that names other
// members before.
func TestOldList(t *testing.T) {
	t.Parallel()
	var listeners []net.Listener
	addrs := map[machine.NodeID]string{}
	for i := range 3 {
		l := listen(t, "127.0.0.1:0")
		listeners = append(listeners, l)
		addrs[machine.NodeID(i+1)] = l.Addr().String()
	}
	defer listeners[2].Close()
	cfg := brief
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Membership = engine.Fixed(engine.Members{Epoch: 2, Addrs: addrs})
	begin(t, cfg, listeners[0])
	begin(t, cfg, listeners[1])
	cfg.Self, cfg.Listener = addrs[3], listeners[2]
	for want, m := range map[string]engine.Members{
		"start it with the newest list": {Epoch: 1, Addrs: addrs},
		"says that there was epoch 2":   {Epoch: 3, Addrs: addrs, Was: map[machine.NodeID]string{1: addrs[1], 3: addrs[3]}},
		"a peer that moves":             {Epoch: 3, Addrs: addrs, Was: map[machine.NodeID]string{1: addrs[1], 2: "127.0.0.1:1"}},
	} {
		cfg.Membership = engine.Fixed(m)
		if p, err := engine.Start(t.Context(), cfg); !errors.Is(err, engine.ErrConfig) || !strings.Contains(err.Error(), want) {
			if err == nil {
				p.Close()
			}
			t.Errorf("%v: %v, want %q", m, err, want)
		}
	}
}
