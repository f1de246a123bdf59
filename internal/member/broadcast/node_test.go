package broadcast_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tenure-lease/tenure/internal/core/abcast"
	"github.com/tenure-lease/tenure/internal/lab/patience"
	"github.com/tenure-lease/tenure/internal/machine"
	"github.com/tenure-lease/tenure/internal/member/broadcast"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// group is members on the loopback.
type group struct {
	t       *testing.T
	members map[machine.NodeID]string
	dirs    map[machine.NodeID]string
	nodes   map[machine.NodeID]*broadcast.Node
	change  func(*broadcast.Config)
}

func newGroup(t *testing.T, n int) *group {
	t.Helper()
	return newGroupOf(t, n, nil)
}

// newGroupOf is newGroup with other configurations.
func newGroupOf(t *testing.T, n int, change func(*broadcast.Config)) *group {
	t.Helper()
	g := &group{t: t, members: map[machine.NodeID]string{}, dirs: map[machine.NodeID]string{}, nodes: map[machine.NodeID]*broadcast.Node{}, change: change}
	listeners := map[machine.NodeID]net.Listener{}
	for i := range n {
		id := machine.NodeID(i + 1)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[id], g.members[id], g.dirs[id] = ln, ln.Addr().String(), t.TempDir()
	}
	for id, ln := range listeners {
		g.start(id, ln)
	}
	t.Cleanup(func() {
		for _, node := range g.nodes {
			if err := patience.Returns(t, "Close", node.Close); err != nil {
				t.Error(err)
			}
		}
	})
	for id, node := range g.nodes { // a founder takes part once most of the others have noted its directory: a test may stop one
		select {
		case <-node.Counts():
		case <-soon(t).Done():
			t.Fatalf("member %d waits for the others to note its directory", id)
		}
	}
	return g
}

func (g *group) start(id machine.NodeID, ln net.Listener) {
	g.t.Helper()
	for ctx := soon(g.t); ln == nil; {
		var err error
		// Another process of this machine may have been given the port meanwhile.
		if ln, err = net.Listen("tcp", g.members[id]); err != nil && (!errors.Is(err, syscall.EADDRINUSE) || ctx.Err() != nil) {
			g.t.Fatal(err)
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	cfg := broadcast.Config{
		ID: id, Group: 7, Members: g.members, Listener: ln, Dir: g.dirs[id], Timeout: 400 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if g.change != nil {
		g.change(&cfg)
	}
	node, err := broadcast.Start(cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	g.nodes[id] = node
}

func (g *group) stop(id machine.NodeID) {
	g.t.Helper()
	if err := patience.Returns(g.t, "Close", g.nodes[id].Close); err != nil {
		g.t.Error(err)
	}
	delete(g.nodes, id)
}

func soon(t testing.TB) context.Context { return patience.Soon(t) }

// delivered returns the payloads of n messages from a position on.
func (g *group) delivered(id machine.NodeID, from broadcast.Position, n int) (payloads []string) {
	g.t.Helper()
	if n == 0 {
		return nil
	}
	for m, err := range g.nodes[id].Deliver(soon(g.t), from) {
		if err != nil {
			g.t.Fatalf("member %d, behind %d messages from %d on: %v", id, len(payloads), from, err)
		}
		if want := from + broadcast.Position(len(payloads)); m.Position != want {
			g.t.Fatalf("member %d delivers position %d, want %d", id, m.Position, want)
		}
		if payloads = append(payloads, string(m.Payload)); len(payloads) == n {
			break
		}
	}
	return payloads
}

func (g *group) broadcast(id machine.NodeID, payload string) broadcast.Position {
	g.t.Helper()
	ctx := soon(g.t)
	position, err := g.nodes[id].Broadcast(ctx, []byte(payload))
	for errors.Is(err, broadcast.ErrBusy) && ctx.Err() == nil { // its disk is slow, and there is little memory
		time.Sleep(time.Millisecond)
		position, err = g.nodes[id].Broadcast(ctx, []byte(payload))
	}
	if err != nil {
		g.t.Fatalf("member %d, %s: %v", id, payload, err)
	}
	return position
}

// trim has a member's application make a snapshot of a position and trim there.
func (g *group) trim(id machine.NodeID, at broadcast.Position) {
	g.t.Helper()
	err := g.nodes[id].Snapshot(at, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "state after %d", at)
		return err
	})
	if err == nil {
		err = g.nodes[id].Trim(at)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

// wantSnapshot wants the snapshot of trim at a position.
func (g *group) wantSnapshot(id machine.NodeID, want broadcast.Position) {
	g.t.Helper()
	at, r, err := g.nodes[id].Install()
	if err != nil {
		g.t.Fatal(err)
	}
	defer r.Close()
	if state, err := io.ReadAll(r); at != want || err != nil || string(state) != fmt.Sprintf("state after %d", want) {
		g.t.Errorf("member %d installs %q of position %d, %v; want that of %d", id, state, at, err, want)
	}
}

func TestSameOrderEverywhere(t *testing.T) {
	g := newGroup(t, 3)
	const each = 50
	var all sync.WaitGroup
	at := make([]string, 3*each+1)
	var mu sync.Mutex
	for id := range g.nodes {
		for i := range each {
			all.Go(func() {
				payload := fmt.Sprintf("%d.%d", id, i)
				position, err := g.nodes[id].Broadcast(soon(t), []byte(payload))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				at[position] = payload
			})
		}
	}
	all.Wait()
	for id := range g.nodes {
		for i, payload := range g.delivered(id, 1, 3*each) {
			if payload != at[i+1] {
				t.Fatalf("member %d delivers %q at %d, and its broadcast returned at that of %q", id, payload, i+1, at[i+1])
			}
		}
	}
}

func TestMembersGoAndComeBack(t *testing.T) {
	g := newGroup(t, 3)
	for i := range 5 {
		g.broadcast(1, fmt.Sprint(i))
	}
	leader := g.nodes[2].Leader()
	g.stop(leader)
	other := machine.NodeID(1)
	if leader == other {
		other = 2
	}
	for i := range 5 {
		g.broadcast(other, fmt.Sprint(5+i))
	}
	g.start(leader, nil)
	for i, payload := range g.delivered(leader, 1, 10) {
		if payload != fmt.Sprint(i) {
			t.Errorf("position %d is %q, want %d", i+1, payload, i)
		}
	}
	if p := g.broadcast(leader, "back"); p != 11 {
		t.Errorf("the next position is %d, want 11", p)
	}
}

func TestAllRestart(t *testing.T) {
	g := newGroup(t, 3)
	for i := range 10 {
		g.broadcast(2, fmt.Sprint(i))
	}
	g.delivered(1, 1, 10)
	g.trim(1, 4)
	g.broadcast(1, "10")
	for id := range g.members {
		g.stop(id)
	}
	for id := range g.members {
		g.start(id, nil)
	}
	g.wantSnapshot(1, 4)
	for m, err := range g.nodes[1].Deliver(soon(t), 4) {
		if !errors.Is(err, broadcast.ErrTrimmed) {
			t.Errorf("position 4 was trimmed: got %+v, %v", m, err)
		}
	}
	for id := range g.members {
		for i, payload := range g.delivered(id, 5, 7) {
			if payload != fmt.Sprint(4+i) {
				t.Errorf("member %d: position %d is %q", id, 5+i, payload)
			}
		}
	}
}

func TestExactlyOnce(t *testing.T) {
	g := newGroup(t, 3)
	client := g.nodes[1].NewClient()
	for _, id := range []machine.NodeID{1, 2, 3, 1} {
		if p, err := g.nodes[id].BroadcastAs(soon(t), client, 1, []byte("once")); err != nil || p > 1 {
			t.Errorf("member %d: position %d, %v; want 1, or 0 for what it knows to be ordered", id, p, err)
		}
	}
	if p, err := g.nodes[2].BroadcastAs(soon(t), client, 0, nil); !errors.Is(err, broadcast.ErrSequence) {
		t.Errorf("number 0, which is none of a client's: position %d, %v; want ErrSequence", p, err)
	}
	if _, err := g.nodes[2].BroadcastAs(soon(t), client, 3, nil); !errors.Is(err, broadcast.ErrSequence) {
		t.Errorf("number 3 without number 2: got %v, want ErrSequence", err)
	}
	if _, err := g.nodes[2].BroadcastAs(soon(t), client, 2, []byte("twice")); err != nil {
		t.Error(err)
	}
	if got := g.delivered(3, 1, 2); got[0] != "once" || got[1] != "twice" {
		t.Errorf("got %q", got)
	}
}

// A caller that gives up may use its payload's memory again, though the message may still be
// ordered.
func TestPayloadIsCopied(t *testing.T) {
	g := newGroupOf(t, 2, func(c *broadcast.Config) { c.Algorithm = func(a *abcast.Config) { a.Pipeline = 1 } }) // the second waits behind the first
	g.broadcast(1, "before")
	g.stop(2)
	for _, text := range []string{"first", "second"} {
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		payload := []byte(text)
		if _, err := g.nodes[1].Broadcast(short, payload); !errors.Is(err, broadcast.ErrUnknown) {
			t.Fatalf("without a majority: got %v, want ErrUnknown", err)
		}
		copy(payload, "other")
	}
	g.start(2, nil)
	if got := g.delivered(1, 2, 2); got[0] != "first" || got[1] != "second" {
		t.Errorf("what was broadcast as first and second is delivered as %q", got)
	}
}

func TestForgottenClients(t *testing.T) {
	g := newGroup(t, 0)
	g.change = func(c *broadcast.Config) { c.Clients = 2 }
	g.members[1], g.dirs[1] = "127.0.0.1:0", t.TempDir()
	g.start(1, nil)
	clients := []machine.ID{g.nodes[1].NewClient(), g.nodes[1].NewClient()}
	as := func(client int, seq uint64) (broadcast.Position, error) {
		return g.nodes[1].BroadcastAs(soon(t), clients[client], seq, nil)
	}
	g.broadcast(1, "a")
	for client := range clients {
		if p, err := as(client, 1); err != nil || p != broadcast.Position(client)+2 {
			t.Errorf("client %d: position %d, %v", client, p, err)
		}
	}
	if p := g.broadcast(1, "b"); p != 4 { // the node itself was forgotten
		t.Errorf("b is at position %d, want 4", p)
	}
	for seq := range uint64(2) {
		if p, err := as(0, seq+1); !errors.Is(err, broadcast.ErrSequence) {
			t.Errorf("number %d of a client that was forgotten: position %d, %v; want ErrSequence", seq+1, p, err)
		}
	}
	if p, err := g.nodes[1].BroadcastAs(soon(t), g.nodes[1].NewClient(), 1, nil); err != nil || p != 5 {
		t.Errorf("a client that was made just now: position %d, %v; want 5", p, err)
	}
	if p, err := g.nodes[1].BroadcastAs(soon(t), machine.ID{9}, 1, nil); !errors.Is(err, broadcast.ErrClient) {
		t.Errorf("a client that was not made by NewClient: position %d, %v; want ErrClient", p, err)
	}
}

// clients has so many clients broadcast one message each, and returns the ID that theirs
// come from: see clientOf.
func (g *group) clients(at machine.NodeID, n int, payload []byte) machine.ID {
	all := g.nodes[at].NewClient()
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			if _, err := g.nodes[at].BroadcastAs(soon(g.t), clientOf(all, i), 1, payload); err != nil {
				g.t.Error(err)
			}
		})
	}
	work.Wait()
	return all
}

func clientOf(all machine.ID, i int) machine.ID {
	all[15], all[14] = byte(i), byte(i>>8)
	return all
}

// A member that is behind, or new, gets many clients apart from all other messages. It knows
// them then.
func TestManyClientsAreTransferred(t *testing.T) {
	const clients = 1500
	g := newGroup(t, 3)
	g.broadcast(1, "1")
	g.delivered(3, 1, 1)
	g.stop(3)
	all := g.clients(1, clients, make([]byte, 100))
	for id := machine.NodeID(1); id <= 2; id++ {
		g.delivered(id, clients+1, 1)
		g.trim(id, clients+1)
	}
	g.start(3, nil)
	addr := g.join(4)
	if _, err := g.nodes[1].AddMember(soon(t), 4, addr); err != nil {
		t.Fatal(err)
	}
	for id := machine.NodeID(3); id <= 4; id++ {
		if err := g.nodes[id].Joined(soon(t)); err != nil {
			t.Fatal(err)
		}
		g.delivered(id, clients+2, 1)
		g.wantSnapshot(id, clients+1)
		for _, i := range []int{0, clients - 1} {
			if p, err := g.nodes[id].BroadcastAs(soon(t), clientOf(all, i), 1, nil); p != 0 || err != nil {
				t.Errorf("member %d: client %d's message is ordered again, at %d, %v", id, i, p, err)
			}
			if p, err := g.nodes[id].BroadcastAs(soon(t), clientOf(all, i), 2, nil); p == 0 && id == 3 || err != nil {
				t.Errorf("member %d: client %d's next message is at %d, %v", id, i, p, err)
			}
		}
	}
}

// With many clients a Trim waits for others before the log is written anew. Trimmed messages
// are delivered no more all the same, and all others are there after a restart.
func TestTrimWithManyClients(t *testing.T) {
	const clients = 1500
	g := newGroup(t, 1)
	all := g.clients(1, clients, nil)
	for last := broadcast.Position(clients); last < clients+3; last++ {
		g.trim(1, last-1)
		g.stop(1)
		g.start(1, nil)
		if p := g.nodes[1].Position(); p != last {
			t.Errorf("after a restart the member is at %d, want %d", p, last)
		}
		g.wantSnapshot(1, last-1)
		g.delivered(1, last, 1)
		if p := g.broadcast(1, "x"); p != last+1 {
			t.Errorf("the next is at %d, want %d", p, last+1)
		}
	}
	if p, err := g.nodes[1].BroadcastAs(soon(t), g.nodes[1].NewClient(), 2, nil); !errors.Is(err, broadcast.ErrSequence) {
		t.Errorf("number 2 of somebody new: position %d, %v; want ErrSequence", p, err)
	}
	first := clientOf(all, 0)
	if p, err := g.nodes[1].BroadcastAs(soon(t), first, 1, nil); err != nil || p != 0 {
		t.Errorf("number 1 of a client that is remembered: position %d, %v; want 0, for it was ordered before", p, err)
	}
}

func TestErrors(t *testing.T) {
	g := newGroup(t, 3)
	g.broadcast(1, "x")
	if _, err := g.nodes[1].Broadcast(soon(t), make([]byte, broadcast.MessageBytesMax+1)); !errors.Is(err, broadcast.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
	g.broadcast(1, string(make([]byte, broadcast.MessageBytesMax)))
	g.stop(2)
	g.stop(3)
	// A minority orders nothing, and a call with a deadline says so.
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if p, err := g.nodes[1].Broadcast(ctx, []byte("y")); !errors.Is(err, broadcast.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %d, %v; want ErrUnknown because of the deadline", p, err)
	}
	node := g.nodes[1] // the group forgets a node that stops, and a goroutine may be late
	busy := 0
	var waiting sync.WaitGroup
	results := make(chan error, 40)
	for range 40 {
		waiting.Go(func() {
			_, err := node.Broadcast(context.Background(), make([]byte, 1<<19))
			results <- err
		})
	}
	for range 8 { // 16 MiB hold 31 of them beside the one that waits
		if err := patience.Within(t, results, "a call returns"); errors.Is(err, broadcast.ErrBusy) {
			busy++
		}
	}
	if busy != 8 {
		t.Errorf("%d of the first 8 answers were ErrBusy, want all", busy)
	}
	g.stop(1)
	waiting.Wait()
	for range 32 {
		if err := patience.Within(t, results, "a call returns"); !errors.Is(err, broadcast.ErrUnknown) && !errors.Is(err, broadcast.ErrBusy) && !errors.Is(err, broadcast.ErrClosed) {
			t.Errorf("what was under way at the end: got %v, want ErrUnknown", err)
		}
	}
	if _, err := node.Broadcast(context.Background(), nil); !errors.Is(err, broadcast.ErrClosed) || errors.Is(err, broadcast.ErrUnknown) {
		t.Errorf("got %v, want ErrClosed alone", err)
	}
}

func TestDirectoriesOfOthers(t *testing.T) {
	dir := t.TempDir()
	cfg := broadcast.Config{ID: 1, Group: 7, Members: map[machine.NodeID]string{1: "127.0.0.1:1"}, Dir: dir}
	n, err := broadcast.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := n.Broadcast(soon(t), []byte("alone")); err != nil || p != 1 {
		t.Errorf("a group of one: position %d, %v", p, err)
	}
	if p, err := n.Barrier(soon(t)); err != nil || p != 2 || n.Position() != 2 {
		t.Errorf("a barrier: position %d of %d, %v", p, n.Position(), err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*broadcast.Config){
		"another group":  func(c *broadcast.Config) { c.Group = 8 },
		"another member": func(c *broadcast.Config) { c.ID, c.Members = 2, map[machine.NodeID]string{2: "127.0.0.1:1"} },
	} {
		other := cfg
		change(&other)
		if n, err := broadcast.Start(other); !errors.Is(err, broadcast.ErrGroup) {
			t.Errorf("%s: got %v, %v; want ErrGroup", name, n, err)
		}
	}
	other := cfg
	other.Clients = 5
	if n, err := broadcast.Start(other); err == nil || !strings.Contains(err.Error(), "remember 100000 clients, which cannot be changed, and Clients is 5") {
		t.Errorf("other Clients: got %v, %v", n, err)
	}
	cfg.Members = map[machine.NodeID]string{1: "127.0.0.1:1", 2: "127.0.0.1:2"}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cfg.Listener = ln
	if n, err = broadcast.Start(cfg); err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if p, err := n.Barrier(soon(t)); err != nil || p != 3 || len(n.Members()) != 1 {
		t.Errorf("other members than the log knows: position %d, %v, members %v", p, err, n.Members())
	}
}
